"""What a parsed deploy file is made of, whatever its format: nodes that know their characters.

Positions are indices of `Source.text`. A scalar's span is what is replaced: what is between its
quotes, without anchor and tag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Alias", "Document", "Entry", "Map", "Node", "Scalar", "Seq", "describe", "nodes"]


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A value without parts. `data` is what a parser makes of it, `text` what it says."""

    start: int
    end: int
    text: str
    data: Any
    style: str  # "plain", "single", "double", "literal", "folded"; in TOML "basic", ...
    quote: str = ""
    anchor: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One key of a mapping. A key that is itself a list or a mapping has no text."""

    start: int
    text: str | None
    data: Any
    value: Node
    merge: bool = False  # YAML's `<<`


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A mapping, its entries in the file's order, repeated keys included."""

    start: int
    flow: bool = False
    anchor: str | None = None
    entries: list[Entry] = field(default_factory=list)

    def get(self, name: str) -> Entry | None:
        """Return the entry whose key says `name`."""
        return next((entry for entry in self.entries if entry.text == name), None)

    def text(self, name: str) -> str | None:
        """Return what the scalar at `name` says."""
        entry = self.get(name)
        return entry.value.text if entry and isinstance(entry.value, Scalar) else None


@dataclass(frozen=True, slots=True, eq=False)
class Seq:
    """A list."""

    start: int
    flow: bool = False
    anchor: str | None = None
    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Alias:
    """YAML's `*name`, with the node it stands for."""

    start: int
    name: str
    target: Scalar | Map | Seq


Node = Scalar | Map | Seq | Alias


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One document of a file; `number` counts from 0."""

    number: int
    root: Node


def nodes(root: Node) -> Iterator[Node]:
    """Yield all nodes below and with `root`; aliases are not followed."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        match node:
            case Map():
                waiting += [entry.value for entry in reversed(node.entries)]
            case Seq():
                waiting += reversed(node.items)


def describe(node: Node) -> str:
    """Return what a node is, in words for people."""
    match node:
        case Map():
            return "a mapping"
        case Seq():
            return f"a list of {len(node.items)}"
        case Alias():
            return f"an alias, *{node.name}"
        case Scalar(data=None):
            return "empty"
        case Scalar(data=str()):
            return f"the text {_cut(node.text)!r}"
        case _:
            return f"{_cut(node.text)}, which is not text"


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
