"""Canonical gzip: the same bytes for the same content, which every gunzip takes back."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import zlib
from collections.abc import Iterable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.oci.encoding import BLOCK, StoredGzip, stored_gzip

from .support import needs, properties

# Around one block, two, and a block of two full ones with nothing after.
SIZES = [0, 1, 2, 65534, 65535, 65536, 65537, 131069, 131070, 131071, 196605, 1_000_000]


def encoded(chunks: Iterable[bytes]) -> bytes:
    return b"".join(stored_gzip(chunks))


def content(size: int) -> bytes:
    return Random(size).randbytes(size)


def cut(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


def test_golden_bytes_of_nothing() -> None:
    header = "1f8b 08 00 00000000 00 ff"
    last_block = "01 0000 ffff"
    assert encoded([]) == bytes.fromhex(f"{header} {last_block} 00000000 00000000")
    assert encoded([b"", b""]) == encoded([])


def test_golden_bytes_of_a_word() -> None:
    header = "1f8b 08 00 00000000 00 ff"
    last_block = "01 0500 faff 68656c6c6f"
    assert encoded([b"hello"]) == bytes.fromhex(f"{header} {last_block} 86a61036 05000000")


def test_golden_bytes_of_a_block_and_one_byte() -> None:
    data = bytes(65535) + b"x"
    made = encoded([data])
    assert made[:15] == bytes.fromhex("1f8b 08 00 00000000 00 ff  00 ffff 0000")
    assert made[15 + 65535 :] == bytes.fromhex("01 0100 feff 78  e5774989 00000100")


GOLDEN = {
    0: "30e6fa98fb48c2b1",
    1: "df9738a94a637f24",
    2: "5f06411914d04a5e",
    65534: "1cfe4b898b648004",
    65535: "4eac0069fdc01150",
    65536: "b4aee0adcfef68bb",
    65537: "c9bae31c909e270d",
    131069: "ca28739e10942188",
    131070: "38b5eada9f100244",
    131071: "4f8048023b1672dc",
    196605: "b43b5899ce0a11e0",
    1000000: "cce11cbc943b3239",
}


@pytest.mark.parametrize("size", SIZES)
def test_golden_digests(size: int) -> None:
    assert hashlib.sha256(encoded([content(size)])).hexdigest()[:16] == GOLDEN[size]


@pytest.mark.parametrize("size", SIZES)
def test_python_takes_it_back(size: int) -> None:
    data = content(size)
    assert gzip.decompress(encoded([data])) == data
    inflater = zlib.decompressobj(wbits=31)
    assert inflater.decompress(encoded([data])) == data
    assert inflater.eof
    assert inflater.unused_data == b""


@needs("gunzip")
@pytest.mark.parametrize("size", SIZES)
def test_gunzip_takes_it_back(size: int) -> None:
    data = content(size)
    done = subprocess.run(["gunzip", "-c"], input=encoded([data]), capture_output=True, check=True)
    assert done.stdout == data
    assert done.stderr == b""
    subprocess.run(["gzip", "-t"], input=encoded([data]), check=True)


@pytest.mark.parametrize("size", SIZES)
def test_size_is_known_beforehand(size: int) -> None:
    # 10 for the header, 8 for the trailer, 5 a block, of which an empty content has one
    blocks = max(1, -(-size // BLOCK))
    assert len(encoded([content(size)])) == 10 + 5 * blocks + size + 8


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("piece", [1000, 65534, 65535, 65536, 131070, 400_000])
def test_chunks_of_one_size_make_no_difference(size: int, piece: int) -> None:
    data = content(size)
    assert encoded(cut(data, [piece] * (size // piece))) == encoded([data])


EDGES = st.sampled_from([0, 1, 2, 100, 65534, 65535, 65536, 131070])


@properties(150)
@given(st.lists(EDGES | st.integers(0, 70_000), max_size=8), EDGES | st.integers(0, 200_000))
def test_no_way_of_cutting_makes_a_difference(sizes: list[int], size: int) -> None:
    data = content(size)
    assert encoded(cut(data, sizes)) == encoded([data])


def test_single_bytes_make_no_difference() -> None:
    data = content(65537)
    assert encoded(data[at : at + 1] for at in range(len(data))) == encoded([data])


def test_views_of_a_buffer_are_taken_too() -> None:
    data = content(200_000)
    encoder = StoredGzip()
    made = bytearray()
    for piece in encoder.encode(memoryview(data)[:150_000]):
        made += piece
    for piece in encoder.encode(memoryview(data)[150_000:]):
        made += piece
    for piece in encoder.finish():
        made += piece
    assert made == encoded([data])


def test_a_buffer_may_be_used_again_once_its_pieces_are_taken() -> None:
    buffer = bytearray(b"a" * 70_000)
    encoder = StoredGzip()
    made = b"".join(encoder.encode(memoryview(buffer)))
    buffer[:] = b"b" * 70_000
    made += b"".join(encoder.finish())
    assert gzip.decompress(made) == b"a" * 70_000
