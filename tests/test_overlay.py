"""Modules on the files of a base: what fits, and every way in which something does not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from composer.module import Module
from composer.oci.digest import sha256
from composer.oci.filetree import Entry
from composer.overlay import FileChange, Overlay, overlay
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


def result(modules: Sequence[Module], on: MemoryView) -> Overlay:
    """Return an overlay that must be free of faults."""
    made = overlay(modules, on, ROOT)
    assert [str(fault) for fault in made.faults] == []
    return made


# What fits


def test_a_patch() -> None:
    made = result([module("a", change(line_3=b"x"))], package())
    after = edited(TEXT, {3: b"x\n"})
    (one,) = made.changes
    assert one == FileChange(
        module="a",
        kind="patch",
        target="vllm/core.py",
        path=CORE,
        pre=sha256(TEXT),
        post=sha256(after),
        entry=one.entry,
        data=after,
        hunks=("@@ -3 +3 @@",),
    )
    assert made.of("a") == [one]
    assert made.of("b") == []
    assert made.remarks == ()


def test_every_kind_of_change() -> None:
    changes = (
        change(line_3=b"x"),
        added("vllm/new/deep.py", b"new\n"),
        replaced("vllm/other.py", OTHER, b"replaced\n"),
        removed(f"/{ROOT}/vllm/gone.py", b"gone\n"),
    )
    made = result([module("a", *changes)], package(gone=b"gone\n"))
    seen = [
        (one.kind, one.path.removeprefix(f"{ROOT}/"), one.pre, one.post) for one in made.changes
    ]
    assert seen == [
        ("patch", "vllm/core.py", sha256(TEXT), sha256(edited(TEXT, {3: b"x\n"}))),
        ("remove", "vllm/gone.py", sha256(b"gone\n"), None),
        ("add", "vllm/new/deep.py", None, sha256(b"new\n")),
        ("replace", "vllm/other.py", sha256(OTHER), sha256(b"replaced\n")),
    ]
    assert [one.data for one in made.changes[1:]] == [b"", b"new\n", b"replaced\n"]


def test_mode_owner_and_xattrs_are_those_of_the_file_replaced() -> None:
    header = Entry(
        "f", 0o4755, uid=3, gid=4, mtime=9, xattrs=(("security.capability", "\x01\x00"),)
    )
    files = {CORE: TEXT, f"{ROOT}/vllm/run.sh": b"run\n"}
    on = view(files, entries={CORE: header, f"{ROOT}/vllm/run.sh": header})
    changes = (
        change(line_3=b"x"),
        replaced("vllm/run.sh", b"run\n", b"walk\n"),
        added("vllm/new.py", b""),
    )
    for one in result([module("a", *changes)], on).changes:
        carried = (one.entry.mode, one.entry.uid, one.entry.gid, one.entry.xattrs)
        expected = (0o4755, 3, 4, header.xattrs) if one.pre else (0o644, 0, 0, ())
        assert carried == expected


def test_a_file_in_the_place_of_a_removed_one_carries_nothing_over() -> None:
    on = view({CORE: TEXT}, entries={CORE: Entry("f", 0o4755, uid=3)})
    modules = [
        module("a", removed("vllm/core.py", TEXT)),
        module("b", added("vllm/core.py", OTHER), requires=["a"]),
        module("c", patched("vllm/core.py", OTHER, b"new\n"), requires=["b"]),
    ]
    made = result(modules, on)
    assert [(one.entry.mode, one.entry.uid) for one in made.changes[1:]] == [(0o644, 0)] * 2


def test_modules_beside_each_other_in_one_file() -> None:
    edits = {"a": 3, "b": 9, "c": 15}
    modules = [module(name, change(**{f"line_{at}": name.encode()})) for name, at in edits.items()]
    final = edited(TEXT, {3: b"a\n", 9: b"b\n", 15: b"c\n"})
    for order in permutations(modules):
        made = result(order, package())
        assert [one.pre for one in made.changes] == [sha256(TEXT)] * 3
        assert made.changes[-1].data == final
        assert made.changes[0].data != made.changes[1].data != final


def test_one_target_relative_absolute_and_through_links() -> None:
    on = view(
        {CORE: TEXT},
        links={"lib": "usr/lib", "usr/lib/python3/dist-packages": "/usr/lib/python3/site-packages"},
    )
    spelled = (
        "vllm/core.py",
        f"/{CORE}",
        "/lib/python3/site-packages/vllm/core.py",
        "/usr/lib/python3/dist-packages//vllm/./core.py",
    )
    modules = [
        module(
            f"m{number}", patched(target, TEXT, edited(TEXT, {3 * number + 1: b"x\n"}), context=0)
        )
        for number, target in enumerate(spelled)
    ]
    made = result(modules, on)
    assert {one.path for one in made.changes} == {CORE}
    assert [one.target for one in made.changes] == list(spelled)
    assert made.changes[-1].data == edited(TEXT, dict.fromkeys((1, 4, 7, 10), b"x\n"))


@pytest.mark.parametrize(
    ("links", "target", "path"),
    [
        ({"lib": "usr/lib"}, "/lib/x.py", "usr/lib/x.py"),
        ({"usr/lib64": "lib"}, "/usr/lib64/x.py", "usr/lib/x.py"),
        ({"opt/venv": "../usr/lib"}, "/opt/venv/x.py", "usr/lib/x.py"),
        ({"a": "/b", "b": "usr/c", "usr/c": "../usr/lib"}, "/a/x.py", "usr/lib/x.py"),
        ({"usr/lib/y.py": "x.py"}, "/usr/lib/y.py", "usr/lib/x.py"),
        ({"usr/lib/y.py": "/usr/lib/x.py"}, "/usr/lib/y.py", "usr/lib/x.py"),
    ],
)
def test_what_a_link_leads_to_is_written(links: dict[str, str], target: str, path: str) -> None:
    on = view({"usr/lib/x.py": TEXT}, links=links)
    made = result([module("a", patched(target, TEXT, b"new\n"))], on)
    assert [one.path for one in made.changes] == [path]


def test_an_added_file_below_a_link() -> None:
    on = view({"usr/lib/x.py": TEXT}, links={"lib": "usr/lib", "new": "usr/not/yet"})
    made = result([module("a", added("/lib/y.py", b""), added("/new/z.py", b""))], on)
    assert [one.path for one in made.changes] == ["usr/lib/y.py", "usr/not/yet/z.py"]


def test_the_entry_whose_preimage_is_there_is_taken() -> None:
    newer = numbered(25)
    both = (change(line_3=b"x"), change(newer, line_4=b"y"))
    assert result([module("a", *both)], package()).changes[0].data == edited(TEXT, {3: b"x\n"})
    on = view({CORE: newer})
    assert result([module("a", *both)], on).changes[0].data == edited(newer, {4: b"y\n"})


def test_a_patch_on_the_result_of_a_required_module() -> None:
    middle = edited(TEXT, {3: b"a\n"})
    stacked = module("b", change(middle, line_3=b"b", line_9=b"b"), requires=["a"])
    beside = module("c", change(line_15=b"c"))
    a = module("a", change(line_3=b"a"))
    final = edited(TEXT, {3: b"b\n", 9: b"b\n", 15: b"c\n"})
    for order in ([a, stacked, beside], [a, beside, stacked], [beside, a, stacked]):
        made = result(order, package())
        assert made.changes[-1].data == final
        assert made.of("b")[0].pre == sha256(middle)


def test_a_patch_on_the_base_beside_a_required_module() -> None:
    made = result(
        [module("a", change(line_3=b"a")), module("b", change(line_9=b"b"), requires=["a"])],
        package(),
    )
    assert made.changes[-1].data == edited(TEXT, {3: b"a\n", 9: b"b\n"})


def test_three_levels_and_the_result_of_several() -> None:
    one = edited(TEXT, {3: b"a\n"})
    two = edited(one, {3: b"b\n"})
    three = edited(two, {3: b"d\n", 9: b"d\n"})
    modules = [
        module("a", change(line_3=b"a")),
        module("b", change(one, line_3=b"b"), requires=["a"]),
        module("c", change(line_9=b"c")),
        module(
            "d", change(edited(two, {9: b"c\n"}), line_3=b"d", line_9=b"d"), requires=["b", "c"]
        ),
        module("e", change(three, line_3=b"e"), requires=["d"]),
    ]
    made = result(modules, package())
    assert made.changes[-1].data == edited(three, {3: b"e\n"})


def test_a_change_that_was_taken_back_is_no_second_view() -> None:
    middle = edited(TEXT, {3: b"a\n"})
    back = patched("vllm/core.py", middle, TEXT, context=0)
    modules = [
        module("a", change(line_3=b"a")),
        module("b", back, requires=["a"]),
        module("c", change(line_3=b"c"), requires=["b"]),
    ]
    made = result(modules, package())
    assert made.changes[-1].data == edited(TEXT, {3: b"c\n"})


def test_on_a_file_that_a_required_module_adds_replaces_or_removes() -> None:
    new, other = numbered(3), b"other\n"
    modules = [
        module("a", added("vllm/new.py", new), replaced("vllm/other.py", OTHER, other)),
        module("b", removed("vllm/core.py", TEXT)),
        module(
            "c",
            patched("vllm/new.py", new, edited(new, {2: b"x\n"})),
            patched("vllm/other.py", other, b"patched\n"),
            added("vllm/core.py", b"again\n"),
            requires=["a", "b"],
        ),
        module("d", replaced("vllm/new.py", edited(new, {2: b"x\n"}), b"whole\n"), requires=["c"]),
        module("e", removed("vllm/new.py", b"whole\n"), requires=["d"]),
    ]
    made = result(modules, package())
    last = {one.path.removeprefix(f"{ROOT}/vllm/"): one for one in made.changes}
    assert last["new.py"].post is None
    assert last["other.py"].data == b"patched\n"
    assert (last["core.py"].data, last["core.py"].pre) == (b"again\n", None)


def test_read_pins_that_hold() -> None:
    after = edited(TEXT, {3: b"a\n"})
    on = view(
        {CORE: TEXT, f"{ROOT}/vllm/other.py": OTHER}, links={"other": f"{ROOT}/vllm/other.py"}
    )
    modules = [
        module("a", change(line_3=b"a")),
        module("b", reads=[read("/other", OTHER), read("vllm/core.py", after)]),
    ]
    found = [(one.module, one.target, one.path, one.digest) for one in result(modules, on).reads]
    assert found == [
        ("b", "/other", f"{ROOT}/vllm/other.py", sha256(OTHER)),
        ("b", "vllm/core.py", CORE, sha256(after)),
    ]


# What else is told, and what it costs


def test_a_hard_linked_file_is_remarked_on() -> None:
    on = view(
        {CORE: TEXT},
        entries={
            "usr/share/copy.py": Entry("h", link=CORE),
            "usr/share/again.py": Entry("h", link=CORE),
        },
    )
    assert result([module("a", change(line_3=b"x"))], on).remarks == (
        (
            f"module a: /{CORE} is hard-linked in the base; /usr/share/again.py, /usr/share/copy.py"
            " keep the old content"
        ),
    )


def test_only_files_that_are_patched_are_read() -> None:
    seen: list[str] = []

    class Counting(dict[str, bytes]):
        def __getitem__(self, path: str) -> bytes:
            seen.append(path)
            return super().__getitem__(path)

    on = package()
    counting = MemoryView(on.tree, Counting(on.contents))
    changes = (
        change(line_3=b"x"),
        replaced("vllm/other.py", OTHER, b"x\n"),
        added("vllm/x.py", b""),
    )
    result([module("a", *changes, reads=[read("vllm/x.py", b"")])], counting)
    result([module("a", change(line_3=b"x")), module("b", change(line_9=b"x"))], counting)
    assert seen == [CORE, CORE]


def test_many_modules_on_one_file() -> None:
    text = numbered(2000)
    modules = [
        module(
            f"m{number:03}",
            patched("vllm/core.py", text, edited(text, {number * 4: b"x\n"}), context=0),
        )
        for number in range(1, 301)
    ]
    made = result(modules, view({CORE: text}))
    assert made.changes[-1].data.count(b"x\n") == 300
