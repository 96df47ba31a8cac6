"""The rules of a layer archive of ours, checked on its bytes.

Stricter than any extraction: what `layer.tar` promises is what must be there. Archives of other
makers break these rules with good right; nothing here is for them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .filetree import WHITEOUT, PathError, normalise

__all__ = ["check_tar"]

_RECORD = 512
_PAX_LIMIT = 1024 * 1024  # bytes of one extended header; the kernel caps xattrs far below it
_LINKS = {b"1": "a hard link", b"2": "a symbolic link"}


def check_tar(chunks: Iterable[bytes]) -> list[str]:
    """Return what is wrong with an archive; `chunks` is read to its end unless it is broken."""
    check = _Check(_Source(iter(chunks)))
    try:
        check.run()
    except _BrokenError as error:
        check.faults.append(str(error))
    return check.faults


class _BrokenError(Exception):
    """What follows cannot be told apart any more."""


@dataclass(slots=True)
class _Source:
    """Takes counted bytes from a stream of chunks."""

    chunks: Iterator[bytes]
    held: bytes = b""

    def take(self, count: int) -> bytes:
        parts = list(self.pieces(count))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def pieces(self, count: int) -> Iterator[bytes]:
        while count:
            while not self.held:
                try:
                    self.held = next(self.chunks)
                except StopIteration as error:
                    raise _BrokenError(f"the archive ends {count} bytes early") from error
            piece, self.held = self.held[:count], self.held[count:]
            count -= len(piece)
            yield piece

    def rest(self) -> int:
        """Read to the end and return how many bytes there were."""
        count = len(self.held)
        return count + sum(len(chunk) for chunk in self.chunks)


@dataclass(slots=True)
class _Check:
    source: _Source
    faults: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=lambda: {""})
    last: str = ""

    def run(self) -> None:
        while (header := self.source.take(_RECORD)) != bytes(_RECORD):
            records: dict[bytes, bytes] = {}
            if _kind(header) == b"x":
                records = self._pax(header)
                header = self.source.take(_RECORD)
            self._entry(header, records)
        if self.source.take(_RECORD) != bytes(_RECORD):
            self.faults.append("the archive does not end with two records of zeros")
        if extra := self.source.rest():
            self.faults.append(f"{extra} bytes follow the archive's end")
        for path in sorted(self.seen):
            parent, name = posixpath.split(path)
            if posixpath.join(parent, WHITEOUT + name) in self.seen:
                self.faults.append(f"{path!r} is both written and removed")

    def _pax(self, header: bytes) -> dict[bytes, bytes]:
        size = _octal(header, 124, 12, "the size of an extended header")
        if size > _PAX_LIMIT:
            raise _BrokenError(f"an extended header of {size} bytes")
        body = self.source.take(size)
        self._padding(size, "an extended header")
        return dict(_records(body))

    def _entry(self, header: bytes, records: dict[bytes, bytes]) -> None:
        kind = _kind(header)
        raw = records.get(b"path", header[:100].rstrip(b"\0"))
        name = raw.decode("utf-8", "surrogateescape")
        size = _octal(header, 124, 12, f"the size of {name!r}")
        if b"size" in records:
            size = _decimal(records[b"size"])
        if kind not in (b"0", b"5"):
            found = _LINKS.get(kind, f"an entry of type {kind.decode('latin-1')!r}")
            self.faults.append(f"{name!r} is {found}, not a regular file or a directory")
        self._path(name, is_directory=kind == b"5")
        if posixpath.basename(name).startswith(WHITEOUT) and size:
            self.faults.append(f"{name!r} is a whiteout with {size} bytes in it")
        for _ in self.source.pieces(size):
            pass
        self._padding(size, repr(name))

    def _path(self, name: str, *, is_directory: bool) -> None:
        path = name.removesuffix("/") if is_directory else name
        if not _is_normal(path):
            self.faults.append(f"{name!r} is not a normalised path")
            return
        if path in self.seen:
            self.faults.append(f"{path!r} is there twice")
        elif path < self.last:
            self.faults.append(f"{path!r} is out of order, after {self.last!r}")
        if (parent := posixpath.dirname(path)) not in self.directories:
            self.faults.append(f"{path!r} has no entry for its directory {parent!r} before it")
        self.last = max(self.last, path)
        self.seen.add(path)
        if is_directory:
            self.directories.add(path)

    def _padding(self, size: int, what: str) -> None:
        if self.source.take(-size % _RECORD).strip(b"\0"):
            self.faults.append(f"{what} is padded with other bytes than zeros")


def _is_normal(path: str) -> bool:
    try:
        return path != "" and normalise(path) == path
    except PathError:
        return False


def _kind(header: bytes) -> bytes:
    """Return a header's type after its checksum and magic."""
    stated = _octal(header, 148, 8, "a checksum")
    found = sum(header) - sum(header[148:156]) + 8 * 0x20
    if stated != found:
        raise _BrokenError(f"a header says checksum {stated:o}, and has {found:o}")
    if header[257:265] != b"ustar\x0000":
        raise _BrokenError(f"a header has magic {header[257:265]!r}, not that of ustar")
    return header[156:157]


def _octal(header: bytes, offset: int, width: int, what: str) -> int:
    text = header[offset : offset + width].strip(b"\0 ")
    if text.strip(b"01234567"):
        raise _BrokenError(f"{what} is {text!r}, not an octal number")
    return int(text or b"0", 8)


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20:
        raise _BrokenError(f"an extended header has the size {text[:40]!r}")
    return int(text)


def _records(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    # "%d %s=%s\n", the number being the length of the whole record.
    while body:
        digits, _, _ = body.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) <= 20 else 0
        key, equals, value = body[len(digits) + 1 : length].partition(b"=")
        if length > len(body) or not equals or not value.endswith(b"\n"):
            raise _BrokenError(f"an extended header has the record {body[:40]!r}")
        yield key, value[:-1]
        body = body[length:]
