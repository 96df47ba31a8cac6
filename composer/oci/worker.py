"""A thread that works through what it is given, in order, beside the thread that gives it.

Hashing, inflating and writing let go of the interpreter's lock, so two threads use two cores.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

__all__ = ["Worker"]

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
