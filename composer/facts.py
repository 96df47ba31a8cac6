"""What an image needed to know of its base: the answers, to be asked again without the base.

A derived image depends on few entries of its base: targets, the directories above them, what
lies beside them. They are recorded while they are asked for and kept in the lock, so that a
locked build reads no file table, however large the base is. A question that was not asked
before goes to the base itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .oci.digest import Digest
from .oci.filetree import Entry

__all__ = ["FactView", "Facts", "LayeredFiles"]

_CODE = re.compile("%([0-9a-f]*);")
_KINDS = frozenset("dlcbp")  # and "f"
# What the fields of an entry are that a line leaves out at its end.
_UNSET = ("", "0", "0:0", "0", "0", "", "", "")


class LayeredFiles(Protocol):
    """The merged files of a base, each with the layer that brought it."""

    def stat(self, path: str) -> Entry | None:
        """Return what is at `path`, links not followed."""

    def names(self, path: str, stem: str = "") -> Sequence[str]:
        """Return the sorted names in a directory that start with `stem` and a dot."""

    def package_roots(self, package: str) -> Sequence[str]:
        """Return the directories of Python packages that hold `package`, sorted."""

    def siblings(self, path: str) -> Sequence[str]:
        """Return the other names of a hard-linked file."""

    def layer(self, path: str) -> int:
        """Return the number of the layer, from the bottom, that holds a file's content."""


@dataclass(slots=True)
class Facts:
    """Answers by question. Grows while an image is planned."""

    stats: dict[str, Entry | None] = field(default_factory=dict)
    listings: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    roots: dict[str, tuple[str, ...]] = field(default_factory=dict)
    layers: dict[str, int] = field(default_factory=dict)

    def lines(self) -> tuple[str, ...]:
        """Return a line for each fact, sorted: the same facts give the same lines."""
        return tuple(sorted(" ".join(map(_quoted, one)) for one in self._records()))

    def _records(self) -> Iterator[Sequence[str]]:
        for path, entry in self.stats.items():
            yield ["stat", path, *(_fields(entry) if entry is not None else ())]
        for (path, stem), names in self.listings.items():
            yield ["names", path, stem, *names]
        for path, others in self.links.items():
            yield ["links", path, *others]
        for package, found in self.roots.items():
            yield ["roots", package, *found]
        for path, layer in self.layers.items():
            yield ["layer", path, str(layer)]

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Facts:
        """Read facts back.

        Raises:
            ValueError: a line that is none.
        """
        facts = cls()
        for line in lines:
            try:
                facts._add([_plain(word) for word in line.split(" ")])
            except (ValueError, IndexError) as error:
                raise ValueError(f"{line!r} is not a fact of a base") from error
        return facts

    def _add(self, record: Sequence[str]) -> None:
        kind, path, *rest = record
        match kind:
            case "stat":
                self.stats[path] = _entry(rest) if rest else None
            case "names":
                self.listings[path, rest[0]] = tuple(rest[1:])
            case "links":
                self.links[path] = tuple(rest)
            case "roots":
                self.roots[path] = tuple(rest)
            case "layer":
                self.layers[path] = int(rest[0])
            case _:
                raise ValueError(kind)


def _quoted(word: str) -> str:
    """Return a word without spaces: what is not printable, and '%', as its code point."""
    if word and word.isprintable() and not set(word) & {" ", "%"}:
        return word
    return (
        "".join(one if one.isprintable() and one not in " %" else f"%{ord(one):x};" for one in word)
        or "%;"
    )


def _plain(word: str) -> str:
    return _CODE.sub(lambda code: chr(int(code[1], 16)) if code[1] else "", word)


def _fields(entry: Entry) -> list[str]:
    """Return kind, octal mode, owner, mtime, size, sha256, link, inode, xattrs, as far as set."""
    fields = [entry.kind, f"{entry.mode:o}", f"{entry.uid}:{entry.gid}", str(entry.mtime)]
    fields += [str(entry.size), entry.sha256, entry.link, entry.inode]
    while fields[-1] in ("", "0") and not entry.xattrs:
        fields.pop()
    return [*fields, *(part for pair in entry.xattrs for part in pair)]


def _entry(fields: Sequence[str]) -> Entry:
    kind, mode, owner, mtime, size, sha256, link, inode = [*fields, *_UNSET[len(fields) :]][:8]
    uid, _, gid = owner.partition(":")
    xattrs = tuple(zip(fields[8::2], fields[9::2], strict=True))
    if kind == "f":
        Digest("sha256", sha256)
    elif kind not in _KINDS:
        raise ValueError(kind)
    return Entry(
        kind, int(mode, 8), int(uid), int(gid), int(mtime), int(size), sha256, link, xattrs, inode
    )


@dataclass(frozen=True, slots=True)
class FactView:
    """Answers from `known` facts, and from the base where they are silent; records in `used`.

    fetch: the content of a file, given its path, entry and layer.
    """

    known: Facts
    base: Callable[[], LayeredFiles]
    fetch: Callable[[str, Entry, int], bytes]
    used: Facts = field(default_factory=Facts)

    def stat(self, path: str) -> Entry | None:
        """Return what is at `path`, links not followed."""
        if path not in self.used.stats:
            known = path in self.known.stats
            self.used.stats[path] = self.known.stats[path] if known else self.base().stat(path)
        return self.used.stats[path]

    def names(self, path: str, stem: str = "") -> Sequence[str]:
        """Return the sorted names in a directory that start with `stem` and a dot."""
        key = (path, stem)
        if key not in self.used.listings:
            known = self.known.listings.get(key)
            found = known if known is not None else tuple(self.base().names(path, stem))
            self.used.listings[key] = found
        return self.used.listings[key]

    def package_roots(self, package: str) -> Sequence[str]:
        """Return the directories of Python packages that hold `package`, sorted."""
        if package not in self.used.roots:
            known = self.known.roots.get(package)
            found = known if known is not None else tuple(self.base().package_roots(package))
            self.used.roots[package] = found
        return self.used.roots[package]

    def siblings(self, path: str) -> Sequence[str]:
        """Return the other names of a hard-linked file."""
        entry = self.stat(path)
        if entry is None or not entry.inode:
            return ()
        if path not in self.used.links:
            known = self.known.links.get(path)
            self.used.links[path] = (
                known if known is not None else tuple(self.base().siblings(path))
            )
        return self.used.links[path]

    def read(self, path: str) -> bytes:
        """Return the content of a regular file, checked against its entry."""
        entry = self.stat(path)
        if entry is None or not entry.is_file:
            raise KeyError(path)
        if path not in self.used.layers:
            known = self.known.layers.get(path)
            self.used.layers[path] = known if known is not None else self.base().layer(path)
        return self.fetch(path, entry, self.used.layers[path])
