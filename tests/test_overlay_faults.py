"""Modules that do not fit a base: every way, each with what was expected and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from composer.module import Change, Module
from composer.oci.digest import sha256
from composer.oci.filetree import Entry, directory
from composer.overlay import overlay
from tests.support.packages import CORE, OTHER, ROOT, TEXT, change, package
from tests.support.trees import (
    MemoryView,
    added,
    edited,
    module,
    numbered,
    patched,
    read,
    removed,
    replaced,
    view,
)

ELSE = b"else\n"


def faults(modules: Sequence[Module], on: MemoryView) -> list[str]:
    return [str(fault) for fault in overlay(modules, on, ROOT).faults]


def fine(modules: Sequence[Module], on: MemoryView) -> bool:
    return faults(modules, on) == []


# Preimages


def test_a_preimage_that_differs_says_what_each_hunk_found() -> None:
    patch = patched(
        "vllm/core.py", TEXT, edited(TEXT, {2: b"two\n", 10: b"ten\n", 19: b"x\n"}), context=1
    )
    found = edited(TEXT, {3: b"moved\n", 10: b"ten\n"})
    assert faults([module("a", patch)], view({CORE: found})) == [
        (
            "module a: the preimage of vllm/core.py differs\n"
            "  where:    module.toml:1 vllm/core.py\n"
            f"  expected: {sha256(TEXT)}\n"
            f"  found:    {sha256(found)} in the base\n"
            "    x.patch: 1 of 3 hunks match\n"
            "    hunk 1 @@ -1,3 +1,3 @@: line 3\n"
            "      expected 'line 3\\n'\n"
            "      found    'moved\\n'\n"
            "    hunk 2 @@ -9,3 +9,3 @@: the file already has this change\n"
            "  fix:      there is another file: rework the change against that one"
        )
    ]


def test_every_preimage_that_would_do_is_listed() -> None:
    on = view({CORE: b"third\n"})
    one, two = replaced("vllm/core.py", TEXT, b"x"), change(numbered(4), line_2=b"x")
    (fault,) = faults([module("a", one)], on)
    assert f"expected: {sha256(TEXT)}\n" in fault
    assert "hunks" not in fault
    (fault,) = faults([module("a", change(line_3=b"x"), two)], on)
    assert f"expected: {sha256(TEXT)} or {sha256(numbered(4))}\n" in fault


def test_a_patch_that_cannot_be_read_beside_a_preimage_that_differs() -> None:
    broken = Change("patch", "vllm/core.py", "x.patch", b"@@ nothing", (sha256(b"x"),), "here:1")
    (fault,) = faults([module("a", broken)], package())
    assert "    x.patch: line 1: not a line of a patch: '@@ nothing'\n" in fault


def test_a_preimage_of_a_module_that_is_not_required() -> None:
    middle = edited(TEXT, {3: b"a\n"})
    modules = [module("a", change(line_3=b"a")), module("b", change(middle, line_9=b"b"))]
    (fault,) = faults(modules, package())
    assert fault.startswith("module b: the preimage of vllm/core.py differs\n")
    assert fault.endswith(
        "  fix:      if it is written on the result of a, let it require that module"
    )


def test_a_preimage_that_is_none_of_those_a_requirement_leaves() -> None:
    middle = edited(TEXT, {3: b"a\n"})
    stale = change(edited(middle, {4: b"older\n"}), line_9=b"b")
    modules = [module("a", change(line_3=b"a")), module("b", stale, requires=["a"])]
    (fault,) = faults(modules, package())
    assert f"  found:    {sha256(TEXT)} in the base, or {sha256(middle)} as a leaves it\n" in fault
    assert "    x.patch: 1 of 1 hunks match\n" in fault
    assert fault.endswith("  fix:      there is another file: rework the change against that one")


def test_several_entries_that_fit() -> None:
    middle = edited(TEXT, {3: b"a\n"})
    two = (change(line_9=b"b"), change(middle, line_9=b"b"))
    modules = [module("a", change(line_3=b"a")), module("b", *two, requires=["a"])]
    assert faults(modules, package()) == [
        (
            f"module b: several entries fit /{CORE}\n"
            "  where:    module.toml:1 vllm/core.py\n"
            "  found:    module.toml:1 vllm/core.py, module.toml:1 vllm/core.py\n"
            "  fix:      exactly one may fit: take a preimage out"
        )
    ]


def test_a_patch_that_does_not_fit_its_own_preimage() -> None:
    data = change(numbered(30), line_25=b"x").data
    wrong = Change("patch", "vllm/core.py", "x.patch", data, (sha256(TEXT),), "here:1")
    assert faults([module("a", wrong)], package()) == [
        (
            "module a: x.patch: the patch does not fit the file whose preimage it names\n"
            "  where:    here:1\n"
            "    hunk 1 @@ -25 +25 @@: line 25\n"
            "      expected 'line 25\\n'\n"
            "      found    the end of the file\n"
            "  fix:      make the patch again from the file with that preimage"
        )
    ]


def test_an_insertion_beyond_the_end_of_the_file() -> None:
    data = b"--- a\n+++ b\n@@ -25,0 +26 @@\n+x\n"
    wrong = Change("patch", "vllm/core.py", "x.patch", data, (sha256(TEXT),), "here:1")
    (fault,) = faults([module("a", wrong)], package())
    assert "    hunk 1 @@ -25,0 +26 @@: the file ends before line 25\n" in fault


@pytest.mark.parametrize(
    ("data", "what", "fix"),
    [
        (
            b"words\n",
            "the patch has no hunk",
            "make the patch again from the file with that preimage",
        ),
        (b"rename from a\n", "the patch renames a file", "add the new one and remove the old one"),
        (b"@@ -3 +3 @@\n-line 3\n+line 3\n", "the patch changes nothing", "drop it"),
        (
            b"@@ -20,0 +21 @@\n+x\n\\ No newline at end of file\n@@ -20,0 +22 @@\n+y\n",
            "the result has a line without its end in the middle of the file",
            "make the patch again from the file with that preimage",
        ),
    ],
)
def test_a_patch_that_cannot_be_used(data: bytes, what: str, fix: str) -> None:
    wrong = Change("patch", "vllm/core.py", "x.patch", data, (sha256(TEXT),), "here:1")
    assert faults([module("a", wrong)], package()) == [
        f"module a: x.patch: {what}\n  where:    here:1\n  fix:      {fix}"
    ]


def test_a_file_replaced_by_the_same_bytes() -> None:
    assert faults([module("a", replaced("vllm/core.py", TEXT, TEXT))], package()) == [
        (
            "module a: x.py: the file is the same as the one it replaces\n"
            "  where:    module.toml:3 vllm/core.py\n"
            "  fix:      drop the entry"
        )
    ]


# Places


def test_a_target_that_is_missing() -> None:
    (fault,) = faults([module("a", patched("vllm/cor.py", TEXT, b"x\n"))], package())
    assert fault == (
        "module a: target vllm/cor.py is missing\n"
        "  where:    module.toml:1 vllm/cor.py\n"
        f"  expected: /{ROOT}/vllm/cor.py in the base\n"
        "  found:    no such file\n"
        "  fix:      did you mean 'core.py'?"
    )
    for change_ in (removed("vllm/away/x.py", b""), replaced("vllm/away/x.py", b"", b"1")):
        (fault,) = faults([module("a", change_)], package())
        assert "target vllm/away/x.py is missing" in fault
        assert fault.endswith("it may have moved: look for its new home in the base")


def test_an_added_file_that_is_there() -> None:
    assert faults([module("a", added("vllm/core.py", b"new\n"))], package()) == [
        (
            "module a: added file vllm/core.py is already there\n"
            "  where:    module.toml:2 vllm/core.py\n"
            f"  found:    in the base: {sha256(TEXT)}\n"
            "  fix:      patch or replace the file that is there, or choose another name"
        )
    ]


def test_an_added_file_that_another_module_patches_or_removes() -> None:
    add = module("z", added("vllm/core.py", b"new\n"))
    (fault,) = faults([module("a", change(line_3=b"x")), add], package())
    assert f"found:    in the base: {sha256(TEXT)}\n" in fault
    (fault,) = faults([module("a", removed("vllm/core.py", TEXT)), add], package())
    assert fault.endswith("fix:      let z require a, which removes it")


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("vllm", "a directory"),
        ("/usr/lib", "a directory"),
        ("/dev/null", "not a regular file"),
        ("/run/pipe", "not a regular file"),
    ],
)
def test_a_target_that_is_no_file(target: str, kind: str) -> None:
    on = view({CORE: TEXT}, entries={"dev/null": Entry("c"), "run/pipe": Entry("p")})
    for one in (added(target, b""), patched(target, TEXT, b"x"), removed(target, TEXT)):
        assert faults([module("a", one)], on) == [
            f"module a: target {target} is {kind}\n  where:    {one.place}"
        ]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/loop/x.py", "/loop/x.py is a loop of symbolic links"),
        ("/me", "/me is a loop of symbolic links"),
        ("/out/x.py", "/out/x.py leaves the image's root"),
        ("/etc/../../x.py", "/etc/../../x.py leaves the image's root"),
        ("vllm/core.py/x.py", f"/{CORE} is not a directory"),
        ("/by-link/x.py", f"/{CORE} is not a directory"),
    ],
)
def test_a_target_that_cannot_be_reached(target: str, reason: str) -> None:
    links = {"loop": "pool", "pool": "/loop", "me": "me", "out": "../../etc", "by-link": f"/{CORE}"}
    on = view({CORE: TEXT}, links=links)
    assert faults([module("a", added(target, b""))], on) == [
        f"module a: target {target} cannot be reached: {reason}\n  where:    module.toml:2 {target}"
    ]


@pytest.mark.parametrize("target", ["vllm/.wh.core.py", "vllm/.wh..wh..opq", "/usr/.wh.x/y.py"])
def test_names_that_layers_reserve(target: str) -> None:
    assert faults([module("a", added(target, b""))], package()) == [
        (
            f"module a: target {target}: layers reserve names that start with .wh.\n"
            f"  where:    module.toml:2 {target}"
        )
    ]


@pytest.mark.parametrize(
    "target", ["/usr/share/compose/overlay.json", "/usr/share/compose", "/share/compose"]
)
def test_the_place_where_compose_itself_writes(target: str) -> None:
    on = view({CORE: TEXT}, links={"share": "usr/share"})
    assert faults([module("a", added(target, b""))], on) == [
        (
            f"module a: target {target}: compose writes /usr/share/compose/overlay.json itself\n"
            f"  where:    module.toml:2 {target}"
        )
    ]


def test_a_file_of_a_module_used_as_a_folder() -> None:
    modules = [module("a", added("vllm/x", b"")), module("b", added("vllm/x/y.txt", b""))]
    for order in permutations(modules):
        assert faults(order, package()) == [
            (
                "module b: target vllm/x/y.txt:"
                f" /{ROOT}/vllm/x is a file of module a, not a folder\n"
                "  where:    module.toml:2 vllm/x/y.txt"
            )
        ]
    gone = module("c", removed("vllm/x", b""), requires=["a"])
    assert fine([modules[0], gone, modules[1]], package())


def test_a_file_that_takes_the_place_of_a_directory() -> None:
    on = view({CORE: TEXT}, entries={"opt/empty": directory(0)})
    (fault,) = faults([module("a", added("/opt/empty", b""))], on)
    assert fault.startswith("module a: target /opt/empty is a directory\n")


# Several entries and several modules for one file


@pytest.mark.parametrize(
    "entries",
    [
        (change(line_3=b"x"), added("vllm/core.py", b"")),
        (added("vllm/core.py", b""), added(f"/{CORE}", b"")),
        (change(line_3=b"x"), replaced("vllm/core.py", TEXT, b"")),
        (removed("vllm/core.py", TEXT), removed("vllm//core.py", TEXT)),
    ],
)
def test_several_entries_of_a_module_for_one_file(entries: tuple[Change, Change]) -> None:
    assert faults([module("a", *entries)], package()) == [
        (
            f"module a: /{CORE} is the target of several entries\n"
            f"  where:    {entries[1].place}\n"
            f"  found:    {entries[0].place}, {entries[1].place}\n"
            "  fix:      leave one; only patches with different preimages may share a target"
        )
    ]


def test_hunks_that_overlap() -> None:
    one = module("a", change(line_3=b"a", line_9=b"a"))
    other = module("b", patched(f"/{CORE}", TEXT, edited(TEXT, {9: b"b\n", 10: b"b\n"}), context=0))
    assert faults([one, other], package()) == [
        (
            f"module b: collides with module a on /{CORE} (/{CORE})\n"
            f"  where:    module.toml:1 /{CORE}\n"
            "  found:    hunk 1, line 9-10, meets what it does there\n"
            "  fix:      let b require a, and write it on the result of a, or move the hunks apart"
        )
    ]
    (fault,) = faults([other, one], package())
    assert fault.startswith("module a: collides with module b on vllm/core.py")
    assert "found:    hunk 2, line 9, meets what it does there\n" in fault


def test_hunks_that_overlap_with_those_of_a_required_module() -> None:
    modules = [module("a", change(line_3=b"a")), module("b", change(line_3=b"b"), requires=["a"])]
    (fault,) = faults(modules, package())
    assert fault.endswith("  fix:      write it on the result of a, or move the hunks apart")


WHOLE = [
    replaced("vllm/core.py", TEXT, b"whole\n"),
    removed("vllm/core.py", TEXT),
]


@pytest.mark.parametrize("whole", WHOLE)
@pytest.mark.parametrize("other", [change(line_3=b"x"), *WHOLE])
def test_a_change_of_the_whole_file_meets_any_other(whole: Change, other: Change) -> None:
    for one, two in ((whole, other), (other, whole)):
        assert faults([module("a", one), module("b", two)], package()) == [
            (
                f"module b: collides with module a on vllm/core.py (/{CORE})\n"
                f"  where:    {two.place}\n"
                "  found:    one of the two changes the whole file\n"
                "  fix:      let b require a, and write it on the result of a"
            )
        ]


def test_two_modules_add_one_file() -> None:
    modules = [
        module("a", added("vllm/x.py", b"1")),
        module("b", added(f"/{ROOT}/vllm/x.py", b"1")),
    ]
    (fault,) = faults(modules, package())
    assert fault.startswith(f"module b: collides with module a on /{ROOT}/vllm/x.py")


def test_a_patch_beside_one_on_the_result_of_a_replacement() -> None:
    whole = numbered(20, newline=b" whole\n")
    modules = [
        module("a", replaced("vllm/core.py", TEXT, whole)),
        module("b", patched("vllm/core.py", whole, edited(whole, {3: b"b\n"})), requires=["a"]),
        module("c", change(line_9=b"c")),
    ]
    (fault,) = faults(modules, package())
    assert fault.startswith("module c: collides with module a on vllm/core.py")
    modules[2] = module("c", removed("vllm/core.py", whole), requires=["a"])
    (fault,) = faults(modules, package())
    assert fault.startswith("module c: collides with module b on vllm/core.py")


# Read-pins


def test_read_pins_that_do_not_hold() -> None:
    after = edited(TEXT, {3: b"a\n"})
    modules = [
        module("a", reads=[read("vllm/core.py", TEXT)]),
        module("b", change(line_3=b"a")),
        module("c", reads=[read("vllm/other.py", ELSE), read("vllm/gone.py", b"")]),
    ]
    fix = "  fix:      see what changed in it; if the module still holds, add the new preimage"
    assert faults(modules, package()) == [
        (
            "module a: the file vllm/core.py, which it relies on, differs\n"
            "  where:    module.toml:5 vllm/core.py\n"
            f"  expected: {sha256(TEXT)}\n"
            f"  found:    {sha256(after)} (as module b leaves it)\n{fix}"
        ),
        (
            "module c: the file vllm/other.py, which it relies on, differs\n"
            "  where:    module.toml:5 vllm/other.py\n"
            f"  expected: {sha256(ELSE)}\n"
            f"  found:    {sha256(OTHER)}\n{fix}"
        ),
        (
            "module c: the file vllm/gone.py, which it relies on, is missing\n"
            "  where:    module.toml:5 vllm/gone.py\n"
            f"  expected: {sha256(b'')}\n"
            f"  found:    no such file\n{fix}"
        ),
    ]


def test_a_read_pin_on_a_file_that_is_removed() -> None:
    modules = [
        module("a", removed("vllm/core.py", TEXT)),
        module("b", reads=[read("vllm/core.py", TEXT)]),
    ]
    (fault,) = faults(modules, package())
    assert "which it relies on, is missing" in fault
    assert "found:    no such file (as module a leaves it)" in fault


# Imports


@pytest.mark.parametrize(
    ("file", "shadow"),
    [
        ("core.so", "core.so"),
        ("core.abi3.so", "core.abi3.so"),
        ("core.cpython-312-x86_64-linux-gnu.so", "core.cpython-312-x86_64-linux-gnu.so"),
        ("core/__init__.py", "core"),
        ("core/__init__.pyc", "core"),
        ("core/__init__.cpython-312-x86_64-linux-gnu.so", "core"),
    ],
)
def test_what_an_import_would_find_before_a_changed_source(file: str, shadow: str) -> None:
    expected = (
        f"module a: target vllm/core.py: an import finds /{ROOT}/vllm/{shadow} before it, so that"
        " it would never run\n"
        "  where:    module.toml:1 vllm/core.py\n"
        "  fix:      remove what shadows it, or patch that"
    )
    path = f"{ROOT}/vllm/{file}"
    on = view({CORE: TEXT, path: b""})
    a = module("a", change(line_3=b"x"))
    assert faults([a], on) == [expected]
    assert fine([a, module("b", removed(f"/{path}", b""))], on)
    assert faults([a, module("b", added(f"/{path}", b""))], view({CORE: TEXT})) == [expected]


def test_what_does_not_shadow_a_source() -> None:
    names = (
        "core_.so",
        "xcore.so",
        "core.txt",
        "core/data.json",
        "core/inner/__init__.py",
        "core.pyc",
    )
    on = view({CORE: TEXT, **{f"{ROOT}/vllm/{name}": b"" for name in names}})
    assert fine([module("a", change(line_3=b"x"), added("vllm/data.json", b""))], on)


# Everything at once


def test_every_module_is_judged() -> None:
    modules = [
        module("a", change(b"older\n", line_1=b"x"), added("vllm/other.py", b"")),
        module("b", change(line_3=b"b")),
        module("c", change(line_3=b"c"), reads=[read("vllm/other.py", b"older\n")]),
        module("d", removed("vllm/none.py", b"")),
        module("e", added("vllm/.wh.e", b"")),
        module("f", added("vllm/core/__init__.py", b"")),
    ]
    assert [fault.partition("\n")[0] for fault in faults(modules, package())] == [
        "module a: the preimage of vllm/core.py differs",
        "module a: added file vllm/other.py is already there",
        f"module c: collides with module b on vllm/core.py (/{CORE})",
        "module d: target vllm/none.py is missing",
        "module e: target vllm/.wh.e: layers reserve names that start with .wh.",
        "module c: the file vllm/other.py, which it relies on, differs",
        (
            f"module b: target vllm/core.py: an import finds /{ROOT}/vllm/core before it,"
            " so that it would never run"
        ),
    ]


def test_what_is_written_on_a_refused_change_is_not_reported_again() -> None:
    middle = edited(TEXT, {3: b"a\n"})
    final = edited(middle, {9: b"b\n"})
    modules = [
        module("a", change(line_3=b"a")),
        module("b", change(middle, line_9=b"b"), requires=["a"]),
        module("c", change(final, line_15=b"c"), requires=["b"]),
        module("d", reads=[read("vllm/core.py", final)], requires=["b"]),
    ]
    assert fine(modules[:2], package())
    (fault,) = faults(modules, view({CORE: b"newer\n"}))
    assert fault.startswith("module a: the preimage of vllm/core.py differs")


def test_what_stands_beside_a_refused_change_is_reported_too() -> None:
    modules = [
        module("a", change(line_3=b"a")),
        module("b", change(line_9=b"b"), reads=[read("vllm/core.py", TEXT)], requires=["a"]),
    ]
    assert [fault.partition("\n")[0] for fault in faults(modules, view({CORE: b"newer\n"}))] == [
        "module a: the preimage of vllm/core.py differs",
        "module b: the preimage of vllm/core.py differs",
        "module b: the file vllm/core.py, which it relies on, differs",
    ]
