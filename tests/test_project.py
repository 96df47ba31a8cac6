"""A project on disk: what images inherit, the order of modules, and faults between files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from composer import fingerprint
from composer.errors import InputError
from composer.module import in_order
from composer.oci.digest import sha256
from composer.project import ImageDefinition, Project, load
from tests.support.trees import module

PREIMAGE = str(sha256(b"before"))


@dataclass(frozen=True, slots=True)
class Written:
    """A project that is being written."""

    root: Path

    def images(self, text: str, *, head: str = 'schema = 1\n[bases.b]\nimage = "x"\n') -> Written:
        (self.root / "images.toml").write_text(head + text)
        return self

    def module(self, name: str, text: str = "", **files: bytes) -> Written:
        folder = self.root / "modules" / name
        folder.mkdir(parents=True, exist_ok=True)
        head = f'schema = 1\nname = "{name}"\nsummary = "{name}"\n'
        (folder / "module.toml").write_text(head + text)
        for file, data in files.items():
            (folder / file).write_bytes(data)
        return self

    def image(self, name: str = "i") -> ImageDefinition:
        return load(self.root).image(name)

    def faults(self, name: str = "i") -> list[str]:
        with pytest.raises(InputError) as caught:
            self.image(name)
        return [str(fault) for fault in caught.value.faults]

    def names(self, name: str = "i") -> list[str]:
        return [one.name for one in self.image(name).modules]


@pytest.fixture
def project(tmp_path: Path) -> Written:
    return Written(tmp_path)


# Modules as values


def test_a_module_as_it_is_written(project: Written) -> None:
    text = f"""\
requires = ["z", "a", "z"]
conflicts = ["y"]
[[patch]]
target = "vllm/a.py"
file = "a.patch"
preimage = ["{PREIMAGE}"]
[[replace]]
target = "vllm/b.py"
file = "b"
preimage = ["{PREIMAGE}"]
[[add]]
target = "vllm/c.py"
file = "c"
[[remove]]
target = "vllm/d.py"
preimage = ["{PREIMAGE}"]
[[read]]
target = "vllm/e.py"
preimage = ["{PREIMAGE}"]
[[knob]]
name = "VLLM_A"
values = ["0", "1"]
default = "0"
"""
    project.module(
        "m", text, **{"a.patch": b"patch\r\n", "b": b"\xff", "c": b"", "README.md": b"x"}
    )
    project.images('[images.i]\nbase = "b"\n')
    made = load(project.root).module("m")
    assert (made.name, made.requires, made.conflicts) == ("m", ("a", "z"), ("y",))
    preimages = (sha256(b"before"),)
    seen = [(one.kind, one.target, one.file, one.data, one.preimages) for one in made.changes]
    assert seen == [
        ("patch", "vllm/a.py", "a.patch", b"patch\r\n", preimages),
        ("replace", "vllm/b.py", "b", b"\xff", preimages),
        ("add", "vllm/c.py", "c", b"", ()),
        ("remove", "vllm/d.py", "", b"", preimages),
    ]
    assert [one.place for one in made.changes] == [
        "modules/m/module.toml:6 patch[0]",
        "modules/m/module.toml:10 replace[0]",
        "modules/m/module.toml:14 add[0]",
        "modules/m/module.toml:17 remove[0]",
    ]
    assert made.reads[0].place == "modules/m/module.toml:20 read[0]"
    assert made.knobs[0].place == "modules/m/module.toml:24 knob[0].name"
    assert made.place == "modules/m/module.toml:2 name"
    # The files that reach the image, by what was read of them.
    assert made.inputs.keys() == {
        f"modules/m/{name}" for name in ("module.toml", "a.patch", "b", "c")
    }
    assert made.inputs["modules/m/b"] == hashlib.sha256(b"\xff").hexdigest()


def test_what_is_no_content_of_a_module(project: Written) -> None:
    knobs = '[[knob]]\nname = "K"\nvalues = ["0", "1"]\ndefault = "0"\n'
    text = f'[[add]]\ntarget = "a"\nfile = "a"\n{knobs}'
    project.images('[images.i]\nbase = "b"\n').module("m", text, a=b"a")
    content = fingerprint.content(load(project.root).module("m"))
    for more in (
        "# a comment\n\n",
        'summary = "K is better"\n',
        '[[marker]]\nwhen = { K = "1" }\npresent = ["on"]\n',
        '[effect]\nscript = "effect.py"\narms = [{ K = "1" }]\n',
        '[[experiment]]\nhypothesis = "h"\narms = {}\ngates = [{ metric = "m", at_least = 1 }]\n',
    ):
        project.module("m", text + more, **{"a": b"a", "README.md": more.encode()})
        assert fingerprint.content(load(project.root).module("m")) == content
    project.module("m", text.replace('"a"', '"b"'), b=b"a")
    assert fingerprint.content(load(project.root).module("m")) != content


def test_inputs_of_an_image(project: Written) -> None:
    project.module("m").module("n").images('[images.i]\nbase = "b"\nmodules = ["m"]\n')
    image = project.image()
    assert image.inputs.keys() == {"images.toml", "modules/m/module.toml"}
    raw = (project.root / "images.toml").read_bytes()
    assert image.inputs["images.toml"] == hashlib.sha256(raw).hexdigest()
    assert load(project.root).module_names() == ["m", "n"]


# Inheritance


def test_every_setting_is_inherited(project: Written) -> None:
    knob = '[[knob]]\nname = "{0}"\nvalues = ["0", "1", "2"]\ndefault = "0"\n'
    project.module("m", knob.format("K") + knob.format("L")).module("n")
    project.images(
        """\
[bases.other]
image = "y"
[images.old]
base = "b"
modules = ["m"]
retired = ["gone"]
repository = "registry.example/app"
knobs = { K = "1", L = "1" }
env = { A = "1", B = "1" }
labels = { a = "1", b = "1" }
entrypoint = ["vllm"]
cmd = ["serve"]
workdir = "/srv"
cache_namespace = true
[images.same]
extends = "old"
[images.young]
extends = "same"
base = "other"
modules = ["n"]
retired = ["away"]
repository = "registry.example/young"
knobs = { L = "2" }
env = { B = "2", C = "" }
labels = { b = "2" }
entrypoint = []
cmd = []
workdir = "/"
cache_namespace = false
"""
    )
    same, old, young = (project.image(name) for name in ("same", "old", "young"))
    assert [getattr(same, one) for one in FIELDS] == [getattr(old, one) for one in FIELDS]
    assert {one: getattr(old, one) for one in FIELDS} == {
        "base_name": "b",
        "retired": ("gone",),
        "repository": "registry.example/app",
        "knobs": {"K": "1", "L": "1"},
        "env": {"A": "1", "B": "1"},
        "labels": {"a": "1", "b": "1"},
        "entrypoint": ("vllm",),
        "cmd": ("serve",),
        "workdir": "/srv",
        "cache_namespace": True,
    }
    assert {one: getattr(young, one) for one in FIELDS} == {
        "base_name": "other",
        "retired": ("away", "gone"),
        "repository": "registry.example/young",
        "knobs": {"K": "1", "L": "2"},
        "env": {"A": "1", "B": "2", "C": ""},
        "labels": {"a": "1", "b": "2"},
        "entrypoint": (),
        "cmd": (),
        "workdir": "/",
        "cache_namespace": False,
    }
    assert project.names("same") == ["m"]
    assert project.names("young") == ["m", "n"]
    assert young.base.image == "y"


def test_a_new_entrypoint_clears_the_command_it_was_not_written_for(project: Written) -> None:
    project.images(
        """\
[images.old]
base = "b"
entrypoint = ["vllm"]
cmd = ["serve"]
[images.young]
extends = "old"
entrypoint = ["python3"]
"""
    )
    young = project.image("young")
    assert (young.entrypoint, young.cmd) == (("python3",), None)


FIELDS = (
    "base_name",
    "retired",
    "repository",
    "knobs",
    "env",
    "labels",
    "entrypoint",
    "cmd",
    "workdir",
    "cache_namespace",
)


def test_settings_that_nobody_makes(project: Written) -> None:
    image = project.images('[images.i]\nbase = "b"\n').image()
    assert (image.repository, image.entrypoint, image.cmd, image.workdir) == (None,) * 4
    assert image.cache_namespace is False
    assert (image.modules, image.knobs, image.env) == ([], {}, {})


def test_a_module_of_parent_and_child_counts_once(project: Written) -> None:
    project.module("m").images(
        '[images.old]\nbase = "b"\nmodules = ["m"]\n[images.i]\nextends = "old"\nmodules = ["m"]\n'
    )
    assert project.names() == ["m"]


# Order


def test_the_order_of_modules_does_not_depend_on_the_list(project: Written) -> None:
    project.module("a", 'requires = ["z"]').module("z").module("m").module("b", 'requires = ["a"]')
    for names in permutations("azmb"):
        listed = ", ".join(f'"{name}"' for name in names)
        project.images(f'[images.i]\nbase = "b"\nmodules = [{listed}]\n')
        assert project.names() == ["m", "z", "a", "b"]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_required_modules_come_first_and_ties_go_by_name(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    names = data.draw(st.permutations([f"m{number}" for number in range(count)]))
    requires: dict[str, Sequence[str]] = {}
    for number, name in enumerate(names):
        earlier = st.sampled_from(names[:number] or [name])
        requires[name] = data.draw(st.lists(earlier, max_size=min(number, 3), unique=True))
    listed = data.draw(st.permutations(names))
    made = {name: module(name, requires=requires[name]) for name in listed}
    order, faults = in_order(made, "i")
    assert faults == ()
    left, expected = set(names), []
    while left:
        name = min(name for name in left if not left & set(requires[name]))
        expected.append(name)
        left.remove(name)
    assert [one.name for one in order] == expected


# Faults of images.toml


def test_unknown_image(project: Written) -> None:
    project.images('[images.glm53]\nbase = "b"\n[images.other]\nbase = "b"\n')
    assert project.faults("glm35") == [
        "there is no image 'glm35'\n  where:    images.toml\n  fix:      did you mean 'glm53'?"
    ]
    project.images("")
    assert project.faults("x") == [
        "there is no image 'x'\n  where:    images.toml\n  fix:      there are none"
    ]


def test_unknown_base_and_parent(project: Written) -> None:
    project.images('[images.one]\nbase = "c"\n[images.two]\nextends = "onee"\nbase = "vllm"\n')
    assert project.faults("one") == [
        (
            "there is no base 'c'\n  where:    images.toml:5 images.one.base\n"
            "  fix:      known here: b"
        ),
        (
            "there is no base 'vllm'\n  where:    images.toml:8 images.two.base\n"
            "  fix:      known here: b"
        ),
        (
            "there is no image 'onee'\n  where:    images.toml:7 images.two.extends\n"
            "  fix:      did you mean 'one'?"
        ),
    ]


@pytest.mark.parametrize(
    ("extends", "cycles"),
    [
        ({"a": "a"}, {"a": "a -> a"}),
        ({"a": "b", "b": "a"}, {"a": "a -> b -> a", "b": "b -> a -> b"}),
        ({"a": "b", "b": "c", "c": "b"}, {"b": "b -> c -> b", "c": "c -> b -> c"}),
    ],
)
def test_images_that_extend_each_other(
    project: Written, extends: Mapping[str, str], cycles: Mapping[str, str]
) -> None:
    project.images("".join(f'[images.{one}]\nextends = "{to}"\n' for one, to in extends.items()))
    lines = {name: 5 + 2 * number for number, name in enumerate(extends)}
    assert project.faults() == [
        f"images extend each other in a circle\n"
        f"  where:    images.toml:{lines[name]} images.{name}.extends\n  found:    {cycle}"
        for name, cycle in cycles.items()
    ]


def test_modules_listed_twice_or_retired_too(project: Written) -> None:
    project.images(
        '[images.old]\nbase = "b"\nmodules = ["m", "n", "m"]\nretired = ["n"]\n'
        '[images.i]\nextends = "old"\nretired = ["m", "x"]\n'
    )
    fix = "  fix:      'retired' names modules that are gone from the image on purpose"
    assert project.faults() == [
        "module 'm' is listed twice\n  where:    images.toml:6 images.old.modules",
        (
            f"module 'n' is both in the image and retired\n"
            f"  where:    images.toml:7 images.old.retired\n{fix}"
        ),
        (
            f"module 'm' is both in the image and retired\n"
            f"  where:    images.toml:10 images.i.retired\n{fix}"
        ),
    ]


def test_no_images_file(project: Written) -> None:
    assert project.faults() == [
        (
            "the file cannot be read\n"
            f"  where:    {project.root}/images.toml\n"
            "  found:    No such file or directory"
        )
    ]


# Faults of modules


def test_a_module_that_is_not_there(project: Written) -> None:
    project.module("glm53_fleet_sync").images(
        '[images.old]\nbase = "b"\nmodules = ["glm53_fleet_sink"]\n'
        '[images.i]\nextends = "old"\nmodules = ["none"]\n'
    )
    (project.root / "modules" / "none").write_text("not a folder")
    assert project.faults() == [
        (
            "there is no module 'glm53_fleet_sink'\n"
            "  where:    images.toml:6 images.old.modules\n"
            "  expected: modules/glm53_fleet_sink/module.toml\n"
            "  fix:      did you mean 'glm53_fleet_sync'?"
        ),
        (
            "there is no module 'none'\n"
            "  where:    images.toml:9 images.i.modules\n"
            "  expected: modules/none/module.toml\n"
            "  fix:      known here: glm53_fleet_sync"
        ),
    ]
    with pytest.raises(InputError) as caught:
        load(project.root).module("fleet")
    assert "\n  where:    modules/fleet/module.toml\n" in str(caught.value)


def test_faults_of_several_modules_at_once(project: Written) -> None:
    text = '[[add]]\ntarget = "vllm/a.py"\nfile = "away.py"\n'
    project.module("a", text).module("b", 'name = "b"\n').module("c", "summry = 1\n")
    project.module("d", "[python]\nrequirements = 'x'\n").module("e")
    (project.root / "modules" / "e").rename(project.root / "modules" / "f")
    project.images('[images.i]\nbase = "b"\nmodules = ["a", "b", "c", "d", "f"]\n')
    assert project.faults() == [
        (
            "the file away.py cannot be read: No such file or directory\n"
            "  where:    modules/a/module.toml:6 add[0].file\n"
            "  fix:      put it into modules/a, or correct its name"
        ),
        (
            "the file is not valid TOML\n"
            "  where:    modules/b/module.toml:4\n"
            "  found:    Cannot overwrite a value"
        ),
        (
            "unknown key 'summry'\n"
            "  where:    modules/c/module.toml:4 summry\n"
            "  fix:      did you mean 'summary'?"
        ),
        (
            "this version does not install a module's Python packages\n"
            "  where:    modules/d/module.toml:4 python"
        ),
        (
            "the folder is named 'f'\n"
            "  where:    modules/f/module.toml:2 name\n"
            "  fix:      use one name for both"
        ),
    ]


def test_all_faults_of_one_module(project: Written) -> None:
    text = f"""\
[[patch]]
target = "a"
file = "folder"
preimage = ["{PREIMAGE}"]
[[patch]]
target = "a"
file = "away"
preimage = ["{PREIMAGE}"]
[[knob]]
name = "K"
values = ["0"]
default = "0"
[[marker]]
when = {{ K = "1" }}
"""
    project.module("m", text).images('[images.i]\nbase = "b"\nmodules = ["m"]\n')
    (project.root / "modules" / "m" / "folder").mkdir()
    assert project.faults() == [
        "K takes 0, not '1'\n  where:    modules/m/module.toml:17 marker[0].when.K",
        (
            "patch[0] has the same target and preimage\n"
            "  where:    modules/m/module.toml:11 patch[1].preimage"
        ),
        (
            "the file folder cannot be read: Is a directory\n"
            "  where:    modules/m/module.toml:6 patch[0].file\n"
            "  fix:      put it into modules/m, or correct its name"
        ),
        (
            "the file away cannot be read: No such file or directory\n"
            "  where:    modules/m/module.toml:10 patch[1].file\n"
            "  fix:      put it into modules/m, or correct its name"
        ),
    ]


def test_a_module_file_that_is_no_file(project: Written) -> None:
    project.images('[images.i]\nbase = "b"\nmodules = ["m"]\n')
    (project.root / "modules/m/module.toml").mkdir(parents=True)
    assert project.faults() == [
        "the file cannot be read\n  where:    modules/m/module.toml\n  found:    Is a directory"
    ]


# Requirements


def test_requirements_that_are_not_met(project: Written) -> None:
    project.module("a", 'requires = ["b", "zz"]\nconflicts = ["c", "d"]').module("b").module("c")
    project.images('[images.i]\nbase = "b"\nmodules = ["a", "c"]\n')
    where = "  where:    modules/a/module.toml:2 name\n"
    assert project.faults() == [
        (
            f"module a requires b, which image i does not have\n{where}"
            "  fix:      add 'b' to the modules of [images.i]"
        ),
        (
            f"module a requires zz, which image i does not have\n{where}"
            "  fix:      add 'zz' to the modules of [images.i]"
        ),
        (
            f"modules a and c conflict, and image i has both\n{where}"
            "  fix:      take one of them out of the image"
        ),
    ]


@pytest.mark.parametrize(
    ("requires", "cycle"),
    [
        ({"a": ["a"]}, "a -> a"),
        ({"a": ["b"], "b": ["a"]}, "a -> b -> a"),
        ({"a": ["c"], "b": [], "c": ["d", "b"], "d": ["c"]}, "c -> d -> c"),
    ],
)
def test_modules_that_require_each_other(
    project: Written, requires: Mapping[str, list[str]], cycle: str
) -> None:
    for name, needs in requires.items():
        project.module(name, tomli_w.dumps({"requires": needs}))
    listed = tomli_w.dumps({"modules": list(requires)})
    project.images(f'[images.i]\nbase = "b"\n{listed}')
    assert project.faults() == [
        (
            "modules require each other in a circle\n"
            f"  where:    modules/{cycle[0]}/module.toml:2 name\n"
            f"  found:    {cycle}\n"
            "  fix:      drop one of these 'requires'"
        )
    ]


# Knobs


def knob(*names: str) -> str:
    text = '[[knob]]\nname = "{}"\nvalues = ["0", "1"]\ndefault = "0"\n'
    return "".join(text.format(name) for name in names)


def test_knobs_of_an_image(project: Written) -> None:
    project.module("m", knob("VLLM_FAST", "VLLM_SAFE")).images(
        '[images.old]\nbase = "b"\nmodules = ["m"]\nknobs = { VLLM_FAST = "yes" }\n'
        '[images.i]\nextends = "old"\n'
        'knobs = { VLLM_FASTER = "1", X = "" }\nenv = { VLLM_SAFE = "1", OTHER = "1" }\n'
    )
    assert project.faults() == [
        (
            "knob VLLM_FAST does not take 'yes'\n"
            "  where:    images.toml:7 images.old.knobs.VLLM_FAST\n"
            "  expected: 0 or 1\n"
            "  found:    yes\n"
            "  fix:      its values are declared at modules/m/module.toml:5 knob[0].name"
        ),
        (
            "no module of the image declares the knob VLLM_FASTER\n"
            "  where:    images.toml:10 images.i.knobs.VLLM_FASTER\n"
            "  fix:      did you mean 'VLLM_FAST'?"
        ),
        (
            "no module of the image declares the knob X\n"
            "  where:    images.toml:10 images.i.knobs.X\n"
            "  fix:      known here: VLLM_FAST, VLLM_SAFE"
        ),
        (
            "VLLM_SAFE is a knob, set as a plain variable\n"
            "  where:    images.toml:11 images.i.env.VLLM_SAFE\n"
            "  fix:      write it under knobs: knobs = { VLLM_SAFE = ... }"
        ),
    ]


def test_a_knob_of_two_modules(project: Written) -> None:
    project.module("a", knob("K")).module("z", knob("J", "K"))
    project.images('[images.i]\nbase = "b"\nmodules = ["z", "a"]\n')
    assert project.faults() == [
        (
            "knob K is declared by a and by z\n"
            "  where:    modules/z/module.toml:9 knob[1].name\n"
            "  fix:      one module declares a knob; others that need it require that module"
        )
    ]


def test_knobs_are_judged_beside_faults_of_the_order(project: Written) -> None:
    project.module("m", 'requires = ["z"]\n' + knob("K"))
    project.images('[images.i]\nbase = "b"\nmodules = ["m"]\nknobs = { K = "1", L = "1" }\n')
    assert [fault.partition("\n")[0] for fault in project.faults()] == [
        "module m requires z, which image i does not have",
        "no module of the image declares the knob L",
    ]


def test_a_project_reads_a_module_once(project: Written) -> None:
    project.module("m").images('[images.i]\nbase = "b"\nmodules = ["m"]\n')
    loaded: Project = load(project.root)
    first: Any = loaded.image("i").modules[0]
    (project.root / "modules/m/module.toml").unlink()
    assert loaded.image("i").modules[0] is first
