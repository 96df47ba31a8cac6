"""Archives as other tools write them, read in one pass: ustar, PAX, GNU, star and old tar.

What an entry means is decided as Go's archive/tar does, because dockerd, containerd, podman and
BuildKit all extract with it: global PAX headers are skipped, an empty PAX value leaves the
header's, a link or device has no content whatever size it states. Every regular file is hashed;
`wanted` ones are kept too. Where an entry goes in an image is left to `filetree`.
Sources: POSIX.1-2017 pax; GNU tar manual, "Basic Tar Format"; Go, src/archive/tar/reader.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .filetree import Entry, normalise
from .tarheader import Head, check_sum, check_texts, head_of, with_records
from .tarsparse import Hole, is_pax_sparse, old_map, pax_map
from .tartext import Records, TarFormatError, TarRefusedError, number, records_of, text

if TYPE_CHECKING:
    from hashlib import _Hash

__all__ = ["TarReader", "Wanted"]

Wanted = Callable[[str, Entry], bool]

_RECORD = 512
_SPECIAL_LIMIT = 1024 * 1024  # bytes of an extended header or long name; Go's maxSpecialFileSize
_ZEROS = bytes(_RECORD)
_HOLE = memoryview(bytes(1024 * 1024))
_KINDS = {b"1": "h", b"2": "l", b"3": "c", b"4": "b", b"5": "d", b"6": "p"}
_REGULAR = frozenset([b"0", b"\0", b"7", b"S"])
_NO_RECORDS = Records()


@dataclass(slots=True)
class TarReader:
    """Reads the members of one archive out of `pieces`.

    `name` is that of the entry in hand, for errors. `kept` grows by the path as written and
    the content of each regular file for which `wanted` is true; `room` is how many bytes it
    may still take. `expand` is told how many bytes the sparse files so far stand for.
    """

    pieces: Iterator[bytes]
    wanted: Wanted | None = None
    room: int = 0
    expand: Callable[[int], object] = lambda _: None
    name: str = ""
    kept: list[tuple[str, bytes]] = field(default_factory=list)
    _buffer: bytes = b""
    _at: int = 0
    _expanded: int = 0

    def members(self) -> Iterator[tuple[str, Entry]]:
        """Yield every entry in the archive's order, and read the pieces to their end.

        Raises:
            TarFormatError: the archive is malformed or cut short.
            TarRefusedError: it has an entry of a kind or name that no image may have.
            PathError: a name that leaves the root.
        """
        records, long_name, long_link = _NO_RECORDS, b"", b""
        while header := self._header():
            kind = header[156:157]
            if kind == b"x":
                records = records_of(self._special(header, "a PAX header"))
            elif kind == b"g":
                self._special(header, "a global PAX header")  # no engine applies them
            elif kind == b"L":
                long_name = self._special(header, "a long name").partition(b"\0")[0]
            elif kind == b"K":
                long_link = self._special(header, "a long link").partition(b"\0")[0]
            else:
                head = head_of(header)
                if long_name or long_link:
                    head = head._replace(name=long_name or head.name, link=long_link or head.link)
                yield self._member(head, header, records)
                records, long_name, long_link = _NO_RECORDS, b"", b""
        for _ in self.pieces:  # what follows the end belongs to the layer's diff_id
            pass

    def _header(self) -> bytes:
        """Return the next header, checked, or nothing at the archive's end."""
        header = self._upto(_RECORD)
        if header == _ZEROS:
            if self._upto(_RECORD).strip(b"\0"):
                raise TarFormatError("one record of zeros, where the archive's end has two")
            return b""
        if header and len(header) < _RECORD:
            raise TarFormatError("the archive is cut short in a header")
        if header:  # else there is no end marker; every extractor takes that
            check_sum(header)
        return header

    def _special(self, header: bytes, what: str) -> bytes:
        size = number(header[124:136])
        if not 0 <= size <= _SPECIAL_LIMIT:
            raise TarRefusedError(f"{what} of {size} bytes", f"at most {_SPECIAL_LIMIT}")
        body = self._take(size)
        self._take(-size % _RECORD)
        return body

    def _member(self, head: Head, header: bytes, records: Records) -> tuple[str, Entry]:
        if records:
            head = with_records(head, records)
        check_texts(head)
        path = self.name = text(head.name)
        # Before there was a type for directories, their names ended with a slash.
        kind = b"5" if head.kind == b"\0" and path.endswith("/") else head.kind
        if kind in _REGULAR:
            return path, self._file(path, head, header, records)
        letter = _KINDS.get(kind)
        if letter is None:
            raise TarRefusedError(
                f"an entry of type {kind.decode('latin-1')!r}",
                "a file, directory, link, device or pipe",
            )
        link = text(head.link) if letter in "hl" else ""
        return path, Entry(
            letter, head.mode, head.uid, head.gid, head.mtime, link=link, xattrs=head.xattrs
        )

    def _file(self, path: str, head: Head, header: bytes, records: Records) -> Entry:
        """Return a regular file's entry, having read and hashed its content."""
        name = normalise(path)
        if head.size < 0 or not name:
            raise TarFormatError(f"a regular file of {head.size} bytes named {path!r}")
        size, holes = head.size, [(0, head.size)]
        if records or head.kind == b"S":
            size, holes = self._holes(head, header, records)
        entry = Entry("f", head.mode, head.uid, head.gid, head.mtime, size, xattrs=head.xattrs)
        keep = None
        if self.wanted is not None and self.wanted(name, entry):
            keep = self._keeper(size)
        content = hashlib.sha256()
        stored = 0
        for hole, data in holes:
            if hole:
                _fill(hole, content, keep)
            self._feed(data, content, keep)
            stored += data
        self._take(-stored % _RECORD)
        if keep is not None:
            self.kept.append((name, bytes(keep)))
        return entry._replace(sha256=content.hexdigest())

    def _holes(self, head: Head, header: bytes, records: Records) -> tuple[int, list[Hole]]:
        """Return the real size of a file that may be sparse, and what is stored of it."""
        if head.kind == b"S":
            holes, size = old_map(header, self._take, head.size)
        elif is_pax_sparse(records):
            holes, size = pax_map(records, self._take, head.size)
        else:
            return head.size, [(0, head.size)]
        self._expanded += size
        self.expand(self._expanded)
        return size, holes

    def _keeper(self, size: int) -> bytearray:
        if size > self.room:
            raise TarRefusedError(f"{size} bytes to be held in memory", f"at most {self.room}")
        self.room -= size
        return bytearray()

    def _feed(self, count: int, content: _Hash, keep: bytearray | None) -> None:
        """Hash the next `count` bytes, and keep them if asked to."""
        while count:
            if self._at == len(self._buffer):
                self._buffer, self._at = next(self.pieces, b""), 0
                if not self._buffer:
                    raise TarFormatError(f"the archive is cut short by {count} bytes")
            end = min(self._at + count, len(self._buffer))
            piece = memoryview(self._buffer)[self._at : end]
            content.update(piece)
            if keep is not None:
                keep += piece
            count -= end - self._at
            self._at = end

    def _take(self, count: int) -> bytes:
        found = self._upto(count)
        if len(found) < count:
            raise TarFormatError(f"the archive is cut short by {count - len(found)} bytes")
        return found

    def _upto(self, count: int) -> bytes:
        """Return the next `count` bytes, or what there is left."""
        end = self._at + count
        found = self._buffer[self._at : end]
        self._at = min(end, len(self._buffer))
        while len(found) < count and (piece := next(self.pieces, b"")):
            self._buffer, self._at = piece, min(count - len(found), len(piece))
            found += piece[: self._at]
        return found


def _fill(count: int, content: _Hash, keep: bytearray | None) -> None:
    """Hash a hole's zeros."""
    if keep is not None:
        keep += bytes(count)
    while count:
        piece = _HOLE[:count]
        content.update(piece)
        count -= len(piece)
