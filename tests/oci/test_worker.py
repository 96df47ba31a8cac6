"""The thread that hashes and writes while another reads."""

from __future__ import annotations

import gzip
import hashlib
import threading
import time
from collections.abc import Iterator

import pytest

from composer.oci.encoding import stored_gzip
from composer.oci.filetree import regular
from composer.oci.layer import Member, encode_layer, tar
from composer.oci.worker import Worker

MIB = 1024 * 1024


def large(size: int, chunk: int = 700_000) -> Member:
    """Return a file of `size` bytes that comes in chunks."""
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)

    def chunks() -> Iterator[bytes]:
        for start in range(0, size, chunk):
            yield data[start : start + chunk]

    return Member("large", regular(size, hashlib.sha256(data).hexdigest()), chunks)


def _left() -> list[threading.Thread]:
    """Return the workers that are still there; other tests of the process may have threads."""
    return [one for one in threading.enumerate() if one not in BEFORE]


@pytest.fixture(autouse=True)
def before() -> None:
    """Remember the threads of others."""
    BEFORE[:] = threading.enumerate()


BEFORE: list[threading.Thread] = []


@pytest.mark.parametrize("size", [0, 1, MIB - 1025, MIB - 1024, MIB - 1023, MIB, 5 * MIB + 77])
def test_a_layer_is_the_same_with_and_without_the_thread(size: int) -> None:
    out = bytearray()
    layer = encode_layer([large(size)], out.extend)
    archive = b"".join(tar([large(size)]))
    assert bytes(out) == b"".join(stored_gzip([archive]))
    assert gzip.decompress(out) == archive
    assert layer.diff_id.hex == hashlib.sha256(archive).hexdigest()
    assert layer.digest.hex == hashlib.sha256(out).hexdigest()
    assert layer.size == len(out)


def test_small_layers_start_no_thread() -> None:
    threads = set()
    encode_layer([large(MIB // 2)], lambda piece: threads.add(threading.current_thread()))
    assert threads == {threading.current_thread()}


def test_large_layers_do() -> None:
    threads = set()
    encode_layer([large(5 * MIB)], lambda piece: threads.add(threading.current_thread()))
    assert len(threads) == 2
    assert not _left()


def test_an_error_of_emit_ends_the_layer() -> None:
    calls = 0

    def emit(piece: bytes | memoryview) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        encode_layer([large(50 * MIB)], emit)
    assert calls == 3
    assert not _left()


def test_nothing_is_read_in_vain_after_an_error() -> None:
    read = 0

    def chunks() -> Iterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield bytes(MIB)

    def emit(piece: bytes | memoryview) -> None:
        raise OSError("disk full")

    first = Member("a", regular(MIB, ""), bytes(MIB))
    rest = Member("b", regular(100 * MIB, ""), chunks)
    with pytest.raises(OSError, match="disk full"):
        encode_layer([first, rest], emit)
    assert read < 20


def test_an_error_of_a_member_ends_the_thread() -> None:
    def chunks() -> Iterator[bytes]:
        yield bytes(5 * MIB)
        raise ValueError("damaged")

    pieces: list[int] = []
    member = Member("a", regular(6 * MIB, ""), chunks)
    with pytest.raises(ValueError, match="damaged"):
        encode_layer([member], lambda piece: pieces.append(len(piece)))
    assert not _left()


def test_items_are_worked_through_in_order() -> None:
    done: list[int] = []
    with Worker(done.append) as worker:
        for item in range(1000):
            worker.put(item)
    assert done == list(range(1000))


def test_few_items_wait() -> None:
    working, go = threading.Event(), threading.Event()
    done: list[int] = []

    def work(item: int) -> None:
        working.set()
        go.wait()
        done.append(item)

    handed = 0

    def hand_over(worker: Worker[int]) -> None:
        nonlocal handed
        for item in range(20):
            worker.put(item)
            handed += 1

    with Worker(work) as worker:
        giver = threading.Thread(target=hand_over, args=(worker,))
        giver.start()
        working.wait()
        time.sleep(0.05)
        assert handed <= 6  # one at work, four waiting, one counted late
        go.set()
        giver.join()
    assert done == list(range(20))


def test_the_last_error_is_not_lost() -> None:
    def work(item: int) -> None:
        raise KeyError(item)

    with pytest.raises(KeyError), Worker(work) as worker:
        worker.put(1)
    assert not _left()
