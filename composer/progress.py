"""How far long transfers are, for whoever wants to show it.

Code that moves many bytes tells `transfer` or `counted`; nobody listens until a front end says so
with `using`. The listener is a context variable and no argument, as a logger would be: it changes
no result, and would else pass through every function between a verb and a socket. Threads that
`overlap` starts see it too. What is shown, and when, is left to `composer.cli`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Progress", "Transfer", "counted", "transfer", "using", "watched"]


class Transfer(Protocol):
    """One transfer that has begun."""

    def advance(self, count: int) -> None:
        """Take note of `count` more bytes."""

    def finish(self, *, whole: bool) -> None:
        """Take note of the end; not `whole`: it failed, or its reader wanted no more."""


class Progress(Protocol):
    """Takes note of transfers; called by several threads."""

    def begin(self, label: str, total: int | None) -> Transfer:
        """Take note of a transfer of `total` bytes, where that is known."""


class _Silent:
    """Takes note of nothing."""

    def begin(self, label: str, total: int | None) -> Transfer:
        return self

    def advance(self, count: int) -> None:
        pass

    def finish(self, *, whole: bool) -> None:
        pass


_listener: ContextVar[Progress] = ContextVar("progress", default=_Silent())  # noqa: B039 - no state


@contextlib.contextmanager
def using(progress: Progress) -> Iterator[None]:
    """Tell `progress` of all transfers that begin in the block."""
    token = _listener.set(progress)
    try:
        yield
    finally:
        _listener.reset(token)


@contextlib.contextmanager
def transfer(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Tell of a transfer for as long as the block runs; gives what to call with bytes moved."""
    with _telling(_listener.get(), label, total) as advance:
        yield advance


@contextlib.contextmanager
def _telling(progress: Progress, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    begun = progress.begin(label, total)
    try:
        yield begun.advance
    except BaseException:
        begun.finish(whole=False)
        raise
    begun.finish(whole=True)


def watched(chunks: Iterable[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    """Yield `chunks`, and tell `advance` how many bytes each had."""
    for chunk in chunks:
        advance(len(chunk))
        yield chunk


def counted(chunks: Iterable[bytes], label: str, total: int | None = None) -> Iterator[bytes]:
    """Yield `chunks` as a transfer of their own, which begins when they are first asked for."""
    # The listener of who calls, not of who reads: that may be another thread.
    return _counted(_listener.get(), chunks, label, total)


def _counted(
    progress: Progress, chunks: Iterable[bytes], label: str, total: int | None
) -> Iterator[bytes]:
    with _telling(progress, label, total) as advance:
        yield from watched(chunks, advance)
