"""Paths through symbolic links, as the kernel walks them inside the image's own root."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from composer.oci.filetree import Entry, LayerTable, PathError, Tree, directory, regular

from .support import is_root

LINKS = {
    "lib": "usr/lib",
    "abs": "/usr/lib/py",
    "usr/lib/up": "../share",
    "usr/lib/py/back": "../../lib",
    "usr/share/dangling": "nowhere/at/all",
    "usr/slash": "lib/",
    "usr/dot": ".",
    "out": "../etc",
    "usr/out": "../../etc",
    "me": "me",
    "ping": "pong",
    "pong": "ping/x",
    "to-file": "usr/lib/py/m.py",
    "root": "/",
}


def tree(links: dict[str, str]) -> Tree:
    entries = {path: Entry("l", link=target) for path, target in links.items()}
    for path in ("usr", "usr/lib", "usr/lib/py", "usr/share", "etc"):
        entries[path] = directory(0)
    for path in ("usr/lib/py/m.py", "usr/share/doc"):
        entries[path] = regular(0, "")
    return Tree.merge([LayerTable(entries)])


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        ("usr/lib/py/m.py", "usr/lib/py/m.py"),
        ("/usr/lib/py/m.py", "usr/lib/py/m.py"),
        ("lib/py/m.py", "usr/lib/py/m.py"),
        ("lib", "usr/lib"),
        ("abs/m.py", "usr/lib/py/m.py"),
        ("to-file", "usr/lib/py/m.py"),
        ("lib/up/doc", "usr/share/doc"),
        ("lib/py/back/py/back/py/m.py", "usr/lib/py/m.py"),
        ("abs/..", "usr/lib"),  # not `` (abs is a link), as in the kernel
        ("abs/../up/./doc", "usr/share/doc"),
        ("usr/slash/py", "usr/lib/py"),
        ("usr/dot/dot/dot/lib", "usr/lib"),
        ("root/root/lib/py", "usr/lib/py"),
        ("usr//lib/./py/", "usr/lib/py"),
        ("", ""),
        ("/", ""),
        (".", ""),
        # What is not there stays as it is written, below the last directory that is.
        ("lib/new.py", "usr/lib/new.py"),
        ("lib/new/deep/x.py", "usr/lib/new/deep/x.py"),
        ("usr/share/dangling", "usr/share/nowhere/at/all"),
        ("usr/share/dangling/x", "usr/share/nowhere/at/all/x"),
        ("usr/lib/py/m.py/", "usr/lib/py/m.py"),
    ],
)
def test_resolve(written: str, resolved: str) -> None:
    assert tree(LINKS).resolve(written) == resolved


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("..", "/.. leaves the image's root"),
        ("/../etc", "/../etc leaves the image's root"),
        ("usr/../../etc/x", "/usr/../../etc/x leaves the image's root"),
        ("out/x", "/out/x leaves the image's root"),
        ("usr/out", "/usr/out leaves the image's root"),
        ("me", "/me is a loop of symbolic links"),
        ("ping/x", "/ping/x is a loop of symbolic links"),
        ("usr/lib/py/m.py/x", "/usr/lib/py/m.py is not a directory"),
        ("to-file/x", "/usr/lib/py/m.py is not a directory"),
        ("to-file/..", "/usr/lib/py/m.py is not a directory"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(written: str, reason: str) -> None:
    with pytest.raises(PathError, match=re.escape(reason)):
        tree(LINKS).resolve(written)


def test_forty_links_are_followed_and_no_more() -> None:
    links = {f"l{number}": f"l{number + 1}" for number in range(60)}
    assert tree(links).resolve("l20") == "l60"
    with pytest.raises(PathError, match="/l19 is a loop of symbolic links"):
        tree(links).resolve("l19")


# Prints, for each path, the device and inode that the kernel finds in the new root, or an errno.
WALKER = """
import json, os, sys
root, paths = json.load(sys.stdin)
os.chroot(root)
os.chdir("/")
for path in paths:
    try:
        found = os.stat("/" + path)
        print(json.dumps([found.st_dev, found.st_ino]))
    except OSError as error:
        print(json.dumps(error.errno))
"""
NAMES = ["a", "b", "c"]


def random_root(random: Random, root: Path) -> Tree:
    """The same random files in `root` and as a tree."""
    table: dict[str, Entry] = {}
    places = [""]
    for _ in range(14):
        path = "/".join(filter(None, (random.choice(places), random.choice(NAMES))))
        if path in table:
            continue
        kind = random.choice("dllf")
        if kind == "d":
            table[path] = directory(0)
            places.append(path)
            (root / path).mkdir()
        elif kind == "f":
            table[path] = regular(0, "")
            (root / path).touch()
        else:
            table[path] = Entry("l", link=random_path(random))
            (root / path).symlink_to(table[path].link)
    return Tree.merge([LayerTable(table)])


def random_path(random: Random) -> str:
    parts = random.choices([*NAMES, *NAMES, "..", "."], k=random.randint(1, 4))
    return random.choice(["", "/"]) + "/".join(parts)


def kernels_answers(root: Path, paths: list[str]) -> list[list[int] | int]:
    walked = subprocess.run(
        [sys.executable, "-c", WALKER],
        input=json.dumps([str(root), paths]),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in walked.stdout.splitlines()]


@pytest.mark.skipif(not is_root, reason="chroot takes root")
def test_random_paths_lead_where_the_kernel_goes(tmp_path: Path) -> None:
    random = Random(7)
    met = set()
    for number in range(12):
        root = tmp_path / str(number)
        root.mkdir()
        made = random_root(random, root)
        paths = [random_path(random) for _ in range(60)]
        for path, answer in zip(paths, kernels_answers(root, paths), strict=True):
            met.add(check_against(made, root, path, answer))
    assert met == {"found", "missing", "loop", "not a directory", "leaves"}


def check_against(made: Tree, root: Path, path: str, answer: list[int] | int) -> str:
    try:
        resolved = made.resolve(path)
    except PathError as error:
        if "leaves the image's root" in str(error):
            return "leaves"  # the kernel stays at the root; we refuse, on purpose
        # What is missing is taken as it is written, so that `..` may step back out of it; the
        # kernel has given up by then.
        if "is a loop" in str(error):
            assert answer in (errno.ELOOP, errno.ENOENT), path
            return "loop"
        assert answer in (errno.ENOTDIR, errno.ENOENT), path
        return "not a directory"
    if isinstance(answer, int):
        assert answer in (errno.ENOENT, errno.ENOTDIR), path
        return "missing"
    status = (root / resolved).lstat()
    assert [status.st_dev, status.st_ino] == answer, (path, resolved)
    return "found"
