"""JSON text -> nodes with positions.

The standard parser says whether the text is JSON; the walk below only has to know where a value
ends.
"""

from __future__ import annotations

import json
import re

from ..errors import InputError
from .nodes import Document, Entry, Map, Node, Scalar, Seq
from .source import Source

__all__ = ["documents"]

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BARE = re.compile(r"[^\s,\]}]+")


def documents(source: Source) -> list[Document]:
    """Return the one document of a JSON file.

    Raises:
        InputError: not JSON, with the line.
    """
    try:
        json.loads(source.text)
        return [Document(0, _Walk(source.text).value())]
    except json.JSONDecodeError as error:
        raise InputError.of(
            "the file is not valid JSON", where=source.where(error.pos), found=error.msg
        ) from error
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond Python's limits
        raise InputError.of(
            "the file is not valid JSON", where=source.shown, found=str(error)
        ) from error


class _Walk:
    """Walks a valid text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def value(self) -> Node:
        match self._next():
            case "{":
                return self._map()
            case "[":
                return self._seq()
            case _:
                return self._scalar()

    def _next(self) -> str:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at]

    def _scalar(self) -> Scalar:
        start = self.at
        quoted = self.text[start] == '"'
        match = (_STRING if quoted else _BARE).match(self.text, start)
        assert match is not None
        self.at = match.end()
        data = json.loads(match[0])
        if quoted:
            return Scalar(start + 1, self.at - 1, data, data, "double", '"')
        return Scalar(start, self.at, match[0], data, "bare")

    def _map(self) -> Map:
        node = Map(self.at, flow=True)
        self.at += 1
        while self._next() != "}":
            start = self.at
            key = self._scalar()
            self._next()
            self.at += 1  # the colon
            node.entries.append(Entry(start, key.text, key.text, self.value()))
            if self._next() == ",":
                self.at += 1
        self.at += 1
        return node

    def _seq(self) -> Seq:
        node = Seq(self.at, flow=True)
        self.at += 1
        while self._next() != "]":
            node.items.append(self.value())
            if self._next() == ",":
                self.at += 1
        self.at += 1
        return node
