"""A definition on its bases: every byte of the derived image, and what its config says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from composer.errors import InputError
from composer.module import Module
from composer.oci.digest import sha256
from composer.oci.manifest import Config
from composer.oci.mediatype import DOCKER, OCI, Family
from composer.plan import Plan, epoch_of, knob_values, plan
from tests.support.bases import CREATED, base_image, definition, platform_base
from tests.support.packages import CORE, OTHER, ROOT, TEXT, change
from tests.support.trees import EPOCH, added, contents, edited, knob, module, removed, view

TWO = ("linux/amd64", "linux/arm64")


def small() -> list[Module]:
    """Two modules with a knob each."""
    return [
        module("a", change(line_3=b"a"), knobs=[knob("VLLM_A", "0", "1")]),
        module(
            "b",
            change(line_9=b"b"),
            added("vllm/new.py", b"NEW = 1\n"),
            removed("vllm/other.py", OTHER),
            knobs=[knob("VLLM_B", "off", "on")],
        ),
    ]


def planned(modules: Sequence[Module] = (), **settings: Any) -> Plan:
    return plan(definition(modules, **settings), [platform_base()])


def runtime(made: Plan) -> Any:
    return made.platforms[0].image.config.runtime


def test_the_digests_of_a_small_image() -> None:
    made = planned(small(), knobs={"VLLM_B": "on"}, labels={"note": "x"}, cache_namespace=True)
    (one,) = made.platforms
    assert [(layer.module, layer.layer.diff_id.short) for layer in one.layers] == [
        ("a", "a8f52f2a8f59"),
        ("b", "ecabba03130e"),
        ("(overlay.json)", "7d42d9943ec1"),
    ]
    assert (
        one.image.config.digest.hex
        == "0e3a8a41ca4144fbb91724ec45b53f944125fa44254fa3118236212a62f6999a"
    )
    assert made.digest.hex == "dd18693791fcf59c46b8baecd53b29fe93384ff689ae81f686d2bbe9d0a2b8b3"
    assert made.inputs.hex == "45cb175a68b666b4da27ff6fadc7f45733473530ba7b99679d6dfa8cd4650cb7"
    assert made.digest == one.image.manifest.digest


def test_the_base_is_repeated_verbatim() -> None:
    base = platform_base()
    (one,) = plan(definition(small()), [base]).platforms
    manifest, own = one.image.manifest, base.image.manifest
    assert manifest.layer_documents[:2] == own.layer_documents
    assert [layer.digest for layer in manifest.layers[2:]] == [
        layer.layer.digest for layer in one.layers
    ]
    config = one.image.config
    assert config.diff_ids[:2] == base.image.config.diff_ids
    assert [entry.get("created_by") for entry in config.history] == [
        "step 0",
        "step 1",
        "compose a",
        "compose b",
        "compose (overlay.json)",
    ]
    assert runtime(plan(definition(small()), [base]))["Cmd"] == ["serve"]
    assert config.created == CREATED


def test_the_same_twice_and_on_any_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    first = planned(small())
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert planned(small()) == first


def test_without_modules_there_is_one_layer() -> None:
    (one,) = planned().platforms
    assert [layer.module for layer in one.layers] == ["(overlay.json)"]


def test_what_overlay_json_says() -> None:
    (one,) = planned(small()).platforms
    line_3, both = edited(TEXT, {3: b"a\n"}), edited(TEXT, {3: b"a\n", 9: b"b\n"})
    (raw,) = contents(one.layers[-1].blob).values()
    first = {
        "kind": "patch",
        "target": "vllm/core.py",
        "path": f"/{CORE}",
        "pre": str(sha256(TEXT)),
        "post": str(sha256(line_3)),
    }
    new = {
        "kind": "add",
        "target": "vllm/new.py",
        "path": f"/{ROOT}/vllm/new.py",
        "pre": None,
        "post": str(sha256(b"NEW = 1\n")),
    }
    gone = {
        "kind": "remove",
        "target": "vllm/other.py",
        "path": f"/{ROOT}/vllm/other.py",
        "pre": str(sha256(OTHER)),
        "post": None,
    }
    assert json.loads(raw) == {
        "schema": 1,
        "modules": [
            {
                "name": "a",
                "knobs": [{"name": "VLLM_A", "values": ["0", "1"]}],
                "changes": [first],
            },
            {
                "name": "b",
                "knobs": [{"name": "VLLM_B", "values": ["off", "on"]}],
                "changes": [{**first, "post": str(sha256(both))}, new, gone],
            },
        ],
    }


# Config


def test_knobs_are_set_to_the_value_in_force() -> None:
    image = definition(small(), knobs={"VLLM_B": "on"})
    assert knob_values(image) == [
        ("a", "VLLM_A", ("0", "1"), "0"),
        ("b", "VLLM_B", ("off", "on"), "on"),
    ]
    made = plan(image, [platform_base()])
    assert runtime(made)["Env"] == ["PATH=/usr/bin", "VLLM_A=0", "VLLM_B=on"]


def test_settings_and_labels() -> None:
    base = platform_base(name="registry.example/base:1")
    settings = {
        "env": {"PATH": "/opt", "B": "2"},
        "labels": {"note": "x"},
        "entrypoint": ("vllm",),
        "cmd": ("serve", "--port=1"),
        "workdir": "/srv",
    }
    made = plan(definition(small(), **settings), [base])
    assert runtime(made) == {
        "Env": ["PATH=/opt", "B=2", "VLLM_A=0", "VLLM_B=off"],
        "Labels": {
            "dev.compose.inputs": str(made.inputs),
            "dev.compose.modules": "a,b",
            "note": "x",
            "org.opencontainers.image.base.digest": str(base.image.digest),
            "org.opencontainers.image.base.name": "registry.example/base:1",
        },
        "Entrypoint": ["vllm"],
        "Cmd": ["serve", "--port=1"],
        "WorkingDir": "/srv",
    }
    assert "org.opencontainers.image.base.name" not in runtime(planned(small()))["Labels"]


# The compile cache


def cache_root(modules: Sequence[Module] = (), **how: Any) -> str:
    env = how.pop("env", {})
    image = definition(modules, env=env, cache_namespace=how.pop("cache_namespace", True))
    made = plan(image, [platform_base(**how)])
    root = made.platforms[0].cache_root
    assert dict(line.split("=", 1) for line in runtime(made)["Env"]).get("VLLM_CACHE_ROOT", "") == (
        root or env.get("VLLM_CACHE_ROOT", "")
    )
    return root


def test_no_cache_namespace() -> None:
    assert cache_root(small(), cache_namespace=False) == ""
    assert cache_root(small(), cache_namespace=False, env={"VLLM_CACHE_ROOT": "/c"}) == ""


def test_the_parent_of_the_cache_namespace() -> None:
    suffix = cache_root(small()).removeprefix("~/.cache/vllm/")
    assert suffix.startswith("compose-")
    assert len(suffix) == len("compose-") + 12
    config = {"Env": ["VLLM_CACHE_ROOT=/base/"]}
    assert cache_root(small(), config=config) == f"/base/{suffix}"
    assert cache_root(small(), config=config, env={"VLLM_CACHE_ROOT": "/own"}) == f"/own/{suffix}"
    assert cache_root(small(), env={"VLLM_CACHE_ROOT": "/"}) == f"/{suffix}"
    by_knob = module("c", knobs=[knob("VLLM_CACHE_ROOT", "/knob", "/else")])
    assert cache_root([*small(), by_knob], config=config) == f"/knob/{suffix}"


def test_a_cache_is_shared_by_images_of_the_same_code_only() -> None:
    root = cache_root(small())
    changed = [small()[0], module("b", change(line_9=b"c"))]
    assert cache_root(changed) != root
    assert cache_root(small()[:1]) != root
    assert cache_root(small(), layers=3) != root
    knobs = [module(one.name, *one.changes, knobs=[knob("VLLM_X", "9")]) for one in small()]
    assert cache_root(knobs) == root  # `run` adds a hash of the knobs in force
    assert cache_root(small(), created="2025-01-01T00:00:00Z") == root  # the code is the same


# Time


@pytest.mark.parametrize(
    ("created", "epoch"),
    [
        ("2024-05-01T12:30:00Z", EPOCH),
        ("2024-05-01T12:30:00.999999999Z", EPOCH),
        ("2024-05-01T12:30:00.5+00:00", EPOCH),
        ("2024-05-01T18:15:00+05:45", EPOCH),
        ("2024-04-30T23:30:00-13:00", EPOCH),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.9Z", 1),
        ("1969-12-31T23:59:59.9Z", 0),
        ("1970-01-01T01:00:00+02:00", 0),
        ("0001-01-01T00:00:00Z", 0),
        ("9999-12-31T23:59:59-23:59", 253402387139),
        (None, 315532800),
        ("", 315532800),
        ("yesterday", 315532800),
        ("2024-05-01", 315532800),
        ("2024-05-01T12:30:00", 315532800),
        ("20240501T123000Z", 315532800),
        ("2024-05-01T24:00:00Z", 315532800),
        ("2024-05-01T12:30:61Z", 315532800),
        ("2024-02-30T12:30:00Z", 315532800),
        ("0000-01-01T00:00:00Z", 315532800),
    ],
)
def test_the_epoch_is_when_the_base_was_created(created: str | None, epoch: int) -> None:
    assert epoch_of(base_image(created=created).config) == epoch


def test_an_epoch_of_another_type_is_none() -> None:
    assert epoch_of(Config.make({"created": 5, "rootfs": {"diff_ids": []}})) == 315532800


def test_a_chosen_epoch() -> None:
    image = definition(small())
    own = plan(image, [platform_base()])
    assert own.epoch == EPOCH
    chosen = plan(image, [platform_base()], epoch=1000)
    assert chosen.epoch == 1000
    assert chosen.platforms[0].image.config.created == "1970-01-01T00:16:40Z"
    assert chosen.inputs != own.inputs
    assert plan(image, [platform_base()], epoch=EPOCH) == own
    assert plan(image, [platform_base()], epoch=-5).epoch == 0


# Families and platforms


@pytest.mark.parametrize("family", [OCI, DOCKER])
@pytest.mark.parametrize("single", [True, False])
def test_the_family_is_the_bases(family: Family, single: bool) -> None:
    bases = [platform_base(platform=one, family=family) for one in TWO[: 1 if single else 2]]
    made = plan(definition(small()), bases, single=single)
    for one in made.platforms:
        manifest = one.image.manifest
        assert json.loads(manifest.raw)["mediaType"] == manifest.media_type == family.manifest
        assert manifest.config.media_type == family.config
        assert {layer.media_type for layer in manifest.layers} == {family.layer_gzip}
    if made.index is not None:
        assert made.index.media_type == family.index


def test_an_index_over_two_platforms() -> None:
    bases = [platform_base(platform=one) for one in TWO]
    made = plan(definition(small()), bases, single=False)
    assert made.index is not None
    assert made.digest == made.index.digest
    assert [(str(one.platform), one.digest) for one in made.index.manifests] == [
        (str(one.platform), one.image.manifest.digest) for one in made.platforms
    ]
    assert [str(one.platform) for one in made.platforms] == list(TWO)
    labels = [one.image.config.runtime["Labels"] for one in made.platforms]
    assert {one["dev.compose.inputs"] for one in labels} == {str(made.inputs)}
    assert len({one["org.opencontainers.image.base.digest"] for one in labels}) == 2


def test_a_base_that_is_one_manifest_stays_one() -> None:
    assert planned(small()).index is None
    made = plan(definition(small()), [platform_base()], single=False)
    assert made.index is not None
    assert made.digest == made.index.digest != made.platforms[0].image.digest


def test_a_module_that_fits_one_platform_only_is_named_with_it() -> None:
    bases = [
        platform_base(platform="linux/amd64"),
        platform_base(view({CORE: OTHER}), platform="linux/arm64"),
    ]
    modules = [module("a", change(line_3=b"a")), module("b", removed("vllm/none.py", b""))]
    with pytest.raises(InputError) as caught:
        plan(definition(modules), bases, single=False)
    first, second = caught.value.faults
    assert first.what == "module b: target vllm/none.py is missing"
    assert second.what == "module a: the preimage of vllm/core.py differs (on linux/arm64 only)"
    assert second.where == "module.toml:1 vllm/core.py"
    assert second.found == f"{sha256(OTHER)} in the base"
    assert second.context[0] == "x.patch: 0 of 1 hunks match"


def test_platforms_that_are_not_planned_now_count_as_inputs() -> None:
    image = definition(small())
    bases = [platform_base(platform=one) for one in TWO]
    both = plan(image, bases, single=False)
    other = {
        "base": str(bases[1].image.digest),
        "base_name": "",
        "epoch": EPOCH,
        "modules": ["a", "b"],
        "changes": [
            [one.module, one.kind, one.target, one.path, str(one.pre or ""), str(one.post or "")]
            for one in both.platforms[1].overlay.changes
        ],
    }
    one = plan(image, bases[:1], others={"linux/arm64": other}, single=False)
    assert one.inputs == both.inputs
    assert one.platforms == both.platforms[:1]


def test_many_modules_are_squashed() -> None:
    modules = [module(f"m{number}", added(f"vllm/{number}", b"")) for number in range(5)]
    base = platform_base(layers=115)
    (one,) = plan(definition(modules), [base]).platforms
    assert [layer.module for layer in one.layers] == ["(all modules)", "(overlay.json)"]
    assert one.image.config.history[-2]["created_by"] == "compose (all modules)"
    assert len(one.image.manifest.layers) == 117
