"""The frames of a zstd stream, cut at their blocks.

A decompressor that is given bytes gives back all that is in them, which for a few kilobytes may
be gigabytes. A block inflates to 128 KiB at most, so parts of a few blocks are safe to give it;
and whether a stream ends where a frame does is known from the blocks alone.
Source: RFC 8878 section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

__all__ = ["WINDOW", "ZstdFormatError", "parts"]

WINDOW = 128 * 1024 * 1024  # bytes; what zstd itself takes without --long, and -22 needs
_FRAME = 0xFD2FB528
_SKIPPABLE = 0x184D2A50  # the low four bits are free
_BLOCK = 128 * 1024
_BLOCKS = 4  # in a part: half a megabyte
_CONTENT_SIZES = (0, 2, 4, 8)
_DICTIONARY_SIZES = (0, 1, 2, 4)


class ZstdFormatError(ValueError):
    """Not a zstd stream, or one that this reader refuses; the message says why."""


def parts(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the stream cut into parts, each with whether it ends a frame.

    Skippable frames are left out. A part inflates to 512 KiB at most.

    Raises:
        ZstdFormatError: another format, a frame cut short, or one whose window is too large.
    """
    source = _Bytes(iter(chunks))
    while magic := source.upto(4):
        number = int.from_bytes(magic, "little")
        if len(magic) == 4 and number & ~0xF == _SKIPPABLE:
            source.skip(int.from_bytes(source.take(4), "little"))
        elif number == _FRAME:
            yield from _frame(source, magic)
        else:
            raise ZstdFormatError(f"zstd: {magic.hex()} is where a frame should begin")


def _frame(source: _Bytes, magic: bytes) -> Iterator[tuple[bytes, bool]]:
    header, has_checksum = _header(source)
    held, blocks, last = bytearray(magic + header), 0, False
    while not last:
        head = source.take(3)
        number = int.from_bytes(head, "little")
        last, kind, size = bool(number & 1), number >> 1 & 3, number >> 3
        if kind == 3 or size > _BLOCK:
            raise ZstdFormatError(f"zstd: a block of type {kind} and {size} bytes")
        # An RLE block (type 1) holds one byte, however many it stands for.
        held += head + source.take(1 if kind == 1 else size)
        blocks += 1
        if blocks == _BLOCKS and not last:
            yield bytes(held), False
            held, blocks = bytearray(), 0
    yield bytes(held + source.take(4 if has_checksum else 0)), True


def _header(source: _Bytes) -> tuple[bytes, bool]:
    """Return a frame's header, and whether a checksum follows its blocks."""
    descriptor = source.take(1)
    bits = descriptor[0]
    single, content, dictionary = bits >> 5 & 1, _CONTENT_SIZES[bits >> 6], bits & 3
    if single and not content:
        content = 1
    rest = source.take((0 if single else 1) + _DICTIONARY_SIZES[dictionary] + content)
    window = int.from_bytes(rest[-content:], "little") if single else _window(rest[0])
    if window > WINDOW:
        raise ZstdFormatError(f"zstd: a window of {window} bytes, more than {WINDOW}")
    return descriptor + rest, bool(bits & 4)


def _window(byte: int) -> int:
    base: int = 1 << (10 + (byte >> 3))
    return base + base // 8 * (byte & 7)


@dataclass(slots=True)
class _Bytes:
    """Takes counted bytes from chunks."""

    chunks: Iterator[bytes]
    held: memoryview = field(default_factory=lambda: memoryview(b""))

    def upto(self, count: int) -> bytes:
        """Return `count` bytes, or what there is left."""
        found = bytearray()
        while len(found) < count:
            if not self.held:
                chunk = next(self.chunks, None)
                if chunk is None:
                    break
                self.held = memoryview(chunk)
            piece, self.held = self.held[: count - len(found)], self.held[count - len(found) :]
            found += piece
        return bytes(found)

    def take(self, count: int) -> bytes:
        found = self.upto(count)
        if len(found) < count:
            raise ZstdFormatError("zstd: the stream is cut short")
        return found

    def skip(self, count: int) -> None:
        while count:
            count -= len(self.take(min(count, _BLOCK)))
