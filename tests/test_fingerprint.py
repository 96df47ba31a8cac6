"""The digests that decide: what they cover, what they leave out, and their literal values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from composer import fingerprint
from composer.module import Module
from composer.oci.digest import Digest, sha256
from composer.plan import Plan, plan, settings
from composer.project import ImageDefinition
from composer.spec import BaseSpec
from tests.support.bases import definition, platform_base
from tests.support.packages import TEXT, change
from tests.support.trees import added, edited, knob, module, numbered, read, replaced

A = module("a", change(line_3=b"a"), added("vllm/new.py", b"1\n"), knobs=[knob("VLLM_A", "0", "1")])
B = module("b", change(line_9=b"b"))
IMAGE = definition([A, B], env={"E": "1"}, labels={"l": "1"}, cmd=("serve",))


def planned(image: ImageDefinition, **how: Any) -> Plan:
    return plan(image, [platform_base(**how)])


def with_a(**fields: Any) -> ImageDefinition:
    """The image with fields of its first module replaced."""
    return replace(IMAGE, modules=(replace(A, **fields), B))


def with_patch(data: bytes) -> ImageDefinition:
    """The image with another patch file in its first module."""
    return with_a(changes=(replace(A.changes[0], data=data), A.changes[1]))


NEWER = numbered(30)
OTHER_BASE = change(NEWER, line_25=b"x")
SAME = {
    "a comment in a patch": with_patch(b"Why this is so.\n\n" + A.changes[0].data),
    "a heading in a patch": with_patch(A.changes[0].data.replace(b" @@\n", b" @@ def f():\n")),
    "context in a patch": with_patch(
        b"--- a\n+++ b\n@@ -2,3 +2,3 @@\n line 2\n-line 3\n+a\n line 4\n"
    ),
    "a patch for another base": with_a(changes=(*A.changes, OTHER_BASE)),
    "one more preimage": with_a(
        changes=(replace(A.changes[0], preimages=(sha256(NEWER), sha256(TEXT))), A.changes[1])
    ),
    "a read-pin": with_a(reads=(read("vllm/core.py", edited(TEXT, {3: b"a\n", 9: b"b\n"})),)),
    "where it is written": with_a(place="modules/a/module.toml:9 name", inputs={"README.md": "1"}),
    "the name of a patch file": with_a(
        changes=(replace(A.changes[0], file="else.patch"), A.changes[1])
    ),
    "a requirement": replace(IMAGE, modules=(A, replace(B, requires=("a",)))),
    "a conflict": with_a(conflicts=("z",)),
    "a destination": replace(IMAGE, repository="registry.example/else"),
    "what is retired": replace(IMAGE, retired=("gone",)),
    "a knob set to its default": replace(IMAGE, knobs={"VLLM_A": "0"}),
    "the name of the image": replace(IMAGE, name="else"),
    "the name of its base in the project": replace(IMAGE, base_name="else"),
}
OTHER = {
    "a variable": replace(IMAGE, env={"E": "2"}),
    "a variable more": replace(IMAGE, env={"E": "1", "F": ""}),
    "a label": replace(IMAGE, labels={}),
    "the command": replace(IMAGE, cmd=("serve", "")),
    "no command": replace(IMAGE, cmd=()),
    "the base's command": replace(IMAGE, cmd=None),
    "the entrypoint": replace(IMAGE, entrypoint=("serve",)),
    "the directory": replace(IMAGE, workdir="/srv"),
    "the cache namespace": replace(IMAGE, cache_namespace=True),
    "a knob": replace(IMAGE, knobs={"VLLM_A": "1"}),
    "a knob's values": with_a(knobs=(knob("VLLM_A", "0", "1", "2"),)),
    "a knob less": with_a(knobs=()),
    "a module less": replace(IMAGE, modules=(A,)),
    "a module more": replace(IMAGE, modules=(A, B, module("c"))),
    "a module's name": with_a(name="aa"),
    "the result of a patch": with_a(changes=(change(line_3=b"other"), A.changes[1])),
    "an added file": with_a(changes=(A.changes[0], added("vllm/new.py", b"2\n"))),
    "the place of an added file": with_a(changes=(A.changes[0], added("vllm/new2.py", b"1\n"))),
    "how a target is spelled": with_a(changes=(A.changes[0], added("vllm//new.py", b"1\n"))),
}


@pytest.mark.parametrize("what", SAME)
def test_what_does_not_reach_the_image(what: str) -> None:
    own, other = planned(IMAGE), planned(SAME[what])
    assert other.inputs == own.inputs
    assert other.digest == own.digest


@pytest.mark.parametrize("what", OTHER)
def test_what_reaches_the_image(what: str) -> None:
    own, other = planned(IMAGE), planned(OTHER[what])
    assert other.inputs != own.inputs
    assert other.digest != own.digest


def test_all_of_these_inputs_differ() -> None:
    found = {planned(image).inputs for image in OTHER.values()}
    assert len(found) == len(OTHER)


def test_the_value_in_force_counts_and_not_who_chose_it() -> None:
    by_module = planned(with_a(knobs=(knob("VLLM_A", "0", "1", default="1"),)))
    by_image = planned(replace(IMAGE, knobs={"VLLM_A": "1"}))
    assert by_module.inputs == by_image.inputs != planned(IMAGE).inputs
    assert by_module.digest == by_image.digest


def test_how_a_file_is_changed_reaches_the_image() -> None:
    whole = replaced("vllm/core.py", TEXT, edited(TEXT, {3: b"a\n"}))
    patch, replacement = (planned(definition([module("a", one)])) for one in (A.changes[0], whole))
    assert patch.platforms[0].layers[0].blob == replacement.platforms[0].layers[0].blob
    assert patch.inputs != replacement.inputs
    assert patch.digest != replacement.digest


@pytest.mark.parametrize(
    "how", [{"layers": 3}, {"name": "registry.example/else:1"}, {"created": "2025-01-01T00:00:00Z"}]
)
def test_the_base_is_an_input(how: dict[str, Any]) -> None:
    assert planned(IMAGE, **how).inputs != planned(IMAGE).inputs


def test_the_digest_of_inputs() -> None:
    assert fingerprint.FORMAT == 1
    platforms = {
        "linux/amd64": fingerprint.platform_inputs(
            base=sha256(b"base"),
            base_name="registry.example/base:1",
            epoch=5,
            modules=["a", "b"],
            changes=planned(IMAGE).platforms[0].overlay.changes,
        )
    }
    assert platforms["linux/amd64"]["changes"][1] == [
        "a",
        "add",
        "vllm/new.py",
        "usr/lib/python3/site-packages/vllm/new.py",
        "",
        "sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865",
    ]
    digest = fingerprint.inputs(
        platforms=platforms, knobs=[("a", "VLLM_A", ["0", "1"], "0")], config=settings(IMAGE)
    )
    assert digest.short == "d7a1267d37ce"


# A module's content


def test_the_digest_of_a_module() -> None:
    assert fingerprint.content(A).short == "fb3a78afd736"


def varied(**fields: Any) -> Callable[[Module], Module]:
    return lambda one: replace(one, **fields)


def first_change(**fields: Any) -> Callable[[Module], Module]:
    return lambda one: replace(one, changes=(replace(one.changes[0], **fields), *one.changes[1:]))


@pytest.mark.parametrize(
    "vary",
    [
        varied(name="b"),
        varied(requires=("z",)),
        varied(changes=A.changes[:1]),
        varied(changes=(*A.changes, OTHER_BASE)),
        varied(reads=(read("vllm/core.py", b""),)),
        varied(knobs=()),
        varied(knobs=(knob("VLLM_A", "1", "0"),)),
        varied(knobs=(knob("VLLM_A", "0", "1", default="1"),)),
        first_change(data=b"# why\n" + A.changes[0].data),
        first_change(preimages=(sha256(NEWER),)),
        first_change(preimages=(sha256(TEXT), sha256(NEWER))),
        first_change(target="vllm/else.py"),
        first_change(kind="replace"),
    ],
)
def test_what_counts_as_another_content(vary: Callable[[Module], Module]) -> None:
    assert fingerprint.content(vary(A)) != fingerprint.content(A)


@pytest.mark.parametrize(
    "vary",
    [
        varied(changes=A.changes[::-1]),
        varied(place="else:1"),
        varied(inputs={"x": "y"}),
        varied(conflicts=("z",)),
        first_change(file="else.patch"),
        first_change(place="else:1"),
    ],
)
def test_what_does_not(vary: Callable[[Module], Module]) -> None:
    assert fingerprint.content(vary(A)) == fingerprint.content(A)


# What a lock is resolved from


def base_with(**fields: Any) -> BaseSpec:
    own = {
        "wheels": ("tiny==1.0",),
        "platforms": ("linux/amd64",),
        "python": "3.12",
        "package_root": "/usr/lib/python3.12/site-packages",
    }
    return BaseSpec(**{**own, **fields})


def source(**fields: Any) -> Digest:
    given = {
        "base": base_with(),
        "pins": [("linux/amd64", str(sha256(b"wheel")))],
        "epoch": None,
        "modules": [A, B],
        "knobs": {"VLLM_A": "1"},
        "config": settings(IMAGE),
    }
    return fingerprint.source(**{**given, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"base": base_with(wheels=("tiny>=1.0",))},
        {"base": base_with(image="registry.example/base:1")},
        {"base": base_with(platforms=("linux/arm64",))},
        {"base": base_with(python="3.13")},
        {"base": base_with(package_root="/opt")},
        {"base": base_with(interpreter="/opt/python")},
        {"base": base_with(glibc="2.39")},
        {"pins": []},
        {"pins": [("linux/amd64", str(sha256(b"newer")))]},
        {"epoch": 0},
        {"modules": [A]},
        {"modules": [with_a(changes=(*A.changes, OTHER_BASE)).modules[0], B]},
        {"knobs": {}},
        {"config": settings(replace(IMAGE, env={}))},
    ],
)
def test_what_makes_a_lock_stale(fields: dict[str, Any]) -> None:
    assert source(**fields) != source()


def test_the_digest_of_a_source() -> None:
    assert source().short == "94632351f006"


# The compile cache


def test_the_name_of_a_compile_cache() -> None:
    changes = planned(IMAGE).platforms[0].overlay.changes
    name = fingerprint.cache_suffix([sha256(b"one"), sha256(b"two")], changes)
    assert name == "compose-009e9f9fdcdd"
    assert fingerprint.cache_suffix([sha256(b"two"), sha256(b"one")], changes) != name
    assert fingerprint.cache_suffix([sha256(b"one"), sha256(b"two")], changes[:-1]) != name
    # Only the last state of a file is code that runs.
    assert fingerprint.cache_suffix([sha256(b"one"), sha256(b"two")], changes[1:]) == name
