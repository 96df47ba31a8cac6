"""Unified diffs of one file, parsed strictly and applied exactly: no fuzz, no search.

A hunk must find its lines where its header says. Bytes are never decoded: lines end at LF, and
a patch of a file with CRLF ends or of any encoding carries that file's own bytes.
Source of the format: GNU diffutils manual, "Detailed Description of Unified Format".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Edit", "Hunk", "Mismatch", "Patch", "PatchError", "split_lines"]

_HUNK = re.compile(
    rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?:[ \r].*)?\Z", re.DOTALL
)
_NO_NEWLINE = b"\\ "  # the rest of the line is in the user's language
# What may stand before the first hunk and cannot be done by a patch of one file's lines. The
# whole line, as far as it goes: it may also stand in a commit's message.
_REFUSED = {
    re.compile(rb"rename (from|to) "): "renames a file; add the new one and remove the old one",
    re.compile(rb"copy (from|to) "): "copies a file; add the copy as a file",
    re.compile(rb"GIT binary patch$"): "is binary; replace the whole file",
    re.compile(rb"Binary files .* differ$"): "is binary; replace the whole file",
    re.compile(rb"new file mode \d{6}$"): "creates a file; use [[add]]",
    re.compile(rb"deleted file mode \d{6}$"): "deletes a file; use [[remove]]",
    re.compile(rb"(old|new) mode \d{6}$"): "changes a mode; a patched file keeps the one it has",
}


class PatchError(ValueError):
    """A patch that is not one strict unified diff of one file. The text: "what; what to do"."""


def split_lines(data: bytes) -> list[bytes]:
    """Split at LF only, each line with its LF; the last one may lack it."""
    lines = data.split(b"\n")
    last = lines.pop()
    result = [line + b"\n" for line in lines]
    return [*result, last] if last else result


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace lines `start` to `end` (from 0, `end` exclusive) by `lines`. `hunk` counts from 1."""

    start: int
    end: int
    lines: tuple[bytes, ...]
    hunk: int


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk. `start`: its first old line, from 0. `body`: (tag, line) with tag " ", "-", "+"."""

    number: int
    header: str
    start: int
    body: tuple[tuple[str, bytes], ...]

    @property
    def old(self) -> list[bytes]:
        """The lines it must find."""
        return [line for tag, line in self.body if tag != "+"]

    @property
    def new(self) -> list[bytes]:
        """The lines it leaves."""
        return [line for tag, line in self.body if tag != "-"]

    def edits(self) -> Iterator[Edit]:
        """Yield the runs of changed lines, context left out."""
        at = self.start
        run: tuple[int, int, list[bytes]] | None = None
        for tag, line in self.body:
            if tag == " ":
                if run is not None:
                    yield Edit(run[0], run[1], tuple(run[2]), self.number)
                run, at = None, at + 1
                continue
            start, _, lines = run or (at, at, [])
            if tag == "-":
                at += 1
            else:
                lines.append(line)
            run = (start, at, lines)
        if run is not None:
            yield Edit(run[0], run[1], tuple(run[2]), self.number)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A hunk whose lines are not where it says.

    line: of the file, from 1. expected: None for a hunk of no old lines beyond the file's end.
    found: None at the file's end. applied: the file has the hunk's outcome.
    """

    hunk: Hunk
    line: int
    expected: bytes | None
    found: bytes | None
    applied: bool


@dataclass(frozen=True, slots=True)
class Patch:
    """The hunks of one file, in order."""

    hunks: tuple[Hunk, ...]

    @classmethod
    def parse(cls, data: bytes) -> Patch:
        """Parse a patch file.

        Raises:
            PatchError: anything but one unified diff of one file.
        """
        return cls(tuple(_Parser(data).hunks()))

    def edits(self) -> list[Edit]:
        """Return all runs of changed lines, in order."""
        return [edit for hunk in self.hunks for edit in hunk.edits()]

    def mismatches(self, lines: Sequence[bytes]) -> list[Mismatch]:
        """Return every hunk that does not find its lines in `lines`."""
        return [found for hunk in self.hunks if (found := _mismatch(hunk, lines)) is not None]

    def apply(self, lines: Sequence[bytes]) -> list[bytes]:
        """Return the patched lines; only for lines without mismatches."""
        result: list[bytes] = []
        done = 0
        for edit in self.edits():
            result += lines[done : edit.start]
            result += edit.lines
            done = edit.end
        return [*result, *lines[done:]]


def _mismatch(hunk: Hunk, lines: Sequence[bytes]) -> Mismatch | None:
    for offset, expected in enumerate(hunk.old):
        at = hunk.start + offset
        found = lines[at] if at < len(lines) else None
        if found != expected:
            return Mismatch(hunk, at + 1, expected, found, _is_applied(hunk, lines))
    if hunk.start > len(lines):
        return Mismatch(hunk, hunk.start, None, None, applied=False)
    return None


def _is_applied(hunk: Hunk, lines: Sequence[bytes]) -> bool:
    """Tell whether the hunk's outcome is somewhere, and what it starts from nowhere."""
    if not any(tag == "+" and line.strip() for tag, line in hunk.body):
        return False
    return _has(lines, hunk.new) and not _has(lines, hunk.old)


def _has(lines: Sequence[bytes], block: list[bytes]) -> bool:
    last = len(lines) - len(block)
    return any(list(lines[at : at + len(block)]) == block for at in range(last + 1))


def _check_end(lines: Sequence[bytes], number: int) -> None:
    """Refuse a hunk in which something follows a line without a newline."""
    if any(not line.endswith(b"\n") for line in lines[:-1]):
        raise PatchError(f"hunk {number} goes on after a line without newline")
    if lines and not lines[-1]:
        raise PatchError(f"hunk {number} ends with a line of nothing, not even a newline")


class _Parser:
    """Walks a patch's lines; any line that does not belong is an error."""

    def __init__(self, data: bytes) -> None:
        if not data.strip():
            raise PatchError("the patch is empty")
        # A text file that lost its last newline has lost nothing else.
        self.lines = (data if data.endswith(b"\n") else data + b"\n").split(b"\n")[:-1]
        self.at = 0
        if any(_HUNK.match(line) and line.endswith(b"\r") for line in self.lines):
            raise PatchError(
                "the patch has CRLF line ends; convert it: sed -i 's/\\r$//' FILE, and keep git"
                " from converting it back (*.patch -text in .gitattributes)"
            )

    def hunks(self) -> Iterator[Hunk]:
        self._preamble()
        number, end = 0, 0
        while self.at < len(self.lines) and not (number and self._signature()):
            number += 1
            hunk = self._hunk(number)
            if hunk.start < end:
                raise PatchError(f"hunk {number} overlaps the one before it, or comes before it")
            end = hunk.start + len(hunk.old)
            yield hunk
        if not number:
            raise PatchError("the patch has no hunk")

    def _signature(self) -> bool:
        """Tell whether only the signature is left with which `git format-patch` ends."""
        rest = [line for line in self.lines[self.at :] if line]
        return self.lines[self.at] == b"-- " and len(rest) <= 2

    def _preamble(self) -> None:
        while self.at < len(self.lines) and not self.lines[self.at].startswith(b"@@ "):
            line = self.lines[self.at]
            for pattern, why in _REFUSED.items():
                if pattern.match(line):
                    raise PatchError(f"the patch {why}")
            self.at += 1
            if line.startswith(b"--- "):
                self._header_pair()
                return

    def _header_pair(self) -> None:
        line = self.lines[self.at] if self.at < len(self.lines) else b""
        if not line.startswith(b"+++ "):
            raise PatchError(f"line {self.at + 1}: '+++' is missing after '---'")
        for header, how in ((self.lines[self.at - 1], "add"), (line, "remove")):
            if header[4:].split(b"\t")[0].strip() == b"/dev/null":
                raise PatchError(f"the patch is not of an existing file; use [[{how}]]")
        self.at += 1

    def _hunk(self, number: int) -> Hunk:
        header = self.lines[self.at]
        match = _HUNK.match(header)
        if match is None:
            raise PatchError(self._unexpected(header))
        old, new = (int(count) if count is not None else 1 for count in (match[2], match[4]))
        self.at += 1
        body = tuple(self._body(old, new, number))
        if all(tag == " " for tag, _ in body):
            raise PatchError(f"hunk {number} changes nothing")
        for side in ("-", "+"):
            _check_end([line for tag, line in body if tag in (" ", side)], number)
        # "If a hunk contains no lines of the old file, its start is the line before it."
        start = int(match[1]) if old == 0 else int(match[1]) - 1
        if start < 0:
            raise PatchError(f"hunk {number} starts at line 0")
        text = b" ".join(header.split(b" ")[:4]).decode()
        return Hunk(number, text, start, body)

    def _unexpected(self, line: bytes) -> str:
        if line.startswith((b"diff ", b"--- ", b"Index: ")):
            return f"line {self.at + 1}: the patch has a second file; make one patch a target"
        return f"line {self.at + 1}: not a line of a patch: {line[:60].decode(errors='replace')!r}"

    def _body(self, old: int, new: int, number: int) -> Iterator[tuple[str, bytes]]:
        while old or new:
            if self.at >= len(self.lines):
                raise PatchError(f"hunk {number} is cut short: {old} old, {new} new lines missing")
            line = self.lines[self.at]
            tag = chr(line[0]) if line else " "  # an editor may have trimmed an empty context line
            if tag not in " -+" or (tag != "+" and not old) or (tag != "-" and not new):
                raise PatchError(
                    f"line {self.at + 1}: hunk {number} has other lines than its header counts"
                )
            self.at += 1
            old -= tag != "+"
            new -= tag != "-"
            yield tag, line[1:] + self._newline()

    def _newline(self) -> bytes:
        if self.at < len(self.lines) and self.lines[self.at].startswith(_NO_NEWLINE):
            self.at += 1
            return b""
        return b"\n"
