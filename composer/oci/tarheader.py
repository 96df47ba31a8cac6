"""One header of an archive as a value: ustar, GNU, star or older, and a PAX header's say in it.

Sources: POSIX.1-2017 pax; GNU tar manual, "Basic Tar Format"; Go, src/archive/tar/reader.go.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from .tartext import TarFormatError, TarRefusedError, number, seconds, text

__all__ = ["Head", "check_sum", "check_texts", "head_of", "with_records"]

_NAME_LIMIT = 4096  # bytes of a name or link; path_resolution(7), PATH_MAX
# name mode uid gid size mtime checksum type link magic uname gname major minor prefix
_LAYOUT = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12s")
_XATTR = "SCHILY.xattr."
_number = lru_cache(maxsize=4096)(number)  # modes, owners and times repeat

Xattrs = tuple[tuple[str, str], ...]


class Head(NamedTuple):
    """What a header says. `size` in stored bytes, `mtime` in whole seconds since the epoch."""

    name: bytes
    link: bytes
    kind: bytes
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    xattrs: Xattrs = ()


def head_of(header: bytes) -> Head:
    """Read 512 bytes whose checksum was found right.

    Raises:
        TarFormatError: a field is no number.
    """
    name, mode, uid, gid, size, mtime, _, kind, link, magic, *_, prefix, tail = _LAYOUT.unpack(
        header
    )
    return Head(
        _ustar_name(name, magic, prefix, tail),
        link.partition(b"\0")[0],
        kind,
        _number(mode) & 0o7777,
        _number(uid),
        _number(gid),
        number(size),
        _number(mtime),
    )


def _ustar_name(name: bytes, magic: bytes, prefix: bytes, tail: bytes) -> bytes:
    name = name.partition(b"\0")[0]
    if magic[:6] != b"ustar\0" or not prefix[0]:
        return name  # GNU and old tar have other things there, or nothing
    if tail[8:] == b"tar\0":
        prefix = prefix[:131]  # star keeps two times in the rest
    head = prefix.partition(b"\0")[0]
    return head + b"/" + name if head else name


def with_records(head: Head, records: Mapping[str, bytes]) -> Head:
    """Return the header as a PAX header before it corrects it; an empty value corrects nothing.

    Raises:
        TarFormatError: a record that should be a number is none.
    """
    size, uid, gid = (
        number(records[key], 10) if records.get(key) else value
        for key, value in (("size", head.size), ("uid", head.uid), ("gid", head.gid))
    )
    return head._replace(
        name=records.get("GNU.sparse.name") or records.get("path") or head.name,
        link=records.get("linkpath") or head.link,
        size=size,
        uid=uid,
        gid=gid,
        mtime=seconds(records["mtime"]) if records.get("mtime") else head.mtime,
        xattrs=_xattrs(records),
    )


def _xattrs(records: Mapping[str, bytes]) -> Xattrs:
    found = [
        (key[len(_XATTR) :], text(value))
        for key, value in records.items()
        if key.startswith(_XATTR)
    ]
    return tuple(sorted(found))


def check_texts(head: Head) -> None:
    """Check the name and the link.

    Raises:
        TarRefusedError: one holds a NUL, or is longer than any path can be.
    """
    longest = max(len(head.name), len(head.link))
    if longest > _NAME_LIMIT:
        raise TarRefusedError(f"a name or link of {longest} bytes", f"at most {_NAME_LIMIT}")
    if b"\0" in head.name or b"\0" in head.link:
        raise TarRefusedError("a NUL in a name or link", "none")


def check_sum(header: bytes) -> None:
    """Check a header's own sum.

    Raises:
        TarFormatError: it is another.
    """
    # adler32's low half is the sum of the bytes, plus one, modulo 65521: 256 bytes stay below.
    total = (zlib.adler32(header[:256]) & 0xFFFF) + (zlib.adler32(header[256:]) & 0xFFFF) - 2
    found = total - sum(header[148:156]) + 8 * 0x20
    stated = _number(header[148:156])
    if stated not in (found, _signed_sum(header) if stated != found else found):
        raise TarFormatError(f"a header that states the checksum {stated:o}, and has {found:o}")


def _signed_sum(header: bytes) -> int:
    """Return the checksum as some old tars took it, of signed bytes."""
    others = header[:148] + b" " * 8 + header[156:]
    return sum(byte - 256 if byte > 127 else byte for byte in others)
