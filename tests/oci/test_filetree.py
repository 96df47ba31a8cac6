"""Layer tables and their merge: every rule of layer.md, against models and real file systems."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.oci.digest import sha256
from composer.oci.filetree import (
    Entry,
    LayerTable,
    PathError,
    Tree,
    directory,
    normalise,
    regular,
)
from composer.oci.layout import Layout

from .support import (
    archive,
    image,
    is_root,
    needs,
    properties,
    run,
    store_archive,
    store_image,
    tmpfs,
)

Members = Sequence[tuple[str, Entry]]
D = directory(7)


def f(content: str, mode: int = 0o644) -> Entry:
    return regular(len(content), sha256(content.encode()).hex, mode=mode)


def link(target: str) -> Entry:
    return Entry("l", mode=0o777, link=target)


def hard(target: str) -> Entry:
    return Entry("h", link=target)


GONE = f("")  # what a whiteout's own entry looks like


def merge(*layers: Members) -> Tree:
    return Tree.merge(LayerTable.of(layer) for layer in layers)


def shown(tree: Tree) -> dict[str, str]:
    """Paths, with the kind, the link's target or a hint of the content."""
    return {path: entry.kind + (entry.link or entry.sha256[:4]) for path, entry in tree.walk()}


def is_consistent(tree: Tree) -> bool:
    """Every entry lies in a directory, and `names` says what `entries` holds."""
    below: dict[str, set[str]] = {}
    for path, _ in tree.walk():
        parent, name = posixpath.split(path)
        below.setdefault(parent, set()).add(name)
    return all((entry := tree.stat(path)) is not None and entry.is_dir for path in below) and all(
        set(tree.names(path)) == below.get(path, set()) for path in ["", *tree.entries]
    )


# Names


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("a/b", "a/b"),
        ("/a/b", "a/b"),
        ("./a/b", "a/b"),
        ("././a", "a"),
        ("a/b/", "a/b"),
        ("a//b", "a/b"),
        ("a/./b", "a/b"),
        ("a/b/.", "a/b"),
        ("//a", "a"),
        ("", ""),
        (".", ""),
        ("./", ""),
        ("/", ""),
        ("..a/b..", "..a/b.."),
        ("a/...", "a/..."),
        ("a/.b", "a/.b"),
        (" a ", " a "),
        ("a\\b", "a\\b"),
        ("caf\udce9", "caf\udce9"),
    ],
)
def test_normalise(written: str, normal: str) -> None:
    assert normalise(written) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize("written", ["..", "../a", "a/..", "a/../b", "/..", "./..", "a/../../b"])
def test_a_name_with_dots_is_refused(written: str) -> None:
    with pytest.raises(PathError, match=re.escape(f"{written!r} has a '..' part")):
        normalise(written)


def test_a_name_with_a_nul_is_refused() -> None:
    with pytest.raises(PathError, match="holds a NUL"):
        normalise("a\0b")


# One layer's table


def test_spellings_of_one_path_are_one_entry_and_the_last_wins() -> None:
    table = LayerTable.of([("./a/", D), ("a/f", f("1")), ("/a//f", f("2")), ("./", D)])
    assert table == LayerTable({"a": D, "a/f": f("2")})


def test_whiteouts_are_not_entries() -> None:
    table = LayerTable.of(
        [("a/.wh.x", GONE), ("./.wh.y", GONE), ("b/.wh..wh..opq", GONE), (".wh..wh..opq", GONE)]
    )
    assert table == LayerTable({}, frozenset({"a/x", "y"}), frozenset({"b", ""}))


@pytest.mark.parametrize("name", [".wh.", "a/.wh.", "a/.wh..", "a/.wh..."])
def test_a_whiteout_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(PathError, match=re.escape(f"the whiteout {name!r} names nothing")):
        LayerTable.of([(name, GONE)])


@pytest.mark.parametrize("name", ["../x", "a/../../x", "../.wh.x"])
def test_a_member_outside_the_root_is_refused(name: str) -> None:
    with pytest.raises(PathError, match=r"has a '\.\.' part"):
        LayerTable.of([(name, f("1"))])


def test_a_name_below_a_link_of_its_own_layer_goes_where_the_link_leads() -> None:
    table = LayerTable.of(
        [
            ("lib", link("usr/lib")),
            ("usr/abs", link("/lib/sub")),
            ("lib/a", f("1")),
            ("usr/abs/b", f("2")),
            ("c", hard("lib/a")),
            ("lib/.wh.gone", GONE),
        ]
    )
    assert sorted(table.entries) == ["c", "lib", "usr/abs", "usr/lib/a", "usr/lib/sub/b"]
    assert table.entries["c"].link == "usr/lib/a"
    assert table.whiteouts == {"usr/lib/gone"}


def test_a_link_that_comes_later_takes_the_directorys_place() -> None:
    table = LayerTable.of([("lib/x/a", f("1")), ("lib", link("usr/lib")), ("lib/b", f("2"))])
    assert sorted(table.entries) == ["lib", "usr/lib/b"]


def test_a_directory_that_comes_later_takes_the_links_place() -> None:
    table = LayerTable.of([("lib", link("usr/lib")), ("lib/a", f("1")), ("lib", D), ("lib/b", D)])
    assert table.entries == {"lib": D, "usr/lib/a": f("1"), "lib/b": D}


def test_a_file_that_comes_later_takes_the_directorys_place() -> None:
    table = LayerTable.of([("a", D), ("a/b/c", f("1")), ("ab", D), ("a", f("2"))])
    assert table.entries == {"a": f("2"), "ab": D}


def test_a_file_with_something_in_it_is_refused() -> None:
    for above in (f("1"), hard("x"), Entry("c")):
        with pytest.raises(PathError, match="/a is not a directory, and has 'b' in it"):
            LayerTable.of([("x", f("1")), ("a", above), ("a/b", f("2"))])


def test_a_loop_of_links_on_the_way_is_refused() -> None:
    with pytest.raises(PathError, match="/a is a loop of symbolic links"):
        LayerTable.of([("a", link("b")), ("b", link("a")), ("a/x", f("1"))])


# The merge, rule by rule


def test_layers_are_applied_in_their_order() -> None:
    tree = merge([("a", f("1")), ("b", f("1"))], [("a", f("2"))], [("c", f("3"))])
    assert tree.entries == {"": directory(0), "a": f("2"), "b": f("1"), "c": f("3")}
    assert list(tree.names("")) == ["a", "b", "c"]


def test_a_directory_over_a_directory_replaces_its_attributes_alone() -> None:
    mine = Entry("d", mode=0o700, uid=5, gid=6, mtime=9, xattrs=(("user.a", "b"),))
    tree = merge([("d", D), ("d/f", f("1"))], [("d", mine)])
    assert tree.stat("d") == mine
    assert tree.stat("d/f") == f("1")


# layer.md, "Changeset over existing files": "In all other cases … removing the file path …
# recreating the file path"
@pytest.mark.parametrize("below", ["f", "d", "l", "p"])
@pytest.mark.parametrize("above", ["f", "d", "l", "c"])
def test_any_other_change_of_type_removes_what_was_there(below: str, above: str) -> None:
    entries = {"f": f("1"), "d": D, "l": link("e"), "c": Entry("c"), "p": Entry("p")}
    lower = [("x", entries[below]), ("e", D), ("e/keep", f("1"))]
    if below == "d":
        lower += [("x/f", f("1")), ("x/d/f", f("1"))]
    tree = merge(lower, [("x", entries[above])])
    kept = ["x/d", "x/d/f", "x/f"] if (below, above) == ("d", "d") else []
    assert [path for path, _ in tree.walk()] == ["e", "e/keep", "x", *kept]
    assert tree.stat("x") == entries[above]
    assert is_consistent(tree)


def test_a_type_can_change_back_and_forth() -> None:
    stack = [[("x", D), ("x/f", f("1"))], [("x", f("2"))], [("x", D)], [("x/g", f("3"))]]
    assert shown(merge(*stack[:3])) == {"x": "d"}
    assert list(shown(merge(*stack))) == ["x", "x/g"]


def test_a_whiteout_removes_a_file_a_link_or_a_whole_directory() -> None:
    lower = [("f", f("1")), ("l", link("d")), ("d/e/f", f("1")), ("de", f("1"))]
    gone = [(".wh.f", GONE), (".wh.l", GONE), (".wh.d", GONE), (".wh.never", GONE)]
    tree = merge(lower, gone)
    assert shown(tree) == shown(merge([("de", f("1"))]))
    assert is_consistent(tree)


def test_a_whiteout_hides_what_is_below_its_layer_and_nothing_else() -> None:
    lower = [("a", f("1")), ("d/old", f("1"))]
    members = [("a", f("2")), (".wh.a", GONE), ("d/new", f("2")), (".wh.d", GONE)]
    for order in permutations(members):
        tree = merge(lower, order)
        assert list(shown(tree)) == ["a", "d", "d/new"]
        assert tree.stat("a") == f("2")


def test_a_tombstone_is_forgotten_once_the_file_is_made_again() -> None:
    gone, again = [(".wh.a", GONE)], [("a", f("2"))]
    assert shown(merge([("a", f("1"))], gone, again)) == shown(merge(again))
    assert shown(merge([("a", f("1"))], gone, again, gone)) == {}
    assert shown(merge([("a", f("1"))], again, gone, again)) == shown(merge(again))


def test_an_opaque_directory_hides_all_that_is_below_and_stays() -> None:
    # layer.md's own example, in every order of the archive
    lower = [("a", D), ("a/b", D), ("a/b/c", D), ("a/b/c/bar", f("1"))]
    upper = [
        ("a", directory(9)),
        ("a/.wh..wh..opq", GONE),
        ("a/b", D),
        ("a/b/c", D),
        ("a/b/c/foo", f("2")),
    ]
    for order in permutations(upper):
        tree = merge(lower, order)
        assert list(shown(tree)) == ["a", "a/b", "a/b/c", "a/b/c/foo"]
        assert tree.stat("a") == directory(9)
    emptied = merge(lower, [("a/.wh..wh..opq", GONE)])
    assert emptied.entries == {"": directory(0), "a": D}


def test_an_opaque_root_hides_everything() -> None:
    tree = merge([("a", f("1")), ("d/e", f("1"))], [(".wh..wh..opq", GONE), ("b", f("2"))])
    assert list(shown(tree)) == ["b"]
    assert is_consistent(tree)


def test_an_opaque_marker_is_the_same_as_explicit_whiteouts() -> None:
    lower = [("bin/app", f("1")), ("bin/tools/one", f("1")), ("bin/x", link("app"))]
    opaque = merge(lower, [("bin/.wh..wh..opq", GONE)])
    names = [f"bin/.wh.{name}" for name in ("app", "tools", "x")]
    assert opaque.entries == merge(lower, [(name, GONE) for name in names]).entries


def test_markers_of_what_is_not_there_do_nothing() -> None:
    tree = merge(
        [("f", f("1")), ("l", link("f"))],
        [("x/.wh.y", GONE), ("x/.wh..wh..opq", GONE), ("f/.wh.y", GONE), ("l/.wh..wh..opq", GONE)],
    )
    assert list(shown(tree)) == ["f", "l"]


def test_a_parent_that_was_left_out_keeps_what_is_below() -> None:
    tree = merge([("d", Entry("d", mode=0o700)), ("d/a", f("1"))], [("d/b", f("2"))])
    assert list(shown(tree)) == ["d", "d/a", "d/b"]
    assert tree.stat("d") == Entry("d", mode=0o700)


def test_a_parent_that_never_was_is_made_as_runtimes_make_it() -> None:
    tree = merge([("a/b/c", f("1"))])
    assert tree.stat("a") == tree.stat("a/b") == Entry("d", mode=0o755)


def test_a_parent_takes_the_place_of_a_link_below() -> None:
    # The usual accident: one file in /lib, and /lib -> usr/lib is gone.
    tree = merge([("lib", link("usr/lib")), ("usr/lib/x", f("1"))], [("lib/y", f("2"))])
    assert shown(tree)["lib"] == "d"
    assert list(tree.names("lib")) == ["y"]


def test_a_parent_takes_the_place_of_a_file_below() -> None:
    tree = merge([("a", f("1"))], [("a/b/c", f("2"))])
    assert list(shown(tree)) == ["a", "a/b", "a/b/c"]
    assert is_consistent(tree)


# Hard links


def test_hard_linked_names_share_their_content_and_know_each_other() -> None:
    big = f("big", mode=0o755)
    for order in permutations([("b", big), ("a", hard("b")), ("c", hard("./a"))]):
        tree = Tree.merge([LayerTable(dict(order))])
        found = [tree.stat(name) for name in "abc"]
        assert all(one is not None and one._replace(inode="") == big for one in found)
        assert list(tree.siblings("a")) == ["b", "c"]
        assert list(tree.siblings("c")) == ["a", "b"]


def test_a_hard_link_into_a_lower_layer_makes_siblings_of_both() -> None:
    tree = merge([("a", f("1"))], [("b", hard("a"))], [("c", hard("b"))])
    assert shown(tree) == dict.fromkeys("abc", "f" + f("1").sha256[:4])
    assert [list(tree.siblings(name)) for name in "abc"] == [["b", "c"], ["a", "c"], ["a", "b"]]


def test_a_replaced_file_leaves_its_siblings_with_the_old_bytes() -> None:
    tree = merge([("a", f("1")), ("b", hard("a")), ("c", hard("a"))], [("a", f("2"))])
    assert tree.stat("a") == f("2")
    assert list(tree.siblings("a")) == []
    assert list(tree.siblings("b")) == ["c"]
    linked = tree.stat("b")
    assert linked is not None
    assert linked.sha256 == f("1").sha256


def test_groups_of_the_same_name_in_two_layers_are_apart() -> None:
    tree = merge(
        [("a", f("1")), ("b", hard("a")), ("z", hard("a"))], [("a", f("2")), ("b", hard("a"))]
    )
    assert list(tree.siblings("a")) == ["b"]
    assert list(tree.siblings("z")) == []


def test_a_hard_link_to_a_symbolic_link_is_one() -> None:
    tree = merge([("a", link("x")), ("b", hard("a"))])
    assert shown(tree) == {"a": "lx", "b": "lx"}


@pytest.mark.parametrize(
    "members",
    [
        [("a", hard("nowhere"))],
        [("a", hard("a"))],
        [("a", hard("b")), ("b", hard("a"))],
        [("d", D), ("a", hard("d"))],
        [("a", hard(""))],
        [(".wh.low", GONE), ("a", hard("low"))],
    ],
)
def test_a_hard_link_to_no_file_is_refused(members: Members) -> None:
    with pytest.raises(PathError, match=r"/a is a hard link to .*, which is no file of the image"):
        merge([("low", f("1"))], members)


def test_a_hard_link_out_of_the_root_is_refused() -> None:
    with pytest.raises(PathError, match=r"'\.\./x' has a '\.\.' part"):
        merge([("a", hard("../x"))])


# Any stack, against a model of nested directories


@dataclass(eq=False)
class Node:
    """A file of the model: names that share a node are hard-linked."""

    entry: Entry
    children: dict[str, Node] | None = None


@dataclass
class Model:
    """Layers applied to nested directories, word for word as layer.md has it."""

    root: Node = field(default_factory=lambda: Node(D, {}))

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for part in path.split("/") if path else []:
            node = (node.children or {}).get(part) if node else None
        return node

    def folder_of(self, path: str) -> dict[str, Node]:
        """Where `path` goes: what is not a directory on the way becomes one."""
        here = self.root
        for part in path.split("/")[:-1]:
            assert here.children is not None
            child = here.children.get(part)
            if child is None or child.children is None:
                child = here.children[part] = Node(directory(0), {})
            here = child
        assert here.children is not None
        return here.children

    def apply(self, members: Members) -> None:
        for path, _ in members:  # "applied first, … regardless of the ordering"
            parent, name = posixpath.split(path)
            target = self.find(parent)
            if target is None or not target.children:
                continue
            if name == ".wh..wh..opq":
                target.children.clear()
            elif name.startswith(".wh."):
                target.children.pop(name.removeprefix(".wh."), None)
        for path, entry in members:
            name = posixpath.basename(path)
            if not name.startswith(".wh.") and entry.kind != "h":
                folder = self.folder_of(path)
                before = folder.get(name)
                if entry.is_dir and before is not None and before.children is not None:
                    before.entry = entry
                else:
                    folder[name] = Node(entry, {} if entry.is_dir else None)
        for path, entry in members:
            if entry.kind == "h":
                target = self.find(entry.link)
                assert target is not None
                self.folder_of(path)[posixpath.basename(path)] = target

    def walk(self, node: Node | None = None, prefix: str = "") -> Iterable[tuple[str, Node]]:
        for name, child in sorted(((node or self.root).children or {}).items()):
            yield prefix + name, child
            yield from self.walk(child, f"{prefix}{name}/")


PATHS = [*"abc", *(f"{a}/{b}" for a in "abc" for b in "abc"), "a/b/c", "b/a/c", "c/c/a"]


def random_layer(random: Random, below: Model, *, hard_links: str = "any") -> Members:
    """A layer that any runtime can extract, whiteouts of what is there and not included."""
    members: dict[str, Entry] = {}
    for path in random.sample(PATHS, random.randint(0, 6)):
        parents = {path[:at] for at in range(len(path)) if path[at] == "/"}
        clash = any(one in members and not members[one].is_dir for one in parents)
        inside = any(one.startswith(f"{path}/") for one in members)
        if clash:
            continue
        kind = "d" if inside else random.choice("ffdl")
        made = {
            "f": f(str(random.randint(0, 3))),
            "d": directory(random.randint(0, 3)),
            "l": link(random.choice(["a", "/b", "../c"])),
        }
        members[path] = made[kind]
    layer = list(members.items())
    layer += random_markers(random, below, members)
    layer += random_hard_links(random, below, members, hard_links)
    random.shuffle(layer)
    return layer


def random_markers(random: Random, below: Model, members: dict[str, Entry]) -> Members:
    markers: dict[str, Entry] = {}
    for path in random.sample(PATHS, random.randint(0, 3)):
        parent, name = posixpath.split(path)
        held = below.find(parent)
        above = {path[:at] for at in range(len(path)) if path[at] == "/"}
        if held is None or held.children is None:
            continue
        if any(one in members and not members[one].is_dir for one in above):
            continue
        marker = ".wh..wh..opq" if random.random() < 0.3 else f".wh.{name}"
        markers[posixpath.join(parent, marker)] = GONE
    return list(markers.items())


def random_hard_links(
    random: Random, below: Model, members: dict[str, Entry], which: str
) -> Members:
    """Links to files of the layer itself or, where `which` is any, of the ones below."""
    free = [name for name in ("x", "y", "z/h") if random.random() < 0.3]
    targets = [path for path, entry in members.items() if entry.is_file]
    if which == "any" and not targets:
        targets = [path for path, node in below.walk() if node.children is None]
    targets = [path for path in targets if path not in ("x", "y", "z/h")]
    return [(path, hard(random.choice(targets))) for path in free] if targets else []


def compare(tree: Tree, model: Model) -> None:
    nodes = dict(model.walk())
    assert {path: entry._replace(inode="") for path, entry in tree.walk()} == {
        path: node.entry for path, node in nodes.items()
    }
    for path, node in nodes.items():
        if node.children is None:
            same = [other for other, one in nodes.items() if one is node and other != path]
            assert list(tree.siblings(path)) == same
    assert is_consistent(tree)


def drop_stale_links(layer: Members, below: Model) -> Members:
    """Leave out hard links whose target the layer's own whiteouts take away."""
    bare = [(path, entry) for path, entry in layer if entry.kind != "h"]
    trial = Model(copied(below.root))
    trial.apply(bare)
    return [
        (path, entry)
        for path, entry in layer
        if entry.kind != "h"
        or ((node := trial.find(entry.link)) is not None and node.children is None)
    ]


def copied(node: Node) -> Node:
    children = node.children
    return Node(
        node.entry, None if children is None else {k: copied(v) for k, v in children.items()}
    )


def random_stack(random: Random, depth: int, *, hard_links: str = "any") -> list[Members]:
    model, stack = Model(), []
    for _ in range(depth):
        layer = drop_stale_links(random_layer(random, model, hard_links=hard_links), model)
        model.apply(layer)
        stack.append(layer)
    return stack


@properties(400)
@given(st.randoms(use_true_random=False), st.integers(1, 5))
def test_any_stack_is_what_the_model_says(random: Random, depth: int) -> None:
    stack = random_stack(random, depth)
    model = Model()
    for number, layer in enumerate(stack):
        model.apply(layer)
        compare(merge(*stack[: number + 1]), model)


@properties(200)
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_the_order_of_an_archive_says_nothing(random: Random, depth: int) -> None:
    stack = random_stack(random, depth)
    shuffled = [random.sample(list(layer), len(layer)) for layer in stack]
    assert merge(*shuffled).entries == merge(*stack).entries
    tables = [LayerTable.of(layer) for layer in stack]
    by_name = [
        LayerTable(dict(sorted(one.entries.items())), one.whiteouts, one.opaque) for one in tables
    ]
    assert Tree.merge(by_name).entries == Tree.merge(tables).entries


# The same stacks, mounted by the kernel and unpacked by umoci


def seen(root: Path) -> dict[str, tuple[str, str]]:
    """Kind and content (files), target (links) of everything below `root`."""
    found = {}
    for path in sorted(root.rglob("*")):
        if not os.path.lexists(path):  # overlayfs lists a whiteout where it has nothing to merge
            continue
        status = path.lstat()
        kind, content = "d", ""
        if stat.S_ISLNK(status.st_mode):
            kind, content = "l", str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            kind, content = "f", sha256(path.read_bytes()).hex
        found[str(path.relative_to(root))] = (kind, content)
    return found


def told(tree: Tree) -> dict[str, tuple[str, str]]:
    return {path: (entry.kind, entry.link or entry.sha256) for path, entry in tree.walk()}


CONTENTS = {sha256(text.encode()).hex: text for text in ["", *"0123456789", "big"]}


def below_any(paths: Iterable[str], path: str) -> bool:
    return any(path.startswith(f"{one}/") for one in paths)


def to_overlay(layer: Members, root: Path) -> None:
    """Write a layer as overlayfs wants it: kernel documentation, overlayfs, "whiteouts"."""
    table = LayerTable.of(layer)
    root.mkdir()
    for path, entry in sorted(table.entries.items(), key=lambda one: one[1].kind == "h"):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.is_dir:
            target.mkdir(exist_ok=True)
        elif entry.kind == "l":
            target.symlink_to(entry.link)
        elif entry.kind == "h":
            target.hardlink_to(root / entry.link)
        else:
            target.write_text(CONTENTS[entry.sha256])
    gone = [path for path in table.whiteouts if not below_any(table.whiteouts, path)]
    for path in gone:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not target.is_symlink():
            os.setxattr(target, "trusted.overlay.opaque", b"y")
        elif not os.path.lexists(target):
            os.mknod(target, stat.S_IFCHR, os.makedev(0, 0))
    for path in [path for path in table.opaque if not below_any(table.whiteouts, path)]:
        (root / path).mkdir(parents=True, exist_ok=True)
        os.setxattr(root / path, "trusted.overlay.opaque", b"y")


def test_any_stack_is_what_the_kernels_overlay_shows(tmp_path: Path) -> None:
    random = Random(20240501)
    with tmpfs(tmp_path / "fs", "64m") as root:
        mounted = root / "mounted"
        mounted.mkdir()
        for number in range(60):
            stack = random_stack(random, 4, hard_links="own")
            # The roots of overlaid layers are merged whatever they are marked as.
            stack = [[one for one in layer if one[0] != ".wh..wh..opq"] for layer in stack]
            where = root / str(number)
            (where / "lowest").mkdir(parents=True)
            for at, layer in enumerate(stack):
                to_overlay(layer, where / str(at))
            lower = ":".join(f"{where}/{at}" for at in ("3", "2", "1", "0", "lowest"))
            run("mount", "-t", "overlay", "overlay", "-o", f"ro,lowerdir={lower}", mounted)
            try:
                shows = seen(mounted)
            finally:
                run("umount", mounted)
            assert told(merge(*stack)) == shows, (number, stack)


UNPACKED: list[Members] = [
    [
        ("usr", D),
        ("usr/lib", D),
        ("usr/lib/a.so", f("1")),
        ("usr/lib/b.so", hard("usr/lib/a.so")),
        ("lib", link("usr/lib")),
        ("etc", D),
        ("etc/conf", f("1")),
        ("etc/d", D),
        ("etc/d/one", f("1")),
        ("etc/d/two", f("2")),
        ("opt", D),
        ("opt/app", D),
        ("opt/app/x", f("1")),
        ("opt/tool", f("1")),
    ],
    [
        ("etc", D),
        ("etc/.wh.conf", GONE),
        ("etc/d", D),
        ("etc/d/.wh..wh..opq", GONE),
        ("etc/d/three", f("3")),
        ("opt", D),
        ("opt/.wh.app", GONE),
        ("opt/tool", D),
        ("opt/tool/y", f("4")),
    ],
    [
        ("etc", D),
        ("etc/conf", f("5")),
        ("opt", D),
        ("opt/app", link("/usr")),
        ("usr", D),
        ("usr/lib", D),
        ("usr/lib/a.so", f("6")),
        ("lib", D),
        ("lib/real", f("7")),
    ],
]


@needs("umoci")
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_stack_is_what_umoci_unpacks(tmp_path: Path, depth: int) -> None:
    layout = Layout(tmp_path / "layout")
    stack = UNPACKED[:depth]
    layers = []
    for layer in stack:
        content = {path: CONTENTS[entry.sha256].encode() for path, entry in layer if entry.is_file}
        layers.append(store_archive(layout, archive((p, e, content.get(p, b"")) for p, e in layer)))
    store_image(layout, image(layers), "v1")
    rootless = [] if is_root else ["--rootless"]
    bundle = tmp_path / "bundle"
    run("umoci", "unpack", *rootless, "--image", f"{layout.root}:v1", bundle)
    assert told(merge(*stack)) == seen(bundle / "rootfs")
