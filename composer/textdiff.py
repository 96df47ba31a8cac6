"""Two contents of a file -> a unified diff for people, and how many lines it adds and removes."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from .patch import split_lines

__all__ = ["TextDiff", "text_diff"]

_NO_NEWLINE = "\n\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class TextDiff:
    """A unified diff, as lines without their ends. None of a file that is not text."""

    lines: tuple[str, ...] | None
    added: int = 0
    removed: int = 0


def text_diff(path: str, before: bytes | None, after: bytes | None) -> TextDiff:
    """Compare two contents; None: the file is not there. `path`: absolute, for the headers."""
    if any(b"\0" in data for data in (before, after) if data is not None):
        return TextDiff(None)
    old = b"/dev/null" if before is None else b"a" + path.encode()
    new = b"/dev/null" if after is None else b"b" + path.encode()
    found = difflib.diff_bytes(
        difflib.unified_diff, split_lines(before or b""), split_lines(after or b""), old, new
    )
    lines = [_line(data) for data in found]
    body = [line[:1] for line in lines[2:]]
    shown = tuple(part for line in lines for part in line.split("\n"))
    return TextDiff(shown, body.count("+"), body.count("-"))


def _line(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return text[:-1] if text.endswith("\n") else text + _NO_NEWLINE
