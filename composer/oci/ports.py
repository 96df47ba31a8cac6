"""The two ports through which images come and go; `registry`, `layout`, `archive` and `daemon`
stand behind them.

Everything that a source gives is checked against digest and size before, or while, it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from .digest import Digest
from .manifest import Descriptor
from .reference import Reference

__all__ = ["Destination", "Source"]


class Source(Protocol):
    """Where an image lies."""

    def top(self) -> Descriptor:
        """Return the manifest or index that the reference names now.

        Raises:
            InputError: there is no such image. UnreachableError: it cannot be asked.
        """

    def document(self, descriptor: Descriptor) -> bytes:
        """Return a manifest, index or config, checked against digest and size.

        Raises:
            IntegrityError: other bytes. UnreachableError: it cannot be had.
        """

    def chunks(self, descriptor: Descriptor) -> Iterator[bytes]:
        """Yield a blob, checked to its end: a consumer that stops early has nothing proven.

        Raises:
            IntegrityError: other bytes, fewer or more. UnreachableError: it cannot be had.
        """


class Destination(Protocol):
    """A repository that takes images."""

    def has(self, descriptor: Descriptor) -> bool:
        """Tell whether the blob is there."""

    def mount(self, descriptor: Descriptor, source: Reference) -> bool:
        """Take a blob over from another repository; False: refused, or not of one registry."""

    def upload(self, descriptor: Descriptor, content: Callable[[], Iterable[bytes]]) -> None:
        """Send a blob; `content` can be asked again when an upload starts anew."""

    def put(self, raw: bytes, media_type: str, tag: str | None = None) -> Digest:
        """Store a manifest or index, by digest or under a tag; equal content is success."""
