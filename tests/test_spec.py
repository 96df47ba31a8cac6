"""images.toml and module.toml, each rule by itself: the exact text, line and key of every fault."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from composer.errors import InputError
from composer.oci.digest import sha256
from composer.spec import ImagesFile, ModuleFile
from composer.tomlfile import parse, validate

DIGEST = str(sha256(b""))


def images(text: str) -> ImagesFile:
    return validate(parse(text.encode(), "images.toml"), ImagesFile)


def told(text: str, model: type[BaseModel], shown: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        validate(parse(text.encode(), shown), model)
    return [str(fault) for fault in caught.value.faults]


def images_faults(text: str) -> list[str]:
    return told(f"schema = 1\n{text}", ImagesFile, "images.toml")


def module(text: str) -> ModuleFile:
    text = f'schema = 1\nname = "m"\nsummary = "s"\n{text}'
    return validate(parse(text.encode(), "module.toml"), ModuleFile)


def module_faults(text: str) -> list[str]:
    text = f'schema = 1\nname = "m"\nsummary = "s"\n{text}'
    return told(text, ModuleFile, "module.toml")


def checks(text: str) -> list[tuple[tuple[str | int, ...], str]]:
    return module(text).checks()


WHEELS = 'wheels = ["x"]\nplatforms = ["linux/amd64"]\npython = "3.12"\npackage_root = "/r"\n'

# images.toml


def test_all_that_an_images_file_can_say() -> None:
    spec = images(
        f"""\
schema = 1

[bases."vllm-0.28"]
{WHEELS}
interpreter = "/usr/bin//python3"
glibc = "2.35"

[bases.gpu]
image = "docker.io/vllm/vllm-openai:v0.28.0"
platforms = ["linux/amd64", "linux/arm64/v8"]

[images.app]
base = "gpu"
modules = ["one", "two.three-4_5"]
retired = ["old"]
repository = "registry.example/app"
knobs = {{ VLLM_A = "1" }}
env = {{ E = "" }}
labels = {{ "any.thing" = "x" }}
entrypoint = ["vllm"]
cmd = []
workdir = "//srv/./app/"
cache_namespace = true

[images.child]
extends = "app"

[deploy.prod]
file = "deploy/compose.yaml"
kind = "compose"
at = "services.vllm.image"
form = "digest"
"""
    )
    assert spec.bases["vllm-0.28"].interpreter == "/usr/bin/python3"
    assert spec.bases["gpu"].platforms == ("linux/amd64", "linux/arm64")
    app = spec.images["app"]
    assert (app.workdir, app.cmd, app.cache_namespace) == ("/srv/app", (), True)
    assert spec.images["child"].cmd is None
    assert spec.deploy["prod"].form == "digest"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            '[bases.b]\nimage = "x"\n',
            "the key 'schema' is missing\n  where:    images.toml:1 schema",
        ),
        (
            "schema = 2\n",
            (
                "not one of the values it takes\n  where:    images.toml:1 schema\n"
                "  expected: 1\n  found:    2"
            ),
        ),
    ],
)
def test_the_schema(text: str, fault: str) -> None:
    assert told(text, ImagesFile, "images.toml") == [fault]


NAME = "a name has lower-case letters and digits, with '-', '_' or '.' inside"


@pytest.mark.parametrize("name", ["A", "a b", "-a", "a-", ".", "", "é", "a/b", "../a", "a\\n"])
def test_names(name: str) -> None:
    for table in ("bases", "images", "deploy"):
        key = {"a\\n": "a\n"}.get(name, name)
        (fault,) = [one for one in images_faults(f'[{table}."{name}"]\n') if NAME in one]
        assert fault == (
            f"{NAME}\n  where:    images.toml:2 {table}.{spelled(name)}\n  found:    {key!r}"
        )


def spelled(key: str) -> str:
    return key if key.replace("-", "").isalnum() and key.isascii() else f'"{key}"'


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["a base needs 'image' or 'wheels'\n  where:    images.toml:2 bases.b"]),
        (
            'wheels = ["x"]\npython = "3.12"\npackage_root = "/r"\n',
            [("a base of wheels needs 'platforms'\n  where:    images.toml:2 bases.b\n"
             "  fix:      no image says it")],
        ),
        (
            'wheels = ["x"]\nplatforms = ["linux/amd64"]\npackage_root = "/r"\n',
            [("a base of wheels needs 'python'\n  where:    images.toml:2 bases.b\n"
             "  fix:      no image says it")],
        ),
        (
            'wheels = ["x"]\nplatforms = ["linux/amd64"]\npython = "3.12"\n',
            [("a base of wheels needs 'package_root'\n  where:    images.toml:2 bases.b\n"
             "  fix:      no image says it")],
        ),
        (
            'image = "x"\nplatforms = ["linux/arm64", "linux/arm64/v8"]\n',
            ["a platform is listed twice\n  where:    images.toml:2 bases.b"],
        ),
        (
            'image = "x"\nplatforms = [\n"linux/amd64",\n"amd64"]\n',
            [("'amd64' is not a platform, such as linux/amd64 or linux/arm64\n"
             "  where:    images.toml:6 bases.b.platforms[1]\n  found:    'amd64'")],
        ),
        (
            'image = "x"\npython = "3"\nglibc = "2.35.1"\n',
            [("not a version of the form 3.12\n  where:    images.toml:4 bases.b.python\n"
             "  found:    '3'"),
             ("not a version of the form 3.12\n  where:    images.toml:5 bases.b.glibc\n"
             "  found:    '2.35.1'")],
        ),
        (
            'image = "x"\npackage_root = "usr/lib"\ninterpreter = "/usr/../bin/python"\n',
            [("not an absolute path of the image\n  where:    images.toml:4 bases.b.package_root\n"
             "  found:    'usr/lib'"),
             ("not an absolute path of the image\n  where:    images.toml:5 bases.b.interpreter\n"
             "  found:    '/usr/../bin/python'")],
        ),
        (
            'image = 5\nimages = "x"\n',
            ["a text in quotes is needed\n  where:    images.toml:3 bases.b.image\n  found:    5",
             ("unknown key 'images'\n  where:    images.toml:4 bases.b.images\n"
             "  fix:      did you mean 'image'?")],
        ),
    ],
)  # fmt: skip
def test_bases(text: str, faults: list[str]) -> None:
    assert images_faults(f"[bases.b]\n{text}") == faults


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["an image needs 'base' or 'extends'\n  where:    images.toml:2 images.i"]),
        (
            'base = "b"\nmodule = ["x"]\n',
            [("unknown key 'module'\n  where:    images.toml:4 images.i.module\n"
             "  fix:      did you mean 'modules'?")],
        ),
        (
            'base = "b"\nmodules = ["ok", "../up"]\nretired = ["Old"]\n',
            [f"{NAME}\n  where:    images.toml:4 images.i.modules[1]\n  found:    '../up'",
             f"{NAME}\n  where:    images.toml:5 images.i.retired[0]\n  found:    'Old'"],
        ),
        (
            'base = "b"\nrepository = "registry.example/app:1"\n',
            [("a repository has no tag and no digest\n"
             "  where:    images.toml:4 images.i.repository\n"
             "  found:    'registry.example/app:1'")],
        ),
        (
            f'base = "b"\nrepository = "registry.example/app@{DIGEST}"\n',
            [("a repository has no tag and no digest\n"
             "  where:    images.toml:4 images.i.repository\n"
             f"  found:    'registry.example/app@{DIGEST}'")],
        ),
        (
            'base = "b"\nknobs = { "A-B" = "1" }\nenv = { 1A = "", B = 1 }\n',
            [("not the name of an environment variable\n"
             "  where:    images.toml:4 images.i.knobs.A-B\n  found:    'A-B'"),
             ("not the name of an environment variable\n"
             "  where:    images.toml:5 images.i.env.1A\n  found:    '1A'"),
             "a text in quotes is needed\n  where:    images.toml:5 images.i.env.B\n  found:    1"],
        ),
        (
            ('base = "b"\n[images.i.labels]\n"dev.compose.inputs" = ""\n'
            '"org.opencontainers.image.base.name" = ""\n'),
            [('compose sets this label itself\n'
             '  where:    images.toml:5 images.i.labels."dev.compose.inputs"\n'
             "  found:    'dev.compose.inputs'\n  fix:      choose another name"),
             ('compose sets this label itself\n'
             '  where:    images.toml:6 images.i.labels."org.opencontainers.image.base.name"\n'
             "  found:    'org.opencontainers.image.base.name'\n  fix:      choose another name")],
        ),
        (
            'base = "b"\ncmd = "serve"\nentrypoint = [1]\nworkdir = "srv"\n',
            [("a text in quotes is needed\n  where:    images.toml:5 images.i.entrypoint[0]\n"
             "  found:    1"),
             "a list is needed\n  where:    images.toml:4 images.i.cmd\n  found:    'serve'",
             ("not an absolute path of the image\n  where:    images.toml:6 images.i.workdir\n"
             "  found:    'srv'")],
        ),
        (
            'base = "b"\ncache_namespace = "yes"\n',
            [("true or false is needed, without quotes\n"
             "  where:    images.toml:4 images.i.cache_namespace\n  found:    'yes'")],
        ),
    ],
)  # fmt: skip
def test_images(text: str, faults: list[str]) -> None:
    assert images_faults(f"[images.i]\n{text}") == faults


def test_deploys() -> None:
    assert images_faults('[deploy.d]\nfile = "x"\nkind = "docker"\nform = "tag"\n') == [
        (
            "not one of the values it takes\n  where:    images.toml:4 deploy.d.kind\n"
            "  expected: 'compose', 'kubernetes', 'kustomize', 'helm', 'dotenv', 'toml' or 'json'\n"
            "  found:    'docker'"
        ),
        "the key 'at' is missing\n  where:    images.toml:2 deploy.d.at",
        (
            "not one of the values it takes\n  where:    images.toml:5 deploy.d.form\n"
            "  expected: 'tag+digest', 'digest' or 'image-id'\n  found:    'tag'"
        ),
    ]


def test_all_faults_of_a_file_at_once() -> None:
    text = "bases = { b = {} }\n[images.i]\n[images.j]\nbase = 1\n[imagez]\n"
    assert [fault.partition("\n")[0] for fault in images_faults(text)] == [
        "a base needs 'image' or 'wheels'",
        "an image needs 'base' or 'extends'",
        "a text in quotes is needed",
        "unknown key 'imagez'",
    ]


# module.toml


def test_all_that_a_module_can_say() -> None:
    spec = module(
        f"""\
requires = ["other"]
conflicts = ["third"]
[[patch]]
target = "vllm/a.py"
file = "a.patch"
preimage = ["{DIGEST}"]
[[add]]
target = "/opt/b"
file = "files/b"
[[replace]]
target = "c"
file = "c"
preimage = ["{DIGEST}"]
[[remove]]
target = "d"
preimage = ["{DIGEST}"]
[[read]]
target = "e"
preimage = ["{DIGEST}"]
[[knob]]
name = "VLLM_A"
values = ["0", "1"]
default = "0"
summary = "switches it"
[[marker]]
when = {{ VLLM_A = "1" }}
process = ["APIServer"]
present = ["[a] on"]
absent = ["[a] off"]
disarm = ["[a] gone"]
[effect]
script = "effect.py"
arms = [{{ VLLM_A = "1" }}]
default = "active"
[python]
requirements = "requirements.lock"
[[experiment]]
hypothesis = "faster"
arms = {{ off = {{ VLLM_A = "0" }}, on = {{ VLLM_A = "1" }} }}
gates = [{{ metric = "tps", at_least = 1, within_percent = 2.5 }}]
bracket = ["off", "on", "off"]
"""
    )
    assert spec.checks() == []
    assert spec.patch[0].preimage == (DIGEST,)
    assert spec.experiment[0].gates[0].at_least == 1


def test_what_a_module_must_say() -> None:
    assert told("", ModuleFile, "module.toml") == [
        "the key 'schema' is missing\n  where:    module.toml:1 schema",
        "the key 'name' is missing\n  where:    module.toml:1 name",
        "the key 'summary' is missing\n  where:    module.toml:1 summary",
    ]


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("", "a target is the path of a file"),
        ("/", "a target is the path of a file"),
        ("vllm/", "a target is the path of a file"),
        ("../x", "a target may not leave its root"),
        ("vllm/../../etc/passwd", "a target may not leave its root"),
        ("/opt/..", "a target may not leave its root"),
        ("a\\nb", "a target has no control characters"),
        ("a\\u0000b", "a target has no control characters"),
        ("a\\u001b[0m", "a target has no control characters"),
    ],
)
def test_targets(target: str, what: str) -> None:
    for kind in ("patch", "add", "replace", "remove", "read"):
        text = f'[[{kind}]]\ntarget = "{target}"\n'
        text += "" if kind in ("remove", "read") else 'file = "x"\n'
        text += "" if kind == "add" else f'preimage = ["{DIGEST}"]\n'
        (fault,) = module_faults(text)
        assert fault.startswith(f"{what}\n  where:    module.toml:5 {kind}[0].target\n")


@pytest.mark.parametrize("target", ["a", "a/b.py", "/opt/x", "./a", "a//b", "..a/b..", "a b", "é"])
def test_targets_that_are_fine(target: str) -> None:
    assert module(f'[[add]]\ntarget = "{target}"\nfile = "x"\n').add[0].target == target


@pytest.mark.parametrize("file", ["", "/abs", "..", "../x", "a/../../x", "a/..", ".", "./"])
def test_files_stay_in_the_folder_of_the_module(file: str) -> None:
    what = "a file of the module is named relative to the module's folder, and lies below it"
    assert module_faults(f'[[add]]\ntarget = "a"\nfile = "{file}"\n') == [
        f"{what}\n  where:    module.toml:6 add[0].file\n  found:    {file!r}"
    ]
    (fault,) = module_faults(f'[effect]\nscript = "{file}"\n')
    assert fault.startswith(what)
    (fault,) = module_faults(f'[python]\nrequirements = "{file}"\n')
    assert fault.startswith(what)


def test_a_file_name_with_a_nul() -> None:
    (fault,) = module_faults('[[add]]\ntarget = "a"\nfile = "a\\u0000"\n')
    assert fault.startswith("a file of the module has no control characters in its name\n")


@pytest.mark.parametrize(
    ("preimage", "where", "what"),
    [
        ("[]", "preimage", "the list is empty"),
        (f'"{DIGEST}"', "preimage", "a list is needed"),
        ('["abc"]', "preimage[0]", "'abc' is not a digest, such as sha256:<64 hex digits>"),
        ('["md5:abc"]', "preimage[0]", "digest algorithm 'md5' is none of sha256, sha512"),
        (f'["{DIGEST}", "sha512:{"0" * 128}"]', "preimage[1]", "a preimage is a sha256 digest"),
        (f'["{DIGEST.upper()}"]', "preimage[0]", "digest algorithm 'SHA256' is none of"),
        (f'["{DIGEST[:-1]}"]', "preimage[0]", "sha256 digest"),
    ],
)
def test_preimages(preimage: str, where: str, what: str) -> None:
    (fault,) = module_faults(f'[[remove]]\ntarget = "a"\npreimage = {preimage}\n')
    assert fault.startswith(what)
    assert f"\n  where:    module.toml:6 remove[0].{where}" in fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            'name = "A-B"\nvalues = ["0"]\ndefault = "0"\n',
            (
                "not the name of an environment variable\n  where:    module.toml:5 knob[0].name\n"
                "  found:    'A-B'"
            ),
        ),
        (
            'name = "A"\nvalues = []\ndefault = "0"\n',
            "the list is empty\n  where:    module.toml:6 knob[0].values",
        ),
        (
            'name = "A"\nvalues = ["0", "0"]\ndefault = "0"\n',
            "knob A lists a value twice\n  where:    module.toml:4 knob[0]",
        ),
        (
            'name = "A"\nvalues = ["0", "1"]\ndefault = "yes"\n',
            "knob A: the default 'yes' is not in 'values'\n  where:    module.toml:4 knob[0]",
        ),
        (
            'name = "A"\nvalues = [0]\ndefault = "0"\n',
            (
                "a text in quotes is needed\n  where:    module.toml:6 knob[0].values[0]\n"
                "  found:    0"
            ),
        ),
        (
            'name = "A"\nvalues = ["0"]\n',
            "the key 'default' is missing\n  where:    module.toml:4 knob[0].default",
        ),
    ],
)
def test_knobs(text: str, fault: str) -> None:
    assert module_faults(f"[[knob]]\n{text}") == [fault]


def test_unknown_keys_of_a_module() -> None:
    text = '[[patches]]\n[[patch]]\ntarget = "a"\nfiel = "x"\n[effect]\nscript = "x"\narm = []\n'
    assert module_faults(text) == [
        "the key 'file' is missing\n  where:    module.toml:5 patch[0].file",
        "the key 'preimage' is missing\n  where:    module.toml:5 patch[0].preimage",
        (
            "unknown key 'fiel'\n  where:    module.toml:7 patch[0].fiel\n"
            "  fix:      did you mean 'file'?"
        ),
        (
            "unknown key 'arm'\n  where:    module.toml:10 effect.arm\n"
            "  fix:      did you mean 'arms'?"
        ),
        (
            "unknown key 'patches'\n  where:    module.toml:4 patches\n"
            "  fix:      did you mean 'patch'?"
        ),
    ]


def test_experiments() -> None:
    text = (
        '[[experiment]]\nhypothesis = "h"\narms = { a = {}, "B C" = {} }\n'
        'gates = [\n{ metric = "m" },\n{ metric = "m", at_most = "3" },\n'
        '{ metric = "m", within_percent = 0 }]\n'
    )
    assert [fault.partition("\n  found")[0] for fault in module_faults(text)] == [
        f'{NAME}\n  where:    module.toml:6 experiment[0].arms."B C"',
        (
            "a gate needs 'at_least', 'at_most' or 'within_percent'\n"
            "  where:    module.toml:8 experiment[0].gates[0]"
        ),
        "a number is needed\n  where:    module.toml:9 experiment[0].gates[1].at_most",
        (
            "Input should be greater than 0\n"
            "  where:    module.toml:10 experiment[0].gates[2].within_percent"
        ),
    ]
    text = '[[experiment]]\nhypothesis = "h"\narms = { a = {} }\nbracket = ["a", "b"]\n'
    assert module_faults(f'{text}gates = [{{ metric = "m", at_least = 1 }}]\n') == [
        "the bracket names 'b', which is not an arm\n  where:    module.toml:4 experiment[0]"
    ]


# Between the tables of a module


def test_knobs_declared_twice() -> None:
    knob = '[[knob]]\nname = "A"\nvalues = ["0"]\ndefault = "0"\n'
    assert checks(knob + knob) == [(("knob", 1, "name"), "knob A is declared twice")]


def test_values_that_a_knob_does_not_take() -> None:
    text = """\
[[knob]]
name = "A"
values = ["0", "1"]
default = "0"
[[marker]]
when = { A = "2", OTHER = "2" }
[effect]
script = "x"
arms = [{ A = "0" }, { A = "on" }]
[[experiment]]
hypothesis = "h"
arms = { a = { A = "" } }
gates = [{ metric = "m", at_least = 1 }]
"""
    assert checks(text) == [
        (("marker", 0, "when", "A"), "A takes 0, 1, not '2'"),
        (("effect", "arms", 1, "A"), "A takes 0, 1, not 'on'"),
        (("experiment", 0, "arms", "a", "A"), "A takes 0, 1, not ''"),
    ]


def test_patches_with_one_target_and_preimage() -> None:
    other = str(sha256(b"other"))
    patch = '[[patch]]\ntarget = "{}"\nfile = "x"\npreimage = [{}]\n'
    text = patch.format("a", f'"{DIGEST}"') + patch.format("a", f'"{other}"')
    assert checks(text + patch.format("b", f'"{DIGEST}"')) == []
    assert checks(text + patch.format("a", f'"{other}", "{DIGEST}"')) == [
        (("patch", 2, "preimage"), "patch[1] has the same target and preimage"),
        (("patch", 2, "preimage"), "patch[0] has the same target and preimage"),
    ]
