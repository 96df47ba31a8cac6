"""Blobs on their way in: checked while they stream, resumed where a connection breaks.

Source: distribution-spec "Pulling blobs" and its note on range requests (RFC 9110 section 14).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...errors import IntegrityError, UnreachableError
from ..manifest import Descriptor
from .remote import Remote
from .transport import Answer, BrokenError, Request, raise_network

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

__all__ = ["blob_chunks", "blob_range", "check", "missing"]

_CHUNK = 256 * 1024
_RESUMES = 100  # of one blob, however far each got
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)\Z")


def blob_chunks(remote: Remote, blob: Descriptor) -> Iterator[bytes]:
    """Yield a blob; its digest and size are proven when the iterator ends.

    Raises:
        IntegrityError: other bytes, fewer or more. UnreachableError: it cannot be had.
    """
    content = hashlib.new(blob.digest.algorithm)
    patience = remote.session.patience()
    position = resumes = 0
    while position < blob.size or not resumes:
        try:
            for chunk in _from(remote, blob, position):
                position += len(chunk)
                if position > blob.size:
                    raise _wrong_size(remote, blob, f"more than {blob.size} bytes")
                content.update(chunk)
                patience.progressed()
                yield chunk
            break
        except BrokenError as error:
            resumes += 1
            if resumes > _RESUMES or not patience.wait(unconnected=not error.connected):
                raise
    _check_end(remote, blob, position, content.hexdigest())


def _from(remote: Remote, blob: Descriptor, position: int) -> Iterator[bytes]:
    """Yield what one answer has of a blob from `position` on."""
    headers = {"Range": f"bytes={position}-{blob.size - 1}"} if position else {}
    response = _open(remote, blob, headers)
    skip = _offset(remote, blob, response, position)
    try:
        for chunk in _pieces(response, remote.url("blobs", str(blob.digest))):
            kept = chunk[skip:]
            skip -= len(chunk) - len(kept)
            if kept:
                yield kept
        response.release_conn()
    finally:
        if not response.closed:
            response.close()


def _open(remote: Remote, blob: Descriptor, headers: dict[str, str]) -> BaseHTTPResponse:
    request = Request("GET", remote.url("blobs", str(blob.digest)), headers)
    response = remote.session.open(request, remote.access, (200, 206))
    if not isinstance(response, Answer):
        return response
    if response.status in (404, 410):
        raise missing(remote, blob, response)
    if response.status == 416:
        raise _wrong_size(remote, blob, "fewer bytes")
    raise remote.refused(response, "a blob cannot be read", where=remote.at(blob.digest))


def missing(remote: Remote, blob: Descriptor, answer: Answer) -> UnreachableError:
    """Return the error for content that a manifest names and the registry lacks."""
    return UnreachableError.of(
        "the registry does not hold a part of the image",
        where=remote.at(blob.digest),
        found=str(answer.complaint),
        fix="it was deleted there, or never pushed: push the image again, or take another",
    )


def _offset(remote: Remote, blob: Descriptor, response: BaseHTTPResponse, position: int) -> int:
    """Return how many bytes of the answer we have already, after checking what it announces."""
    if response.status == 206:
        match = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != position:
            response.close()
            found = response.headers.get("Content-Range", "no Content-Range")
            raise _strange(remote, blob, f"bytes from {position} on", found)
        total = match[3]
    else:
        total = response.headers.get("Content-Length", "*")
    if total.isdigit() and int(total) != blob.size:
        response.close()
        raise _wrong_size(remote, blob, f"{total} bytes")
    return 0 if response.status == 206 else position


def _pieces(response: BaseHTTPResponse, url: str) -> Iterator[bytes]:
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    while True:
        try:
            chunk = response.read(_CHUNK)
        except (HTTPError, OSError) as error:
            raise_network(error, url)
        if not chunk:
            return
        yield chunk


def blob_range(remote: Remote, blob: Descriptor, start: int, length: int) -> bytes:
    """Return `length` bytes of a blob from `start` on. They are proven by nothing.

    A registry that knows no ranges sends the blob from its beginning: what lies before is
    passed over, what lies behind not read.

    Raises:
        IntegrityError: fewer bytes. UnreachableError: they cannot be had.
    """
    patience = remote.session.patience()
    while True:
        try:
            data = _read_range(remote, blob, start, length)
        except BrokenError as error:
            if not patience.wait(unconnected=not error.connected):
                raise
            continue
        if len(data) != length:
            raise _wrong_size(remote, blob, f"{start + len(data)} bytes")
        return data


def _read_range(remote: Remote, blob: Descriptor, start: int, length: int) -> bytes:
    response = _open(remote, blob, {"Range": f"bytes={start}-{start + length - 1}"})
    skip = _offset(remote, blob, response, start)
    data = bytearray()
    try:
        for chunk in _pieces(response, remote.url("blobs", str(blob.digest))):
            kept = chunk[skip:]
            skip -= len(chunk) - len(kept)
            data += kept
            if len(data) >= length:
                break
    finally:
        if response.status == 206 and len(data) == length:
            response.release_conn()
        else:
            response.close()
    return bytes(data[:length])


def check(remote: Remote, blob: Descriptor, data: bytes) -> bytes:
    """Return `data` if it is the content of a descriptor.

    Raises:
        IntegrityError: it is not.
    """
    if len(data) > blob.size:
        raise _wrong_size(remote, blob, f"more than {blob.size} bytes")
    _check_end(remote, blob, len(data), hashlib.new(blob.digest.algorithm, data).hexdigest())
    return data


def _check_end(remote: Remote, blob: Descriptor, size: int, found: str) -> None:
    if size != blob.size:
        raise _wrong_size(remote, blob, f"{size} bytes")
    if found != blob.digest.hex:
        raise IntegrityError.of(
            "the registry sent other bytes than those asked for",
            where=remote.name,
            expected=str(blob.digest),
            found=f"{blob.digest.algorithm}:{found}",
            fix="try again; a proxy or a mirror between here and there may hold a damaged copy",
        )


def _wrong_size(remote: Remote, blob: Descriptor, found: str) -> IntegrityError:
    return IntegrityError.of(
        "the registry's content has another size than its descriptor says",
        where=remote.at(blob.digest),
        expected=f"{blob.size} bytes",
        found=found,
    )


def _strange(remote: Remote, blob: Descriptor, expected: str, found: str) -> UnreachableError:
    return UnreachableError.of(
        "the registry answers another range than the one asked for",
        where=remote.at(blob.digest),
        expected=expected,
        found=found,
    )
