"""Layers as their makers compressed them, inflated piece by piece.

What a layer is compressed with is said by its media type and by its first bytes, and the two
must agree; a type that is not known here leaves it to the bytes. However small a hostile layer
is and however large it claims to be, what is held at a time is one piece and the decompressor's
window. What the archive inside says is left to `scan`; that the compressed bytes are those of
their digest, to whoever yields them.
Sources: RFC 1952 (gzip), RFC 8878 (zstd); OCI image-spec layer.md.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import IntegrityError
from .mediatype import FAMILIES
from .zstdframe import ZstdFormatError, parts

__all__ = ["LIMITS", "PIECE", "Limits", "compression_of", "inflate"]

PIECE = 512 * 1024  # bytes yielded at most at a time: it stays in the cache until it is hashed
_STEP = 4096  # bytes first given to a gzip member, which may end within them
_MOST = 256 * 1024
_MAGIC = 10  # bytes, the longest of those below
_NAMES = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    # The level and the magic of a block: a plain archive may begin with a file BZh.txt.
    **{b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)},
    # A skippable frame may come first (RFC 8878 section 3.1.2).
    **{bytes([number, 0x2A, 0x4D, 0x18]): "zstd" for number in range(0x50, 0x60)},
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a layer may inflate to. `total` in bytes; `ratio` holds beyond `free` bytes."""

    total: int
    ratio: int
    free: int

    def broken(self, inflated: int, compressed: int) -> str:
        """Return which limit that many bytes break, or nothing."""
        if inflated > self.total:
            return f"at most {self.total} bytes"
        if inflated > self.free and inflated > self.ratio * compressed:
            return f"at most {self.ratio} bytes for each compressed one"
        return ""


# The largest images for inference have 34 GB in all their layers; a layer of eight times as much
# is a mistake or an attack. Deflate reaches a ratio of 1032 (a match of 258 bytes in two bits),
# so that the second limit stops no gzip layer; zstd reaches 30,000. A gigabyte takes a second.
LIMITS = Limits(total=256 * 1024**3, ratio=1100, free=1024**3)


def compression_of(head: bytes) -> str:
    """Name what a blob with these first bytes is compressed with; empty for a plain archive."""
    return next((name for magic, name in _NAMES.items() if head.startswith(magic)), "")


def inflate(
    chunks: Iterable[bytes], media_type: str, *, where: str, limits: Limits = LIMITS
) -> Iterator[bytes]:
    """Yield a layer's archive in pieces of at most `PIECE` bytes; `chunks` is read to its end.

    `where` names the layer in errors.

    Raises:
        IntegrityError: the bytes are damaged, cut short, followed by others, compressed
            otherwise than `media_type` says, or inflate beyond `limits`.
    """
    counted = _Counted(iter(chunks))
    found = compression_of(counted.peek(_MAGIC))
    _check_type(media_type, found, where)
    inflated = 0
    for piece in _checked(_DECODERS[found](counted), where):
        inflated += len(piece)
        if limit := limits.broken(inflated, counted.size):
            raise IntegrityError.of(
                "a layer inflates without end",
                where=where,
                expected=limit,
                found=f"{inflated} bytes from the first {counted.size}",
                fix="use another base; this layer is broken or hostile",
            )
        yield piece


class _DamageError(Exception):
    """The compressed stream is not one; the message says how."""


def _checked(pieces: Iterator[bytes], where: str) -> Iterator[bytes]:
    try:
        yield from pieces
    except (_DamageError, ZstdFormatError) as error:
        raise IntegrityError.of(
            "a layer cannot be decompressed",
            where=where,
            found=str(error),
            fix="fetch or build the image anew; its maker wrote, or a copy left, a broken layer",
        ) from error


def _check_type(media_type: str, found: str, where: str) -> None:
    said = _SAID.get(media_type, found)
    if said != found or found not in _DECODERS:
        names = [said or "a plain archive", found or "a plain archive"]
        raise IntegrityError.of(
            "a layer is compressed in a way that its media type rules out",
            where=where,
            expected=f"{names[0]} ({media_type})" if said != found else "gzip, zstd or none",
            found=names[1],
            fix="compress it anew: skopeo copy --dest-compress-format gzip --dest-force-compress",
        )


def _said() -> dict[str, str]:
    """Return the compression that each known media type of a layer stands for."""
    types = {name for family in FAMILIES for name in family.layers}
    return {name: _suffix(name.replace("+", ".").rpartition(".")[2]) for name in types}


def _suffix(text: str) -> str:
    return text if text in ("gzip", "zstd") else ""


_SAID = _said()


@dataclass(slots=True)
class _Counted:
    """Counts the bytes of chunks that are not empty."""

    chunks: Iterator[bytes]
    size: int = 0
    head: bytes = b""

    def peek(self, count: int) -> bytes:
        while len(self.head) < count:
            chunk = next(self.chunks, None)
            if chunk is None:
                break
            self.head += chunk
        return self.head[:count]

    def __iter__(self) -> Iterator[bytes]:
        if self.head:
            self.size += len(self.head)
            yield self.head
        for chunk in self.chunks:
            if chunk:
                self.size += len(chunk)
                yield chunk


def _plain(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        if len(chunk) <= PIECE:
            yield chunk
        else:
            yield from (chunk[at : at + PIECE] for at in range(0, len(chunk), PIECE))


def _gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    new, errors = _gzip_library()
    member, step = new(), _STEP
    for chunk in chunks:
        view, at = memoryview(chunk), 0
        while at < len(view):
            if member.eof:
                member, step = new(), _STEP
            data: bytes | memoryview = view[at : at + step]
            at += len(data)
            while data and not member.eof:
                try:
                    piece = member.decompress(data, PIECE)
                except errors as error:
                    raise _DamageError(f"gzip: {error}") from error
                if piece:
                    yield piece
                data = member.unconsumed_tail
            # What follows a member must be another one: `new` refuses anything else.
            at -= len(member.unused_data)
            step = min(step * 2, _MOST)  # small at first: what follows a member is copied
    if not member.eof:
        raise _DamageError("gzip: the stream is cut short")


def _gzip_library() -> tuple[Callable[[], Any], type[Exception]]:
    """Return what makes a decompressor of one member, and what it raises. isal: four times zlib."""
    gzip_only = 31  # zlib's wbits: the largest window, and a gzip header and trailer
    try:
        isal = importlib.import_module("isal.isal_zlib")
    except ImportError:
        return lambda: zlib.decompressobj(gzip_only), zlib.error
    return lambda: isal.decompressobj(gzip_only), isal.error


def _unzstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415 (few bases have such layers)

    context = zstandard.ZstdDecompressor()
    frame = context.decompressobj()
    for data, ends in parts(chunks):
        try:
            piece = frame.decompress(data)
        except zstandard.ZstdError as error:
            raise _DamageError(f"zstd: {error}") from error
        if piece:
            yield piece
        if ends:
            if not frame.eof:
                raise _DamageError("zstd: a frame does not end where its blocks do")
            frame = context.decompressobj()


_DECODERS: dict[str, Callable[[Iterable[bytes]], Iterator[bytes]]] = {
    "": _plain,
    "gzip": _gunzip,
    "zstd": _unzstd,
}
