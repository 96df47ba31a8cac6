"""TOML text -> nodes with positions.

The standard parser says whether the text is TOML, which also means that no key is set twice; the
walk below only has to know where a value ends. (`composer.tomlfile` walks for lines.)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence

from ..tomlfile import parse, read_keys
from .nodes import Document, Entry, Map, Node, Scalar, Seq
from .source import Source

__all__ = ["documents"]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_STRINGS = (
    ("multi-line basic", '"""', re.compile(r'"""((?:[^\\]|\\.)*?"{0,2})"""(?!")', re.DOTALL)),
    ("multi-line literal", "'''", re.compile(r"'''(.*?'{0,2})'''(?!')", re.DOTALL)),
    ("basic", '"', re.compile(r'"((?:[^"\\\n]|\\.)*)"')),
    ("literal", "'", re.compile(r"'([^'\n]*)'")),
)
_BARE = re.compile(r"[^,\]}#\r\n]+")


def documents(source: Source) -> list[Document]:
    """Return the one document of a TOML file.

    Raises:
        InputError: not TOML, with the line.
    """
    parse(source.raw, source.shown)
    return [Document(0, _Walk(source.text).root())]


class _Walk:
    """Walks a valid text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def root(self) -> Map:
        root = table = Map(0)
        while self._next():
            if self.text.startswith("[", self.at):
                table = self._header(root)
            else:
                self._pair(table)
        return root

    def _next(self) -> str:
        """Go to the next character that says something and return it."""
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def _header(self, root: Map) -> Map:
        start = self.at
        brackets = 2 if self.text.startswith("[[", start) else 1
        self.at += brackets
        *above, key = self._keys()
        self._next()
        self.at += brackets
        table = _descend(root, above, start)
        if brackets == 1:
            return _descend(table, [key], start)
        entry = table.get(key)
        if entry is None:
            entry = Entry(start, key, key, Seq(start))
            table.entries.append(entry)
        assert isinstance(entry.value, Seq)
        item = Map(start)
        entry.value.items.append(item)
        return item

    def _pair(self, table: Map) -> None:
        self._next()
        start = self.at
        *above, key = self._keys()
        self.at += 1  # the "="
        value = self._value()
        _descend(table, above, start).entries.append(Entry(start, key, key, value))

    def _keys(self) -> tuple[str, ...]:
        keys, self.at = read_keys(self.text, self.at)
        return keys

    def _value(self) -> Node:
        match self._next():
            case "[":
                return self._seq()
            case "{":
                return self._inline()
            case _:
                return self._scalar()

    def _seq(self) -> Seq:
        node = Seq(self.at, flow=True)
        self.at += 1
        while self._next() != "]":
            node.items.append(self._value())
            if self._next() == ",":
                self.at += 1
        self.at += 1
        return node

    def _inline(self) -> Map:
        node = Map(self.at, flow=True)
        self.at += 1
        while self._next() != "}":
            self._pair(node)
            if self._next() == ",":
                self.at += 1
        self.at += 1
        return node

    def _scalar(self) -> Scalar:
        for style, quote, pattern in _STRINGS:
            if match := pattern.match(self.text, self.at):
                self.at = match.end()
                data = tomllib.loads(f"k = {match[0]}")["k"]
                return Scalar(match.start(1), match.end(1), data, data, style, quote)
        match = _BARE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        text = match[0].rstrip()
        data = tomllib.loads(f"k = {text}")["k"]
        return Scalar(match.start(), match.start() + len(text), text, data, "bare")


def _descend(table: Map, keys: Sequence[str], start: int) -> Map:
    """Return the table at `keys` below `table`; of an array of tables the last one."""
    for key in keys:
        entry = table.get(key)
        if entry is None:
            entry = Entry(start, key, key, Map(start))
            table.entries.append(entry)
        node = entry.value.items[-1] if isinstance(entry.value, Seq) else entry.value
        assert isinstance(node, Map)
        table = node
    return table
