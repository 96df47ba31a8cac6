"""Bases in memory, modules as values, and diffs of bytes: what tests of pure code build on."""

from __future__ import annotations

import difflib
import io
import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from composer.module import Change, Knob, Module, Read
from composer.oci.digest import sha256
from composer.oci.filetree import Entry, LayerTable, Tree, regular
from composer.patch import split_lines

__all__ = [
    "EPOCH",
    "MemoryView",
    "added",
    "contents",
    "diff",
    "edited",
    "extract",
    "knob",
    "module",
    "numbered",
    "on_disk",
    "patched",
    "read",
    "removed",
    "replaced",
    "view",
]

EPOCH = 1714566600  # 2024-05-01T12:30:00Z


@dataclass(frozen=True, slots=True)
class MemoryView:
    """The files of a base: a merged tree, and the contents by path."""

    tree: Tree
    contents: Mapping[str, bytes]

    def stat(self, path: str) -> Entry | None:
        return self.tree.stat(path)

    def names(self, path: str, stem: str = "") -> Sequence[str]:
        return self.tree.names(path, stem)

    def read(self, path: str) -> bytes:
        return self.contents[path]

    def package_roots(self, package: str) -> Sequence[str]:
        return self.tree.package_roots(package)

    def siblings(self, path: str) -> Sequence[str]:
        return self.tree.siblings(path)


def view(
    files: Mapping[str, bytes] | None = None,
    *,
    links: Mapping[str, str] | None = None,
    entries: Mapping[str, Entry] | None = None,
) -> MemoryView:
    """Return a base. files: path -> content; links: path -> target; entries: other headers.

    A header of a path in `files` is completed with its size and sha256.
    """
    files = files or {}
    table = {
        path: regular(len(data), sha256(data).hex, mtime=EPOCH) for path, data in files.items()
    }
    table.update({path: Entry("l", 0o777, link=link) for path, link in (links or {}).items()})
    for path, entry in (entries or {}).items():
        if (data := files.get(path)) is not None:
            entry = entry._replace(size=len(data), sha256=sha256(data).hex)  # noqa: PLW2901
        table[path] = entry
    return MemoryView(Tree.merge([LayerTable(table)]), dict(files))


def on_disk(root: Path) -> MemoryView:
    """Return the files and directories below `root` as a base."""
    files: dict[str, bytes] = {}
    entries: dict[str, Entry] = {}
    for path in sorted(root.rglob("*")):
        name, status = path.relative_to(root).as_posix(), path.stat()
        kind = "d" if path.is_dir() else "f"
        entries[name] = Entry(kind, status.st_mode & 0o7777, mtime=int(status.st_mtime))
        if kind == "f":
            files[name] = path.read_bytes()
    return view(files, entries=entries)


def extract(layer: bytes, root: Path) -> None:
    """Apply a layer to a directory, as a runtime does."""
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        for member in archive:
            path = root / member.name
            if path.name.startswith(".wh."):
                path.with_name(path.name.removeprefix(".wh.")).unlink()
                continue
            if member.isdir():
                path.mkdir(exist_ok=True)
            elif (file := archive.extractfile(member)) is not None:
                path.write_bytes(file.read())
            os.utime(path, (member.mtime, member.mtime))


def contents(layer: bytes) -> dict[str, bytes]:
    """Return the files of a layer, whiteouts among them."""
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        opened = ((member.name, archive.extractfile(member)) for member in archive)
        return {name: file.read() for name, file in opened if file is not None}


def numbered(count: int, *, newline: bytes = b"\n") -> bytes:
    """Return a text of so many different lines, from `line 1` on."""
    return b"".join(b"line %d%b" % (number, newline) for number in range(1, count + 1))


def edited(before: bytes, edits: Mapping[int, bytes]) -> bytes:
    """Replace whole lines, by number from 1, each by any bytes (lines with their ends)."""
    lines = split_lines(before)
    for number, text in edits.items():
        lines[number - 1] = text
    return b"".join(lines)


def diff(before: bytes, after: bytes, *, context: int = 3) -> bytes:
    """Return a unified diff of any bytes."""
    found = difflib.diff_bytes(
        difflib.unified_diff,
        split_lines(before),
        split_lines(after),
        b"a/file",
        b"b/file",
        n=context,
        lineterm=b"\n",
    )
    marker = b"\n\\ No newline at end of file\n"
    return b"".join(line if line.endswith(b"\n") else line + marker for line in found)


def patched(target: str, before: bytes, after: bytes, *, context: int = 3) -> Change:
    """A patch entry whose patch turns `before` into `after`."""
    data = diff(before, after, context=context)
    return Change("patch", target, "x.patch", data, (sha256(before),), f"module.toml:1 {target}")


def added(target: str, data: bytes) -> Change:
    """An entry for a new file."""
    return Change("add", target, "x.py", data, (), f"module.toml:2 {target}")


def replaced(target: str, before: bytes, data: bytes) -> Change:
    """An entry that replaces a whole file."""
    return Change("replace", target, "x.py", data, (sha256(before),), f"module.toml:3 {target}")


def removed(target: str, before: bytes) -> Change:
    """An entry that removes a file."""
    return Change("remove", target, "", b"", (sha256(before),), f"module.toml:4 {target}")


def read(target: str, data: bytes) -> Read:
    """A read-pin on a file with this content."""
    return Read(target, (sha256(data),), f"module.toml:5 {target}")


def knob(name: str, *values: str, default: str = "") -> Knob:
    """A knob; its first value is the default."""
    return Knob(name, values, default or values[0], f"module.toml:6 {name}")


def module(
    name: str,
    *changes: Change,
    requires: Iterable[str] = (),
    reads: Iterable[Read] = (),
    knobs: Iterable[Knob] = (),
) -> Module:
    """A module as if it were loaded."""
    return Module(
        name=name,
        requires=tuple(requires),
        conflicts=(),
        changes=changes,
        reads=tuple(reads),
        knobs=tuple(knobs),
        place=f"modules/{name}/module.toml:2 name",
        inputs={},
    )
