"""Bytes checked against the descriptor that names them, while they pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from ..errors import IntegrityError
from .manifest import DOCUMENT_LIMIT, Descriptor

__all__ = ["verified", "whole"]


def verified(chunks: Iterable[bytes], descriptor: Descriptor, where: str) -> Iterator[bytes]:
    """Yield `chunks`; their end is reached only if they are the descriptor's bytes.

    Raises:
        IntegrityError: other bytes, fewer or more. `where` says whence they came.
    """
    content, size = hashlib.new(descriptor.digest.algorithm), 0
    for chunk in chunks:
        size += len(chunk)
        if size > descriptor.size:
            raise _other(descriptor, where, f"more than {descriptor.size} bytes")
        content.update(chunk)
        yield chunk
    if size != descriptor.size:
        raise _other(descriptor, where, f"{size} bytes")
    if content.hexdigest() != descriptor.digest.hex:
        raise _other(descriptor, where, f"{descriptor.digest.algorithm}:{content.hexdigest()}")


def whole(chunks: Iterable[bytes], descriptor: Descriptor, where: str) -> bytes:
    """Return a manifest, index or config in one piece.

    Raises:
        IntegrityError: other bytes, fewer or more, or more than such a document may have.
    """
    if descriptor.size > DOCUMENT_LIMIT:
        raise _other(descriptor, where, f"a document of more than {DOCUMENT_LIMIT} bytes")
    return b"".join(verified(chunks, descriptor, where))


def _other(descriptor: Descriptor, where: str, found: str) -> IntegrityError:
    return IntegrityError.of(
        "the bytes received are not those asked for",
        where=where,
        expected=f"{descriptor.digest}, {descriptor.size} bytes",
        found=found,
        fix="copy or fetch the image anew",
    )
