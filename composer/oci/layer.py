"""Layers: a sorted PAX archive, a function of its entries alone.

Sources: POSIX.1-2017 pax, "ustar Interchange Format" and "pax Extended Header"; OCI image-spec
layer.md for whiteouts. Extended attributes are SCHILY.xattr records, as all runtimes read them.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .digest import Digest
from .encoding import StoredGzip
from .filetree import WHITEOUT, Entry
from .manifest import Descriptor
from .mediatype import Family
from .worker import Worker

__all__ = ["Layer", "Member", "encode_layer", "tar", "whiteout"]

_RECORD = 512
_BATCH = 1024 * 1024
_PAX_NAME = b"././@PaxHeader"


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of a layer: where it goes, its header, and the content of a regular file.

    `data` is the whole content, or a callable that yields it in chunks; it must give
    `entry.size` bytes.
    """

    path: str
    entry: Entry
    data: bytes | Callable[[], Iterable[bytes]] = b""


@dataclass(frozen=True, slots=True)
class Layer:
    """An encoded layer. `size` in bytes of the stored (gzip) form."""

    diff_id: Digest
    digest: Digest
    size: int

    def descriptor(self, family: Family) -> Descriptor:
        """Return its descriptor in a manifest of `family`."""
        return Descriptor(family.layer_gzip, self.digest, self.size)


def whiteout(path: str, mtime: int) -> Member:
    """Return the entry that removes `path` of the layers below."""
    parent, name = posixpath.split(path)
    return Member(posixpath.join(parent, WHITEOUT + name), Entry("f", mode=0o644, mtime=mtime))


def encode_layer(members: Iterable[Member], emit: Callable[[bytes | memoryview], object]) -> Layer:
    """Write the gzip form of a layer through `emit`, piece by piece, and return what it is.

    A layer of more than 1 MiB is hashed and emitted by a thread of its own while its members
    are read; all calls of `emit` are in order, and have ended when this returns or raises.

    Raises:
        ValueError: members out of order, or content of another size than its entry says.
    """
    encoding = _Encoding(emit)
    batches = _batches(tar(members))
    encoding.write(next(batches))
    with Worker(encoding.write) as worker:
        for batch in batches:
            worker.put(batch)
    return encoding.finish()


class _Encoding:
    """The two hashes of a layer and its encoded form on its way out."""

    def __init__(self, emit: Callable[[bytes | memoryview], object]) -> None:
        self._emit = emit
        self._encoder = StoredGzip()
        self._diff_id, self._digest = hashlib.sha256(), hashlib.sha256()
        self._size = 0

    def write(self, batch: bytes) -> None:
        self._diff_id.update(batch)
        self._out(self._encoder.encode(batch))

    def finish(self) -> Layer:
        self._out(self._encoder.finish())
        diff_id, digest = self._diff_id.hexdigest(), self._digest.hexdigest()
        return Layer(Digest("sha256", diff_id), Digest("sha256", digest), self._size)

    def _out(self, pieces: Iterable[bytes | memoryview]) -> None:
        # In one piece: each hash or write lets other threads in, and may wait to go on.
        data = b"".join(pieces)
        self._digest.update(data)
        self._size += len(data)
        self._emit(data)


def _batches(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of about `_BATCH`, the last one of any size."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        if len(held) >= _BATCH:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def tar(members: Iterable[Member]) -> Iterator[bytes]:
    """Yield the archive of `members`, which must be sorted by path and without duplicates."""
    last = ""
    for member in members:
        if member.path <= last:
            raise ValueError(f"layer entries out of order: {member.path!r} after {last!r}")
        last = member.path
        yield _headers(member)
        if member.entry.is_file:
            yield from _content(member)
    yield bytes(2 * _RECORD)


def _content(member: Member) -> Iterator[bytes]:
    size = 0
    for chunk in (member.data,) if isinstance(member.data, bytes) else member.data():
        size += len(chunk)
        yield chunk
    if size != member.entry.size:
        raise ValueError(f"{member.path}: {size} bytes, its entry says {member.entry.size}")
    yield bytes(-size % _RECORD)


def _headers(member: Member) -> bytes:
    entry = member.entry
    if entry.kind not in ("f", "d"):
        raise ValueError(f"{member.path}: entries of kind {entry.kind!r} are never written")
    name = (member.path + ("/" if entry.is_dir else "")).encode("utf-8", "surrogateescape")
    records: list[tuple[str, bytes]] = []
    if len(name) > 100 or not name.isascii():
        records.append(("path", name))
    size = entry.size if entry.is_file else 0
    for key, value, limit in (
        ("gid", entry.gid, 0o7777777),
        ("mtime", entry.mtime, 0o77777777777),
        ("size", size, 0o77777777777),
        ("uid", entry.uid, 0o7777777),
    ):
        if not 0 <= value <= limit:  # a base's directory may be older than 1970
            records.append((key, str(value).encode()))
    for key, text in entry.xattrs:
        records.append((f"SCHILY.xattr.{key}", text.encode("utf-8", "surrogateescape")))
    header = _ustar(name, entry, size, b"5" if entry.is_dir else b"0")
    return _pax(records) + header if records else header


def _pax(records: list[tuple[str, bytes]]) -> bytes:
    body = b"".join(_pax_record(key.encode(), value) for key, value in sorted(records))
    header = _ustar(_PAX_NAME, Entry("f", mode=0o644), len(body), b"x")
    return header + body + bytes(-len(body) % _RECORD)


def _pax_record(key: bytes, value: bytes) -> bytes:
    # "%d %s=%s\n", the number being the length of the whole record, its own digits included.
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + 1
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def _ustar(name: bytes, entry: Entry, size: int, kind: bytes) -> bytes:
    header = bytearray(_RECORD)
    header[0 : min(len(name), 100)] = name[:100]
    for offset, width, value in (
        (100, 8, entry.mode),
        (108, 8, min(entry.uid, 0o7777777)),
        (116, 8, min(entry.gid, 0o7777777)),
        (124, 12, min(size, 0o77777777777)),
        (136, 12, min(max(entry.mtime, 0), 0o77777777777)),
    ):
        header[offset : offset + width] = b"%0*o\0" % (width - 1, value)
    header[148:157] = b" " * 8 + kind
    header[257:265] = b"ustar\x0000"
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)
