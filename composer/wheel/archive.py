"""The files of a zip archive: their table, every structural rule checked, and their contents.

`zipfile` reads the table. Contents are read here, each through a file of its own, so that they
come in chunks, in any order, and never more of them than the table says. What the files mean
is left to `composer.wheel.read`.
Sources: PKWARE APPNOTE 6.3.10, sections 4.3.7 (local file header), 4.4.4 (flags), 4.4.5
(methods); PyPI's rules on zip archives (blog.pypi.org, 2025-08-07, "wheel archive confusion").
"""

from __future__ import annotations

import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import Fault, InputError, IntegrityError, UnreachableError
from ..oci.filetree import WHITEOUT

__all__ = ["Packed", "damaged", "path_fault", "printable", "read_table", "unpacked"]

_CHUNK = 1024 * 1024  # bytes that a stream yields at most at a time
_READ = 256 * 1024  # bytes of compressed data taken at a time
_LOCAL = struct.Struct("<4s5H3L2H")  # local file header, without name and extra field
_LOCAL_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 0x1 | 0x40 | 0x2000  # encryption, strong encryption, masked headers
_UTF8 = 0x800
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # NUL cuts names short; others deceive a reader
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What `zipfile` raises over a broken table.
_BROKEN = (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error)


@dataclass(frozen=True, slots=True)
class Packed:
    """One file of the archive. Sizes and `offset` (of the local header) in bytes."""

    name: str
    raw_name: bytes
    size: int
    packed_size: int
    method: int
    crc: int
    offset: int
    executable: bool


def read_table(path: Path) -> tuple[tuple[Packed, ...], list[Fault]]:
    """Return the files of the archive, directories left out, and what is wrong with them.

    The `where` of the faults is the name in the archive.

    Raises:
        InputError: not a zip archive.
        UnreachableError: the file cannot be read.
    """
    infos = _infos(path)
    faults = [fault for info in infos for fault in _faults(info)]
    files = [_packed(info) for info in infos if not info.orig_filename.endswith("/")]
    return tuple(files), faults + list(_overlaps(files))


def _infos(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except OSError as error:
        raise UnreachableError.of(
            "cannot read the file", where=str(path), found=error.strerror or str(error)
        ) from error
    except _BROKEN as error:
        raise InputError.of(
            "not a zip archive, or a damaged one",
            where=str(path),
            found=str(error),
            fix="fetch the file again",
        ) from error


def _packed(info: zipfile.ZipInfo) -> Packed:
    encoding = "utf-8" if info.flag_bits & _UTF8 else "cp437"
    return Packed(
        name=info.orig_filename,
        raw_name=info.orig_filename.encode(encoding),
        size=info.file_size,
        packed_size=info.compress_size,
        method=info.compress_type,
        crc=info.CRC,
        offset=info.header_offset,
        executable=bool(info.external_attr >> 16 & 0o111),
    )


def _faults(info: zipfile.ZipInfo) -> Iterator[Fault]:
    name = info.orig_filename  # `filename` is cut at a NUL
    if reason := path_fault(name.removesuffix("/")):
        yield Fault(what=f"a file name of the archive {reason}", where=name)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        found = "a symbolic link" if kind == stat.S_IFLNK else f"file type 0o{kind:o}"
        yield Fault(what="not a regular file", where=name, found=found)
    if info.flag_bits & _ENCRYPTED:
        yield Fault(what="the file is encrypted", where=name)
    elif info.compress_type not in _METHODS:
        yield Fault(
            what="a compression method that wheels do not use",
            where=name,
            expected="0 (stored) or 8 (deflated)",
            found=str(info.compress_type),
        )


def path_fault(path: str) -> str:
    """Tell what keeps `path` from being a plain path below a root; empty when nothing does."""
    parts = path.split("/")
    if path.startswith("/"):
        return "is absolute"
    if ".." in parts:
        return "has a '..' part"
    if "" in parts or "." in parts:
        return "has an empty or '.' part"
    if "\\" in path or _CONTROL.search(path):
        return "holds a backslash or a control character"
    if any(part.startswith(WHITEOUT) for part in parts):
        return f"has a part that starts with {WHITEOUT}, which removes files in an image layer"
    return ""


def printable(name: str) -> str:
    """Return `name` with its control characters spelled out."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", name)


def _overlaps(files: Iterable[Packed]) -> Iterator[Fault]:
    """Yield the files that share bytes of the archive with the next: a bomb's sign."""
    end, last = 0, ""
    for file in sorted(files, key=lambda one: one.offset):
        if file.offset < end:
            yield Fault(what=f"the file shares its bytes with {last!r}", where=file.name)
        end = file.offset + _LOCAL.size + len(file.raw_name) + file.packed_size
        last = file.name


def unpacked(path: Path, packed: Packed, where: str) -> Iterator[bytes]:
    """Yield the content of a file in chunks of at most 1 MiB; `where` names it in errors.

    Raises:
        IntegrityError: the content is not of the size and CRC-32 that the table says.
    """
    size = crc = 0
    with path.open("rb", buffering=0) as file:
        _seek(file, packed, where)
        inflate = packed.method == zipfile.ZIP_DEFLATED
        for chunk in (_inflated if inflate else _stored)(file, packed, where):
            size += len(chunk)
            if size > packed.size:
                raise damaged(where, f"{packed.size} bytes", "more")
            crc = zlib.crc32(chunk, crc)
            yield chunk
    if size != packed.size:
        raise damaged(where, f"{packed.size} bytes", f"{size} bytes")
    if crc != packed.crc:
        raise damaged(where, f"CRC-32 {packed.crc:08x}", f"CRC-32 {crc:08x}")


def damaged(where: str, expected: str, found: str) -> IntegrityError:
    """Return the error for content that is not what the archive says of it."""
    return IntegrityError.of(
        "a file of the archive is damaged",
        where=where,
        expected=expected,
        found=found,
        fix="fetch the archive again",
    )


def _seek(file: BinaryIO, packed: Packed, where: str) -> None:
    """Go to the file's data. Its local header must name the same file as the table."""
    file.seek(packed.offset)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_MAGIC):
        raise damaged(where, "a local file header", "other bytes")
    name_length, extra_length = _LOCAL.unpack(header)[-2:]
    name = file.read(name_length)
    if name != packed.raw_name:
        raise damaged(where, f"local file header of {packed.raw_name!r}", repr(name))
    file.seek(extra_length, 1)


def _stored(file: BinaryIO, packed: Packed, where: str) -> Iterator[bytes]:
    left = packed.packed_size
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            raise damaged(where, f"{left} more bytes", "the archive's end")
        left -= len(chunk)
        yield chunk


def _inflated(file: BinaryIO, packed: Packed, where: str) -> Iterator[bytes]:
    engine = zlib.decompressobj(-zlib.MAX_WBITS)  # negative: a raw deflate stream
    left, held = packed.packed_size, b""
    while not engine.eof:
        if not held:
            held = file.read(min(left, _READ))
            left -= len(held)
        try:
            chunk = engine.decompress(held, _CHUNK)
        except zlib.error as error:
            raise damaged(where, "deflated data", str(error)) from error
        if not chunk and not held and not engine.eof:
            raise damaged(where, "deflated data", "an end in its midst")
        held = engine.unconsumed_tail
        yield chunk
