"""A deploy file's bytes, as text with positions that lead back to the bytes."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import InputError

__all__ = ["Edit", "Source"]


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file. `text` is its characters without the byte order mark, line ends as they are."""

    shown: str
    raw: bytes = field(repr=False)
    text: str = field(repr=False)

    @classmethod
    def of(cls, raw: bytes, shown: str) -> Source:
        """Decode a file; `shown` is how messages name it.

        Raises:
            InputError: not UTF-8, with the line.
        """
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise InputError.of(
                "the file is not UTF-8 text", where=f"{shown}:{line}", found=error.reason
            ) from error
        return cls(shown, raw, text)

    def byte(self, index: int) -> int:
        """Return the byte at which character `index` begins."""
        mark = len(codecs.BOM_UTF8) if self.raw.startswith(codecs.BOM_UTF8) else 0
        return mark + len(self.text[:index].encode())

    def line(self, index: int) -> int:
        """Return the line of character `index`, from 1."""
        return self.text.count("\n", 0, index) + 1

    def where(self, index: int, what: str = "") -> str:
        """Return `file:line what`."""
        return f"{self.shown}:{self.line(index)} {what}".rstrip()

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """Return the bytes after edits that do not overlap; all other bytes are as they were."""
        result, done = b"", 0
        for edit in sorted(edits):
            start, end = self.byte(edit.start), self.byte(edit.end)
            result += self.raw[done:start] + edit.text.encode()
            done = end
        return result + self.raw[done:]
