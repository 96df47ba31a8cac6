"""Blobs on their way out: mounted where the registry has them, else sent.

A small blob goes in one PUT. A large one goes in chunks, so that a broken connection or an
expired token costs one chunk: the registry is asked how far it got, and gets the rest.
Sources: distribution-spec "Pushing blobs" (monolithic, chunked), "Mounting a blob from another
repository", "Resuming an upload".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ...errors import ComposeError, InputError, IntegrityError, UnreachableError
from ..digest import Digest
from ..manifest import Descriptor
from .location import resolve
from .remote import Remote
from .session import wait_if_busy
from .tokens import Access, DeniedError
from .transport import Answer, BrokenError, Request

__all__ = ["Content", "Uploads"]

Content = Callable[[], Iterable[bytes]]

_SMALL = 1024 * 1024  # bytes that are held and sent as one
_CHUNK = 16 * 1024 * 1024  # bytes
_STORING = 900.0  # seconds for the registry to check and keep a blob after its last byte
_BUSY = frozenset({429, 502, 503, 504})  # still, after all attempts
_OCTETS = {"Content-Type": "application/octet-stream"}
_RANGE = re.compile(r"(?:bytes=)?0-(\d+)\Z")


class _LostError(UnreachableError):
    """The registry forgot an upload: another begins."""


@dataclass(slots=True)
class Uploads:
    """The uploads to one repository; shared by threads.

    chunked: bytes from which on a blob is sent in chunks of `chunk` bytes.
    """

    remote: Remote
    chunked: int = 64 * 1024 * 1024
    chunk: int = _CHUNK
    # What a refused mount left us: the place of an upload that has begun.
    _begun: dict[Digest, Answer] = field(default_factory=dict, repr=False)

    def has(self, blob: Descriptor) -> bool:
        """Tell whether the repository has a blob.

        Raises:
            UnreachableError: no answer, or no permission.
        """
        answer = self.remote.ask("HEAD", self.remote.url("blobs", str(blob.digest)))
        if answer.status in (401, 403, 429) or answer.status >= 500:
            raise self._refused(answer, blob, "the registry cannot be asked for a blob")
        return answer.status == 200

    def mount(self, blob: Descriptor, path: str) -> bool:
        """Take a blob over from the repository `path` of this registry; False: refused.

        Raises:
            UnreachableError: no answer, or only that the registry is busy.
        """
        both = Access.to(self.remote.path, self.remote.actions, also_pull=path)
        answer = self._ask_mount(blob, path, both)
        if answer is None or answer.status in (401, 403):
            answer = self._ask_mount(blob, path, self.remote.access)
        if answer is None:
            return False
        if answer.status == 202 and "Location" in answer.headers:
            self._begun[blob.digest] = answer
        if answer.status in _BUSY:
            raise self._refused(answer, blob, "the registry cannot take a blob over")
        return answer.status == 201

    def _ask_mount(self, blob: Descriptor, path: str, access: Access) -> Answer | None:
        from urllib.parse import urlencode  # noqa: PLC0415

        query = urlencode({"mount": str(blob.digest), "from": path})
        url = f"{self.remote.url('blobs/uploads')}?{query}"
        try:
            return self.remote.session.ask(Request("POST", url, {}, b""), access)
        except DeniedError:
            return None

    def upload(self, blob: Descriptor, content: Content) -> None:
        """Send a blob; afterwards the repository has it.

        Raises:
            IntegrityError: `content` is not what the descriptor says. InputError: there is no
                such repository. UnreachableError: refused, or no answer.
        """
        patience = self.remote.session.patience()
        while True:
            try:
                answer = self._send(blob, content, self._begin(blob))
            except (BrokenError, _LostError) as error:
                unconnected = isinstance(error, BrokenError) and not error.connected
                if not patience.wait(unconnected=unconnected):
                    raise
            else:
                if answer.status in (200, 201, 204):
                    return
                if not wait_if_busy(answer.status, answer.headers, patience):
                    raise self._refused(answer, blob, "the registry refuses a blob")
            if self.has(blob):  # only the answer was lost
                return

    def _begin(self, blob: Descriptor) -> Answer:
        begun = self._begun.pop(blob.digest, None)
        if begun is not None:
            return begun
        answer = self.remote.ask("POST", self.remote.url("blobs/uploads", ""), {}, b"")
        if answer.status == 404:
            raise InputError.of(
                "the registry has no such repository",
                where=self.remote.name,
                found=str(answer.complaint),
                fix="create it there, or correct `repository` in images.toml",
            )
        if answer.status != 202 or "Location" not in answer.headers:
            raise self._refused(answer, blob, "the registry refuses an upload")
        return answer

    def _send(self, blob: Descriptor, content: Content, begun: Answer) -> Answer:
        if blob.size >= self.chunked:
            place = self._send_chunks(blob, content, begun)
            return self._finish(blob, place, b"")
        place = self._next(begun, begun.url)
        if blob.size <= _SMALL:
            return self._finish(blob, place, b"".join(self._sized(blob, content)))
        return self._finish(blob, place, lambda: self._sized(blob, content))

    def _finish(
        self, blob: Descriptor, place: str, body: bytes | Callable[[], Iterable[bytes]]
    ) -> Answer:
        url = f"{place}{'&' if '?' in place else '?'}digest={blob.digest}"
        size = len(body) if isinstance(body, bytes) else blob.size
        headers = {**_OCTETS, "Content-Length": str(size)}
        answer = self._once(Request("PUT", url, headers, body, _STORING))
        if answer.status == 400 and answer.complaint.says("DIGEST_INVALID", "SIZE_INVALID"):
            raise IntegrityError.of(
                "the registry received other bytes than the blob's digest says",
                where=self.remote.at(blob.digest),
                found=str(answer.complaint),
                fix="the store may be damaged: build the image again",
            )
        return answer

    def _send_chunks(self, blob: Descriptor, content: Content, begun: Answer) -> str:
        """Send all of a blob but its digest; returns the place of the upload."""
        place, start = self._next(begun, begun.url), 0
        least = begun.headers.get("OCI-Chunk-Min-Length", "")
        size = max(self.chunk, int(least) if least.isdigit() else 0)
        for data in _cut(self._sized(blob, content), size):
            place = self._send_chunk(blob, place, start, data)
            start += len(data)
        return place

    def _send_chunk(self, blob: Descriptor, place: str, start: int, data: bytes) -> str:
        patience = self.remote.session.patience()
        end, position = start + len(data), start
        while position < end:
            rest = data[position - start :]
            headers = {**_OCTETS, "Content-Range": f"{position}-{end - 1}"}
            headers["Content-Length"] = str(len(rest))
            try:
                answer = self._once(Request("PATCH", place, headers, rest, _STORING))
            except BrokenError as error:
                if not patience.wait(unconnected=not error.connected):
                    raise
            else:
                if answer.status in (202, 201, 204):
                    return self._next(answer, place)
                busy = wait_if_busy(answer.status, answer.headers, patience)
                if not busy and (answer.status != 416 or not patience.wait(0)):
                    raise self._refused(answer, blob, "the registry refuses a part of a blob")
            place, position = self._how_far(place)
            if not start <= position <= end:
                raise _LostError.of(
                    "the registry lost what was sent of a blob",
                    where=self.remote.at(blob.digest),
                    expected=f"{start} to {end} bytes",
                    found=f"{position} bytes",
                )
        return place

    def _how_far(self, place: str) -> tuple[str, int]:
        """Return where an upload goes on, and how many bytes of it have arrived."""
        answer = self.remote.ask("GET", place)
        match = _RANGE.match(answer.headers.get("Range", ""))
        # `0-0` is one byte to the specification and none to distribution: begin anew.
        if answer.status not in (200, 202, 204) or match is None or match[1] == "0":
            raise _LostError.of(
                "the registry does not know how much of a blob it has",
                where=self.remote.name,
                found=str(answer.complaint),
            )
        return self._next(answer, place), int(match[1]) + 1

    def _next(self, answer: Answer, asked: str) -> str:
        location = answer.headers.get("Location")
        return resolve(self.remote.session.endpoint, asked, location) if location else asked

    def _once(self, request: Request) -> Answer:
        answer = self.remote.session.ask(request, self.remote.access, replay=False)
        if answer.status == 404:
            raise _LostError.of(
                "the registry has forgotten an upload",
                where=self.remote.name,
                found=str(answer.complaint),
            )
        return answer

    def _sized(self, blob: Descriptor, content: Content) -> Iterator[bytes]:
        """Yield the content; one of another size would leave the registry waiting for ever."""
        sent = 0
        for chunk in content():
            sent += len(chunk)
            if sent > blob.size:
                break
            yield chunk
        if sent != blob.size:
            raise IntegrityError.of(
                "a blob that is to be sent has another size than its descriptor says",
                where=self.remote.at(blob.digest),
                expected=f"{blob.size} bytes",
                found=f"{sent} bytes or more" if sent > blob.size else f"{sent} bytes",
                fix="the store may be damaged: build the image again",
            )

    def _refused(self, answer: Answer, blob: Descriptor, what: str) -> ComposeError:
        return self.remote.refused(answer, what, where=self.remote.at(blob.digest))


def _cut(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Cut a stream into pieces of `size` bytes, the last one shorter."""
    held = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
        while len(held) + len(view) >= size:
            take = size - len(held)
            held += view[:take]
            view = view[take:]
            yield bytes(held)
            held.clear()
        held += view
    if held:
        yield bytes(held)
