"""A proxy in front of a registry that counts what goes through it, and can go down."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Exchange", "Tap"]

_CHUNK = 64 * 1024
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer; sizes of the bodies in bytes."""

    method: str
    path: str
    status: int
    sent: int
    received: int


@dataclass(slots=True)
class Tap:
    """Passes requests on to `behind`. cut: the registry goes down once an answer gets so long."""

    behind: str
    netloc: str = ""
    exchanges: list[Exchange] = field(default_factory=list)
    cut: int | None = None
    _server: ThreadingHTTPServer | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[Tap]:
        """Listen on a free port of this machine."""
        self._start(0)
        try:
            yield self
        finally:
            self._stop()

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Refuse connections for a while."""
        self._stop()
        try:
            yield
        finally:
            self._start(int(self.netloc.rpartition(":")[2]))

    @contextlib.contextmanager
    def going_down(self, after: int) -> Iterator[None]:
        """Go down in the middle of the first answer that has more than `after` bytes."""
        self.cut = after
        try:
            yield
        finally:
            assert self._server is None, "no answer was that long"
            self._start(int(self.netloc.rpartition(":")[2]))

    def _start(self, port: int) -> None:
        self.cut = None
        server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
        server.daemon_threads = True
        server.block_on_close = False
        server.tap = self  # type: ignore[attr-defined]
        self.netloc = f"127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self._server = server

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def passes(self, received: int) -> bool:
        """Tell whether an answer may go on; where not, nothing does any more."""
        if self._server is not None and self.cut is not None and received > self.cut:
            self._stop()
        return self._server is not None

    def clear(self) -> None:
        """Forget what went through."""
        self.exchanges.clear()

    def blobs(self) -> list[str]:
        """Return the digests of the blobs that were read, in their order."""
        return [
            one.path.rpartition("/")[2]
            for one in self.exchanges
            if one.method == "GET" and "/blobs/sha256:" in one.path and one.status < 300
        ]

    @property
    def received(self) -> int:
        """Bytes of all answers."""
        return sum(one.received for one in self.exchanges)

    @property
    def sent(self) -> int:
        """Bytes of all requests."""
        return sum(one.sent for one in self.exchanges)

    def methods(self, *methods: str) -> list[Exchange]:
        """Return the requests of these methods."""
        return [one for one in self.exchanges if one.method in methods]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass(self) -> None:
        tap: Tap = self.server.tap  # type: ignore[attr-defined]
        if not tap.passes(0):
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        behind = http.client.HTTPConnection(tap.behind, timeout=60)
        try:
            # The Host stays: a registry builds its Locations of it.
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # some come several times
                behind.putheader(name, value)
            behind.endheaders(body or None)
            answer = behind.getresponse()
            received = self._answer(tap, answer)
        finally:
            behind.close()
        tap.exchanges.append(Exchange(self.command, self.path, answer.status, len(body), received))

    def _answer(self, tap: Tap, answer: http.client.HTTPResponse) -> int:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        length = answer.headers.get("Content-Length")
        data = b"" if length is not None else answer.read()
        self.send_header("Content-Length", length if length is not None else str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return 0
        received = len(data)
        self.wfile.write(data)
        while chunk := answer.read(_CHUNK):
            received += len(chunk)
            if not tap.passes(received):
                self.close_connection = True
                break
            self.wfile.write(chunk)
        return received

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _pass  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""
