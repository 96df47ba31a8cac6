"""Layers inflated: what gzip and zstd write, broken in every way a layer can be broken."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from composer.errors import IntegrityError
from composer.oci.decode import LIMITS, PIECE, Limits, inflate
from composer.oci.encoding import stored_gzip
from composer.oci.mediatype import DOCKER, OCI

from .support import properties

Compress = Callable[[bytes], bytes]
UNKNOWN = "application/octet-stream"
TEXT = b"".join(b"%d bottles\n" % number for number in range(200_000))


def decoded(*chunks: bytes, media_type: str = UNKNOWN, limits: Limits = LIMITS) -> bytes:
    return b"".join(inflate(chunks, media_type, where="layer 7", limits=limits))


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


COMPRESSORS: list[Compress] = [
    gzip.compress,
    zstd,
    bytes,
    lambda data: b"".join(stored_gzip([data])),
]


@pytest.mark.parametrize("compress", COMPRESSORS)
@pytest.mark.parametrize("size", [1, 3, 1000, 10**7])
def test_any_chunks_give_the_content(compress: Compress, size: int) -> None:
    text = TEXT if size > 100 else TEXT[:2000]
    assert decoded(*cut(compress(text), size)) == text


@given(st.binary(max_size=300), st.integers(1, 40), st.sampled_from(COMPRESSORS))
@properties(60)
def test_round_trip(data: bytes, size: int, compress: Compress) -> None:
    data = b"x" + data  # a plain archive never begins as a compressed one does
    assert decoded(*cut(compress(data), size)) == data


@pytest.mark.parametrize("compress", COMPRESSORS)
def test_pieces_are_small(compress: Compress) -> None:
    assert max(map(len, inflate([compress(TEXT)], UNKNOWN, where=""))) <= PIECE


def test_several_members_and_frames() -> None:
    assert decoded(gzip.compress(b"a") * 3000 + gzip.compress(TEXT)) == b"a" * 3000 + TEXT
    skippable = b"\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert decoded(skippable + zstd(b"a") + skippable + zstd(TEXT) + skippable) == b"a" + TEXT


def test_zstd_program_and_gzip_program_agree() -> None:
    for program in ("gzip", "zstd"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        made = subprocess.run([program, "-c"], input=TEXT, capture_output=True, check=True).stdout
        assert decoded(made) == TEXT


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
@pytest.mark.parametrize("tail", [b"\0", b"\0" * 512, b"trailing garbage", b"\x1f"])
def test_bytes_after_the_end_are_refused(compress: Compress, tail: bytes) -> None:
    with pytest.raises(IntegrityError, match="cannot be decompressed"):
        decoded(compress(TEXT) + tail)
    with pytest.raises(IntegrityError, match="cannot be decompressed"):
        decoded(compress(TEXT), tail)


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_every_cut_is_noticed(compress: Compress) -> None:
    data = compress(TEXT[:500])
    for end in range(4, len(data)):
        with pytest.raises(IntegrityError, match="layer 7"):
            decoded(data[:end])


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_damage_is_noticed(compress: Compress) -> None:
    data = bytearray(compress(TEXT))
    for at in (len(data) // 2, len(data) - 1, len(data) - 3):
        damaged = data.copy()
        damaged[at] ^= 0x55
        with pytest.raises(IntegrityError, match="cannot be decompressed"):
            decoded(bytes(damaged))


@pytest.mark.parametrize(
    ("media_type", "data", "found"),
    [
        (OCI.layer_gzip, zstd(b"a"), "zstd"),
        (OCI.layer_zstd, gzip.compress(b"a"), "gzip"),
        (OCI.layer, gzip.compress(b"a"), "gzip"),
        (DOCKER.layer_gzip, bytes(1024), "a plain archive"),
        (DOCKER.layer_gzip, b"", "a plain archive"),
        (UNKNOWN, b"\xfd7zXZ\0abc", "xz"),
        (OCI.layer_gzip, b"BZh91AY&SY", "bzip2"),
    ],
)
def test_type_and_bytes_must_agree(media_type: str, data: bytes, found: str) -> None:
    with pytest.raises(IntegrityError) as caught:
        decoded(data, media_type=media_type)
    assert caught.value.faults[0].found == found
    assert caught.value.faults[0].where == "layer 7"


def endless_gzip() -> Iterator[bytes]:
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(1024 * 1024)
    while True:
        yield packer.compress(zeros)


def endless_zstd() -> Iterator[bytes]:
    yield bytes.fromhex("28b52ffd0058")  # a window of 2 MiB
    # Blocks of type RLE: 128 KiB of one byte, in four.
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    while True:
        yield block * 100_000


@pytest.mark.parametrize("bomb", [endless_gzip, endless_zstd])
def test_a_bomb_is_stopped_and_stays_small(bomb: Callable[[], Iterator[bytes]]) -> None:
    limits = Limits(total=64 * 1024**2, ratio=10**6, free=0)
    pieces = inflate(bomb(), UNKNOWN, where="layer 7", limits=limits)
    tracemalloc.start()
    with pytest.raises(IntegrityError, match="at most 67108864 bytes"):
        sum(map(len, pieces))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 1024**2


def test_a_ratio_beyond_deflate_is_stopped() -> None:
    limits = Limits(total=2**60, ratio=LIMITS.ratio, free=16 * 1024**2)
    with pytest.raises(IntegrityError, match="at most 1100 bytes for each compressed one"):
        decoded(zstd(bytes(32 * 1024**2)), limits=limits)
    assert len(decoded(gzip.compress(bytes(32 * 1024**2)), limits=limits)) == 32 * 1024**2


def test_a_window_too_large_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = packer.compress(b"a") + packer.flush()
    with pytest.raises(IntegrityError, match="a window of 268435456 bytes, more than 134217728"):
        decoded(data)


def test_zlib_serves_where_isal_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    assert decoded(gzip.compress(b"a") * 2 + gzip.compress(TEXT)) == b"aa" + TEXT
    with pytest.raises(IntegrityError, match="cannot be decompressed"):
        decoded(gzip.compress(TEXT) + b"\0")
