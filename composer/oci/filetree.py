"""The files of an image: one table a layer, merged under the image spec's whiteout rules.

Paths are relative to the image's root, without a leading slash and normalised; the root itself
is the empty string. Nothing here reads a file: contents are known by size and sha256.
Source of the merge rules: OCI image-spec layer.md, "Applying Changesets" and "Whiteouts".
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "OPAQUE",
    "WHITEOUT",
    "Entry",
    "LayerTable",
    "PathError",
    "Tree",
    "directory",
    "normalise",
    "regular",
    "resolve",
]

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
_LINK_LIMIT = 40  # path_resolution(7): the kernel gives up with ELOOP after 40 links


class Entry(NamedTuple):
    """One file of an image.

    kind: "f" regular, "d" directory, "l" symbolic link, "h" hard link (in layer tables only),
    "c", "b", "p" devices and pipes. mode: permission bits. mtime: whole seconds since the epoch.
    size: bytes. sha256: hex, of regular files. link: target of "l" and "h". inode: the same
    non-empty text in all names of a hard-linked file.
    """

    kind: str
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    size: int = 0
    sha256: str = ""
    link: str = ""
    xattrs: tuple[tuple[str, str], ...] = ()
    inode: str = ""

    @property
    def is_dir(self) -> bool:
        """A directory."""
        return self.kind == "d"

    @property
    def is_file(self) -> bool:
        """A regular file, hard-linked or not."""
        return self.kind == "f"


def regular(size: int, sha256: str, *, mode: int = 0o644, mtime: int = 0) -> Entry:
    """Return a regular file of root's."""
    return Entry("f", mode=mode, mtime=mtime, size=size, sha256=sha256)


def directory(mtime: int, mode: int = 0o755) -> Entry:
    """Return a directory of root's."""
    return Entry("d", mode=mode, mtime=mtime)


class PathError(ValueError):
    """A path that cannot be resolved in an image; the message says why."""


@dataclass(frozen=True, slots=True)
class LayerTable:
    """What one layer says: entries by path, names it removes, directories it makes opaque."""

    entries: Mapping[str, Entry]
    whiteouts: frozenset[str] = frozenset()
    opaque: frozenset[str] = frozenset()

    @classmethod
    def of(cls, members: Iterable[tuple[str, Entry]]) -> LayerTable:
        """Sort the members of a layer's archive, in their order, into a table.

        A later member of the same path wins, as in any extraction, and one below a symbolic
        link of the same layer goes where the link leads.

        Raises:
            PathError: a name that leaves the root, or a whiteout that names nothing.
        """
        reader = _LayerReader()
        for name, entry in members:
            reader.add(name, entry)
        return cls(reader.entries, frozenset(reader.whiteouts), frozenset(reader.opaque))


@dataclass(slots=True)
class _LayerReader:
    """Extracts an archive in its order, so that the table's own order says nothing."""

    entries: dict[str, Entry] = field(default_factory=dict)
    whiteouts: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)  # every directory that something lies in
    followed: dict[str, str] = field(default_factory=dict)  # a parent as written -> resolved

    def add(self, name: str, entry: Entry) -> None:
        path = self._follow(normalise(name))
        parent, _, base = path.rpartition("/")
        if base == OPAQUE:
            self.opaque.add(parent)
        elif base.startswith(WHITEOUT):
            self.whiteouts.add(posixpath.join(parent, _whited_out(path, base)))
        elif path and entry.kind == "h":
            self._place(path, entry._replace(link=self._follow(normalise(entry.link))))
        elif path:
            self._place(path, entry)

    def _follow(self, path: str) -> str:
        """Return `path` with the links among its parents followed."""
        parent, _, name = path.rpartition("/")
        found = self.followed.get(parent)
        if found is None:
            found = self.followed[parent] = resolve(self.entries.get, parent)
            if (above := self.entries.get(found)) and not above.is_dir:
                raise PathError(f"/{found} is not a directory, and has {name!r} in it")
            self._remember(found)
        return path if found == parent else posixpath.join(found, name)

    def _remember(self, parent: str) -> None:
        while parent and parent not in self.parents:
            self.parents.add(parent)
            parent = posixpath.dirname(parent)

    def _place(self, path: str, entry: Entry) -> None:
        if path in self.entries or path in self.parents:
            self.followed.clear()
        if not entry.is_dir and path in self.parents:
            below = f"{path}/"
            for name in [name for name in self.entries if name.startswith(below)]:
                del self.entries[name]
        self.entries[path] = entry


def _whited_out(path: str, base: str) -> str:
    name = base.removeprefix(WHITEOUT)
    # layer.md: "A `.wh.` file, without a basename to delete, is invalid"
    if name in ("", ".", ".."):
        raise PathError(f"the whiteout {path!r} names nothing")
    return name


def normalise(path: str) -> str:
    """Return `path` without leading slash, `.`, empty and trailing parts.

    Raises:
        PathError: a `..` part, or a NUL.
    """
    if "\0" in path:
        raise PathError(f"{path!r} holds a NUL")
    if not path.startswith(("/", "./")) and "//" not in path and "/." not in path:
        path = path.rstrip("/")  # the usual case, quickly
        if path not in ("..", ".") and not path.startswith("../"):
            return path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathError(f"{path!r} has a '..' part")
    return "/".join(parts)


@dataclass(slots=True)
class Tree:
    """The merged files of an image. Built by `merge`; not changed after that."""

    entries: dict[str, Entry] = field(default_factory=lambda: {"": directory(0)})
    _names: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def merge(cls, layers: Iterable[LayerTable]) -> Tree:
        """Apply `layers`, the lowest first."""
        tree = cls()
        for number, layer in enumerate(layers):
            tree._apply(layer, number)
        return tree

    def _apply(self, layer: LayerTable, number: int) -> None:
        # Whiteouts hide what lies below the layer, never what the layer itself brings,
        # wherever in the archive they stand.
        for path in layer.opaque:
            for name in list(self._names.get(path, ())):
                self._remove(posixpath.join(path, name))
        for path in layer.whiteouts:
            self._remove(path)
        links = []
        for path, entry in layer.entries.items():
            if entry.kind == "h":
                links.append(path)
            else:
                self._put(path, entry)
        for path in links:  # last: their targets are there, whatever the table's order
            self._put(path, self._linked(layer, path, number))

    def _linked(self, layer: LayerTable, link: str, number: int) -> Entry:
        """Return the entry of the hard link at `link`, and give its target the same inode."""
        path, seen = link, {""}
        while (entry := layer.entries.get(path)) and entry.kind == "h" and path not in seen:
            seen.add(path)
            path = normalise(entry.link)
        target = self.entries.get(path)
        if target is None or target.is_dir or path in seen:
            to = layer.entries[link].link
            raise PathError(f"/{link} is a hard link to {to!r}, which is no file of the image")
        if not target.inode:
            target = self.entries[path] = target._replace(inode=f"{number}:{path}")
        return target

    def _put(self, path: str, entry: Entry) -> None:
        parent, name = posixpath.split(path)
        if not (above := self.entries.get(parent)) or not above.is_dir:
            # An archive may leave out parents: runtimes make them, over whatever was there.
            self._put(parent, directory(0))
        if not entry.is_dir and path in self._names:
            self._remove(path)
        self.entries[path] = entry
        if path:
            self._names.setdefault(parent, set()).add(name)

    def _remove(self, path: str) -> None:
        for name in list(self._names.get(path, ())):
            self._remove(posixpath.join(path, name))
        self._names.pop(path, None)
        if path and self.entries.pop(path, None) is not None:
            parent, name = posixpath.split(path)
            self._names[parent].discard(name)

    def stat(self, path: str) -> Entry | None:
        """Return what is at `path` itself: links are not followed."""
        return self.entries.get(path)

    def names(self, path: str, stem: str = "") -> Sequence[str]:
        """Return the sorted names in the directory `path`; none where it is not one.

        With a `stem`, only those that start with it and a dot.
        """
        found = self._names.get(path, ())
        return sorted(name for name in found if not stem or name.startswith(f"{stem}."))

    def walk(self) -> Iterator[tuple[str, Entry]]:
        """Yield every path and entry in sorted order, the root left out."""
        for path in sorted(self.entries):
            if path:
                yield path, self.entries[path]

    def resolve(self, path: str) -> str:
        """Return `path` with every symbolic link in it followed, the last part included.

        What does not exist yet stays as it is written, below the last directory that does.

        Raises:
            PathError: `..` above the root, a loop, or a file used as a directory.
        """
        return resolve(self.stat, path)

    def package_roots(self, package: str) -> Sequence[str]:
        """Return the directories of Python packages that hold `package`, sorted.

        They are called `site-packages`, or `dist-packages` by Debian (sysconfig's schemes).
        """
        ends = tuple(f"/{name}/{package}" for name in ("dist-packages", "site-packages"))
        return sorted(posixpath.dirname(path) for path in self.entries if path.endswith(ends))

    def siblings(self, path: str) -> Sequence[str]:
        """Return the other names of a hard-linked file."""
        entry = self.entries.get(path)
        if entry is None or not entry.inode:
            return ()
        return [other for other, one in self.walk() if one.inode == entry.inode and other != path]


def resolve(stat: Callable[[str], Entry | None], path: str) -> str:
    """`Tree.resolve` for any view that can `stat` a path."""
    done: list[str] = []
    todo = path.split("/")[::-1]
    links = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not done:
                raise PathError(f"/{path.lstrip('/')} leaves the image's root")
            done.pop()
            continue
        here = "/".join([*done, part])
        entry = stat(here)
        if entry is not None and entry.kind == "l":
            links += 1
            if links > _LINK_LIMIT:
                raise PathError(f"/{path.lstrip('/')} is a loop of symbolic links")
            if entry.link.startswith("/"):
                done = []
            todo += entry.link.split("/")[::-1]
            continue
        if entry is not None and not entry.is_dir and any(one not in ("", ".") for one in todo):
            raise PathError(f"/{here} is not a directory")
        done.append(part)
    return "/".join(done)
