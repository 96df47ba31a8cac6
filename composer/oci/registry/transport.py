"""One HTTP exchange: connections, proxies, certificates, time limits. No retry, no credentials.

Connections are kept alive and shared between threads, one pool an origin.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ... import __version__
from ...errors import InputError, UnreachableError
from .complaint import Complaint, redact
from .location import Origin, shown
from .proxies import proxy_for

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool
    from urllib3.exceptions import HTTPError

__all__ = ["AGENT", "Answer", "BrokenError", "Request", "Transport", "raise_network", "read_body"]

AGENT = f"compose/{__version__}"
_CONNECT = 15.0  # seconds
_READ = 60.0  # seconds between two pieces of an answer


class BrokenError(UnreachableError):
    """The network failed in the middle; another attempt may help.

    connected: False where there never was a connection.
    """

    connected = True


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent; a body that is called can be sent again.

    patience: seconds until the answer must begin.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | Callable[[], Iterable[bytes]] | None = field(default=None, repr=False)
    patience: float = _READ


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read whole; `body` up to the limit that was asked for."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    url: str = field(repr=False)

    @property
    def complaint(self) -> Complaint:
        """What the registry says, where it refused."""
        return Complaint.parse(self.status, self.headers, self.body)


@dataclass(slots=True)
class Transport:
    """The pools of one run. `certs`: directories like docker's certs.d."""

    environ: Mapping[str, str] = field(repr=False)
    certs: tuple[Path, ...] = ()
    connections: int = 8  # kept alive per origin
    _pools: dict[Origin, HTTPConnectionPool] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def send(self, request: Request) -> BaseHTTPResponse:
        """Exchange one request for the beginning of its answer; the caller reads or closes it.

        Raises:
            BrokenError: no connection, or one that broke. UnreachableError: TLS was refused.
        """
        from urllib3 import Timeout  # noqa: PLC0415
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        origin = Origin.of(request.url)
        pool = self._pool(origin)
        headers = {"User-Agent": AGENT, **request.headers}
        target = f"/{request.url.partition('://')[2].partition('/')[2]}"
        if pool.proxy is not None and origin.scheme == "http":  # forwarded, not tunnelled
            target, headers = request.url, {**headers, **pool.proxy_headers}
        body = request.body() if callable(request.body) else request.body
        try:
            return pool.urlopen(
                request.method,
                target,
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                assert_same_host=False,  # a forwarding proxy is of another host
                preload_content=False,
                decode_content=False,
                timeout=Timeout(connect=_CONNECT, read=request.patience),
            )
        except (HTTPError, OSError) as error:
            raise_network(error, request.url)

    def _pool(self, origin: Origin) -> HTTPConnectionPool:
        with self._lock:
            if origin not in self._pools:
                self._pools[origin] = self._connect(origin)
            return self._pools[origin]

    def _connect(self, origin: Origin) -> HTTPConnectionPool:
        import urllib3  # noqa: PLC0415 - only where a registry is used

        options: dict[str, Any] = {"maxsize": self.connections, "block": False}
        if origin.scheme == "https":
            from .tls import context  # noqa: PLC0415

            options["ssl_context"] = context(origin, self.environ, self.certs)
        if proxy := proxy_for(origin, self.environ):
            return _proxied(proxy, options, origin)
        kind = (
            urllib3.HTTPSConnectionPool if origin.scheme == "https" else urllib3.HTTPConnectionPool
        )
        return kind(origin.host, origin.port, **options)


def _proxied(proxy: str, options: Mapping[str, Any], origin: Origin) -> HTTPConnectionPool:
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415

    import urllib3  # noqa: PLC0415

    parts = urlsplit(proxy)
    if parts.scheme not in ("http", "https"):
        raise InputError.of(
            "a proxy of this kind is not supported",
            where=f"{origin.scheme.upper()}_PROXY",
            expected="http://HOST:PORT or https://HOST:PORT",
            found=shown(proxy),
        )
    headers = None
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = urllib3.make_headers(proxy_basic_auth=pair)
    manager = urllib3.ProxyManager(shown(proxy), proxy_headers=headers, **options)
    return manager.connection_from_host(origin.host, origin.port, origin.scheme)


def read_body(response: BaseHTTPResponse, url: str, limit: int) -> Answer:
    """Read a body of at most `limit` bytes; of a longer one a byte more, to show that it is.

    Raises:
        BrokenError: the connection broke before the body's end.
    """
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    try:
        body = response.read(limit + 1)
        if len(body) > limit:
            response.close()  # what is left of it is not worth reading
        else:
            response.release_conn()
    except (HTTPError, OSError) as error:
        response.close()
        raise_network(error, url)
    return Answer(response.status, response.headers, body, url)


def raise_network(error: HTTPError | OSError, url: str) -> NoReturn:
    """Raise what an exception of urllib3 means.

    Raises:
        BrokenError: another attempt may help. UnreachableError: none will.
    """
    from urllib3 import exceptions  # noqa: PLC0415

    origin = Origin.of(url)
    if isinstance(error, exceptions.SSLError):
        raise _untrusted(origin, error) from error
    broken = BrokenError.of(
        f"the registry at {origin.netloc} cannot be reached",
        where=shown(url),
        found=_words(error),
        fix="check the network, the name, and HTTPS_PROXY and NO_PROXY; then run it again",
    )
    refused = (exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError)
    broken.connected = not isinstance(error, refused)
    raise broken from error


def _untrusted(origin: Origin, error: Exception) -> UnreachableError:
    if "WRONG_VERSION_NUMBER" in str(error) or "wrong version number" in str(error):
        fix = f"if it speaks plain HTTP: COMPOSE_INSECURE_REGISTRIES={origin.netloc}"
    else:
        fix = f"trust its authority: /etc/docker/certs.d/{origin.netloc}/ca.crt, or SSL_CERT_FILE"
    return UnreachableError.of(
        f"no secure connection to {origin.netloc}", found=_words(error), fix=fix
    )


def _words(error: BaseException) -> str:
    """Return the innermost reason: urllib3 wraps the system's own words."""
    inner = getattr(error, "original_error", None) or error.__cause__ or error.__context__
    if isinstance(inner, OSError) and (inner.strerror or inner.args):
        return redact(inner.strerror or str(inner))
    return redact(str(error)) or type(error).__name__
