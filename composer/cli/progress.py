"""Progress on stderr: bars on a terminal, else a line for each large transfer that is done.

Loading what draws bars takes longer than most runs, so that it waits until a transfer has lasted
a while. Nothing here goes to stdout.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from ..progress import using
from ..text import size

if TYPE_CHECKING:
    from rich.progress import TaskID

    from .bars import Screen

__all__ = ["showing"]

_PATIENCE = 0.3  # seconds that a transfer lasts before it gets a bar
_LARGE = 16 * 1024 * 1024  # bytes from which on a transfer gets a line


@contextlib.contextmanager
def showing(*, quiet: bool) -> Iterator[None]:
    """Show the transfers of the block, unless `quiet`."""
    if quiet or sys.stderr is None:
        yield
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        bars = _Bars()
        try:
            with using(bars):
                yield
        finally:
            bars.close()
    else:
        with using(_Lines(sys.stderr)):
            yield


class _Line:
    """A transfer that is told of at its end."""

    def __init__(self, stream: TextIO, label: str) -> None:
        self._stream, self._label = stream, label
        self._begun, self._moved = time.monotonic(), 0

    def advance(self, count: int) -> None:
        self._moved += count

    def finish(self, *, whole: bool) -> None:
        if whole and self._moved >= _LARGE:
            seconds = time.monotonic() - self._begun
            print(f"{self._label}: {size(self._moved)} in {seconds:.1f} s", file=self._stream)


class _Lines:
    """For logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def begin(self, label: str, total: int | None) -> _Line:
        return _Line(self._stream, label)


class _Bar:
    """A transfer that gets a bar once it has lasted `_PATIENCE`."""

    def __init__(self, bars: _Bars, label: str, total: int | None) -> None:
        self._bars, self._label, self._total = bars, label, total
        self._moved = 0
        self._ended = False
        self._drawn: tuple[Screen, TaskID] | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(_PATIENCE, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def _appear(self) -> None:
        screen = self._bars.screen()
        with self._lock:
            if not self._ended:
                self._drawn = screen, screen.show(self._label, self._total, self._moved)

    def advance(self, count: int) -> None:
        with self._lock:
            self._moved += count
            if self._drawn is not None:
                screen, bar = self._drawn
                screen.move(bar, self._moved, self._total)

    def finish(self, *, whole: bool) -> None:
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._drawn is not None:
                screen, bar = self._drawn
                screen.hide(bar)
                self._drawn = None

    def join(self) -> None:
        """End it, and wait for a timer that has run out: it may be loading what draws."""
        self.finish(whole=False)
        self._timer.join()


class _Bars:
    """For people who are watching."""

    def __init__(self) -> None:
        self._screen: Screen | None = None
        self._begun: list[_Bar] = []
        self._lock = threading.Lock()

    def begin(self, label: str, total: int | None) -> _Bar:
        bar = _Bar(self, label, total)
        self._begun.append(bar)
        return bar

    def screen(self) -> Screen:
        """Return what draws, loaded now if it is the first time."""
        with self._lock:
            if self._screen is None:
                from .bars import Screen

                self._screen = Screen(sys.stderr)
            return self._screen

    def close(self) -> None:
        """Leave the terminal as it was. Threads are waited for: an exit would cut them off."""
        for bar in self._begun:
            bar.join()
        if self._screen is not None:
            self._screen.close()
