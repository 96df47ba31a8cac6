"""Canonical gzip: stored deflate blocks, so that the bytes are a function of the content alone.

A compressor's output changes with its library and version; a stored block does not. Registries,
runtimes and copiers keep a gzip layer as it is, while some recompress a plain tar.
Sources: RFC 1952 (gzip), RFC 1951 section 3.2.4 (non-compressed blocks).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

__all__ = ["BLOCK", "StoredGzip", "stored_gzip"]

BLOCK = 65535  # the most a stored block holds: LEN has 16 bits
# ID1 ID2, CM=8 (deflate), no flags, MTIME=0 (none), XFL=0, OS=255 (unknown)
_HEADER = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255])


class StoredGzip:
    """A one-pass encoder: `encode` chunks of any size, then `finish` once.

    The output does not depend on how the content was cut into chunks: every block but the last
    holds `BLOCK` bytes, and only the last is marked final, also when the content is empty.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._crc = 0
        self._size = 0
        self._started = False

    def encode(self, chunk: bytes | memoryview) -> Iterator[bytes | memoryview]:
        """Yield the encoded pieces that `chunk` completes."""
        self._crc = zlib.crc32(chunk, self._crc)
        self._size += len(chunk)
        yield from self._start()
        view = memoryview(chunk)
        # A full block is held back until more content proves that it is not the last.
        while len(self._held) + len(view) > BLOCK:
            take = BLOCK - len(self._held)
            yield _block_header(BLOCK, final=False)
            if self._held:
                yield bytes(self._held)
                self._held.clear()
            yield view[:take]
            view = view[take:]
        self._held += view

    def finish(self) -> Iterator[bytes]:
        """Yield the last block and the trailer."""
        yield from self._start()
        yield _block_header(len(self._held), final=True)
        yield bytes(self._held)
        yield struct.pack("<II", self._crc, self._size & 0xFFFFFFFF)

    def _start(self) -> Iterator[bytes]:
        if not self._started:
            self._started = True
            yield _HEADER


def _block_header(length: int, *, final: bool) -> bytes:
    # BFINAL in bit 0, BTYPE=00 in bits 1-2, then LEN and its complement.
    return struct.pack("<BHH", int(final), length, length ^ 0xFFFF)


def stored_gzip(chunks: Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """Yield the canonical gzip of `chunks`."""
    encoder = StoredGzip()
    for chunk in chunks:
        yield from encoder.encode(chunk)
    yield from encoder.finish()
