"""A thread beside the caller's: it works through what it is given, or reads ahead for it.

Hashing, inflating and writing let go of the interpreter's lock, so two threads use two cores.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

__all__ = ["Worker", "ahead"]

_HELD = 4  # items waiting at most: enough to even out bursts, few enough to stay small

Item = TypeVar("Item")


class Worker(Generic[Item]):
    """Calls `work` with each item; the thread starts with the first.

    Leaving the `with` block waits until all is done. An exception of `work` ends the work and
    is raised by the next `put`, or by leaving the block.
    """

    def __init__(self, work: Callable[[Item], object]) -> None:
        self._work = work
        self._items: queue.Queue[Item | None] = queue.Queue(_HELD)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stopped = False

    def put(self, item: Item) -> None:
        """Hand over an item; waits while `_HELD` others are waiting."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        if self._error is not None:
            raise self._error
        self._items.put(item)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread is None:
            return
        self._stopped = error is not None
        self._items.put(None)
        self._thread.join()
        if error is None and self._error is not None:
            raise self._error

    def _run(self) -> None:
        # After a failure the items still have to be taken, or `put` would wait for ever.
        while (item := self._items.get()) is not None:
            if self._error is None and not self._stopped:
                try:
                    self._work(item)
                except BaseException as error:
                    self._error = error


@contextlib.contextmanager
def ahead(items: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """Iterate over `items` in a thread that stays a few items ahead of the block's own loop.

    An exception of `items` is raised where the loop would have got the item. When the block
    is left, `items` is at rest: no other thread is in it any more.
    """
    reader = _Reader(iter(items))
    reader.thread.start()
    try:
        yield reader.taken()
    finally:
        reader.stop()


class _Reader(Generic[Item]):
    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        # Each in a list of one; an empty list is the end.
        self._queue: queue.Queue[list[Item]] = queue.Queue(_HELD)
        self._error: BaseException | None = None
        self._stopped = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def taken(self) -> Iterator[Item]:
        while held := self._queue.get():
            yield held[0]
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._stopped = True
        while self.thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._queue.get_nowait()  # it may be waiting for room
            self.thread.join(0.01)

    def _run(self) -> None:
        try:
            for item in self._items:
                if self._stopped:
                    return
                self._queue.put([item])
        except BaseException as error:
            self._error = error
        finally:
            if not self._stopped:
                self._queue.put([])
