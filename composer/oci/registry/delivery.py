"""Many blobs at once to one destination: mounted, found there, or sent, side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from ..manifest import Descriptor
from ..ports import Destination
from ..reference import Reference

__all__ = ["Delivered", "Parcel", "deliver", "overlap"]

_WORKERS = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


class Delivered(Enum):
    """How a blob came to be at its destination."""

    MOUNTED = "mounted"
    HELD = "held"
    SENT = "sent"
    REFUSED = "refused"  # not mounted, not there, and not ours to send


@dataclass(frozen=True, slots=True)
class Parcel:
    """A blob to deliver: where it may be mounted from, and its content if it may be sent."""

    blob: Descriptor
    content: Callable[[], Iterable[bytes]] | None = None
    mount_from: Reference | None = None


def deliver(destination: Destination, parcels: Sequence[Parcel]) -> list[Delivered]:
    """Bring every parcel to the destination; the results are in the parcels' order.

    A blob that is to be mounted is not looked for first: a mount of what is there succeeds.

    Raises:
        ComposeError: the first parcel's, in their order, that failed.
    """
    return overlap(lambda parcel: _deliver(destination, parcel), parcels)


def _deliver(destination: Destination, parcel: Parcel) -> Delivered:
    source = parcel.mount_from
    if source is not None and destination.mount(parcel.blob, source):
        return Delivered.MOUNTED
    if destination.has(parcel.blob):
        return Delivered.HELD
    if parcel.content is None:
        return Delivered.REFUSED
    destination.upload(parcel.blob, parcel.content)
    return Delivered.SENT


def overlap(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int = _WORKERS
) -> list[Result]:
    """Call `function` with every item, several at a time; results in the items' order.

    Its threads have the context variables of the caller.

    After a failure no further item is begun.

    Raises:
        BaseException: what the first of the failed items, in their order, raised.
    """
    if len(items) <= 1 or workers <= 1:
        return [function(item) for item in items]
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}
    waiting = iter(range(len(items)))  # `next` on it is atomic

    def work() -> None:
        for number in waiting:
            if errors:
                return
            try:
                results[number] = function(items[number])
            except BaseException as error:  # raised again by the caller's thread
                errors[number] = error

    threads = [
        threading.Thread(target=copy_context().run, args=(work,), daemon=True)
        for _ in range(min(workers, len(items)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(items))]
