"""Reading ahead in a thread: the same items, the same errors, and nothing left running."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from composer.oci.worker import ahead


def numbers(seen: list[int], stop: int = 10**9) -> Iterator[int]:
    for number in range(stop):
        seen.append(number)
        yield number


def test_all_items_in_order() -> None:
    with ahead(numbers([], 1000)) as items:
        assert list(items) == list(range(1000))


def test_items_may_be_false() -> None:
    falsy: list[object] = [0, None, b"", []]
    with ahead(falsy) as items:
        assert list(items) == falsy


def test_it_stays_a_few_ahead_and_stops() -> None:
    seen: list[int] = []
    before = threading.active_count()
    with ahead(numbers(seen)) as items:
        for number in items:
            assert len(seen) <= number + 8
            if number == 1000:
                break
    assert threading.active_count() == before
    assert len(seen) <= 1010


def test_an_error_comes_in_its_place() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise KeyError("after the first")

    found: list[int] = []
    with ahead(failing()) as items, pytest.raises(KeyError, match="after the first"):
        found.extend(items)
    assert found == [1]


def test_an_error_of_the_block_goes_through() -> None:
    seen: list[int] = []

    def fail() -> None:
        with ahead(numbers(seen)):
            raise RuntimeError("in the block")

    with pytest.raises(RuntimeError, match="in the block"):
        fail()
    count = len(seen)
    assert len(seen) == count < 10
