"""Sparse files in archives: where their holes are, in the four ways that GNU tar wrote it down.

A map is a list of `(hole, data)`: so many bytes of zeros, then so many of the stored content.
Source: GNU tar manual, "Storing Sparse Files"; Go, src/archive/tar/reader.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .tartext import Records, TarFormatError, number

__all__ = ["Hole", "is_pax_sparse", "old_map", "pax_map"]

Hole = tuple[int, int]
Take = Callable[[int], bytes]

_RECORD = 512
_MAP_LIMIT = 1024 * 1024  # bytes of a map
_MARKS = ("GNU.sparse.major", "GNU.sparse.size", "GNU.sparse.realsize", "GNU.sparse.map")


def is_pax_sparse(records: Mapping[str, bytes]) -> bool:
    """Tell whether a PAX header makes its file a sparse one."""
    return any(mark in records for mark in _MARKS)


def old_map(header: bytes, take: Take, stored: int) -> tuple[list[Hole], int]:
    """Return the map and real size of an entry of type S; `take` reads the headers after it.

    Raises:
        TarFormatError: the map does not fit the file.
    """
    size = number(header[483:495])
    fields, more = header[386:482], header[482]
    while more:
        if len(fields) > _MAP_LIMIT:
            raise TarFormatError("a sparse file's map without end")
        block = take(_RECORD)
        fields, more = fields + block[:504], block[504]
    numbers = [number(fields[at : at + 12]) for at in range(0, len(fields), 12)]
    return _holes(zip(numbers[::2], numbers[1::2], strict=True), stored, size), size


def pax_map(records: Records, take: Take, stored: int) -> tuple[list[Hole], int]:
    """Return the map and real size of a file; `take` reads a map that is before its content.

    Raises:
        TarFormatError: the map does not fit the file.
    """
    size = number(records.get("GNU.sparse.realsize") or records.get("GNU.sparse.size", b""), 10)
    used = 0
    if (major := records.get("GNU.sparse.major")) not in (None, b"0"):
        if (major, records.get("GNU.sparse.minor")) != (b"1", b"0"):
            raise TarFormatError("a sparse file of an unknown version")
        numbers, used = _stored_map(take)
    elif "GNU.sparse.map" in records:
        numbers = _numbers(
            records["GNU.sparse.map"].split(b",") if records["GNU.sparse.map"] else ()
        )
    else:
        numbers = _repeated(records)
    if len(numbers) % 2:
        raise TarFormatError("a sparse file's map of an odd length")
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return _holes(pairs, stored - used, size), size


def _repeated(records: Records) -> list[int]:
    keys = ("GNU.sparse.offset", "GNU.sparse.numbytes")
    found = [one for one in records.sparse if one[0] in keys]
    if [key for key, _ in found] != list(keys) * (len(found) // 2):
        raise TarFormatError("a sparse file's map out of order")
    return _numbers(value for _, value in found)


def _numbers(texts: Iterable[bytes]) -> list[int]:
    return [number(one, 10) for one in texts]


def _stored_map(take: Take) -> tuple[list[int], int]:
    """Read a map that lies before the content: a count and its pairs, a number a line."""
    body = take(_RECORD)
    wanted = 1 + 2 * number(body.partition(b"\n")[0], 10)
    lines = body.count(b"\n")
    while lines < wanted:
        if len(body) >= _MAP_LIMIT:
            raise TarFormatError("a sparse file's map without end")
        block = take(_RECORD)
        lines += block.count(b"\n")
        body += block
    return _numbers(body.split(b"\n", wanted)[1:wanted]), len(body)


def _holes(pairs: Iterable[tuple[int, int]], stored: int, size: int) -> list[Hole]:
    """Turn offsets and lengths into holes and lengths, up to the file's end."""
    parts = [(offset, length) for offset, length in pairs if (offset, length) != (0, 0)]
    ends = [0, *(offset + length for offset, length in parts), size]
    starts = [*(offset for offset, _ in parts), size]
    holes = [start - end for start, end in zip(starts, ends[:-1], strict=True)]
    lengths = [*(length for _, length in parts), 0]
    if min([*holes, *lengths]) < 0 or sum(lengths) != stored:
        raise TarFormatError("a sparse file whose map does not fit it")
    return list(zip(holes, lengths, strict=True))
