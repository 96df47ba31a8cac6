"""Where a registry is spoken to, and where its answers send us.

docker.io is served by registry-1.docker.io. Plain HTTP is for loopback, and for hosts that the
user named; a `Location` may be relative, carry a query, or lie on another host.
Sources: distribution-spec "Pushing blobs"; RFC 9110 section 10.2.2; RFC 6454 (origins).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from ...errors import UnreachableError

__all__ = ["Endpoint", "Origin", "is_loopback", "resolve", "shown"]

_SERVED_BY = {"docker.io": "registry-1.docker.io"}
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host (lower case, without brackets) and port: what credentials belong to."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """Return the origin of an absolute URL.

        Raises:
            ValueError: not an absolute URL of HTTP.
        """
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError("not an http or https URL")
        return cls(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])

    @property
    def netloc(self) -> str:
        """`host[:port]`, as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A registry: the domain of its references, and the origin that answers for it."""

    domain: str
    origin: Origin
    plain: frozenset[str] = frozenset()  # netlocs that may be spoken to without TLS

    @classmethod
    def of(cls, domain: str, plain: Collection[str] = (), tls: bool = False) -> Endpoint:
        """Return the endpoint of a reference's domain.

        plain: `host[:port]` that the user lets us speak plain HTTP to. tls: certificates are
        configured for it, so TLS it is, also on loopback.
        """
        netloc = _SERVED_BY.get(domain, domain)
        secure = Origin.of(f"https://{netloc}")
        local = is_loopback(secure.host) and not netloc.endswith(":443") and not tls
        allowed = local or netloc in plain
        return cls(domain, Origin.of(f"http://{netloc}") if allowed else secure, frozenset(plain))

    def url(self, path: str) -> str:
        """Return the URL of a path of the API, given without `/v2/`."""
        return f"{self.origin}/v2/{path}"

    def may_be_plain(self, origin: Origin) -> bool:
        """Tell whether `origin` may be spoken to without TLS."""
        return is_loopback(origin.host) or origin.netloc in self.plain or origin == self.origin


def is_loopback(host: str) -> bool:
    """Tell whether `host` is this machine by name or number: localhost, 127.0.0.0/8, ::1."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def resolve(endpoint: Endpoint, asked: str, location: str) -> str:
    """Return the absolute URL of a `Location` in the answer to a request for `asked`.

    A registry behind a proxy that ends TLS often writes `http://` and its own name: TLS is kept.

    Raises:
        UnreachableError: the location is no URL, or would give up TLS.
    """
    try:
        url = urljoin(asked, location)
        origin = Origin.of(url)
    except ValueError as error:
        raise _unfit(endpoint, "its Location", str(error)) from error
    if origin.scheme == "https" or endpoint.may_be_plain(origin):
        return url
    if origin.host == endpoint.origin.host and origin.port in (80, endpoint.origin.port):
        parts = urlsplit(url)
        return parts._replace(scheme="https", netloc=endpoint.origin.netloc).geturl()
    raise _unfit(endpoint, shown(url), "plain HTTP, where the request was secure")


def _unfit(endpoint: Endpoint, location: str, why: str) -> UnreachableError:
    return UnreachableError.of(
        "the registry sends us to a place that cannot be used",
        where=endpoint.domain,
        expected="an https URL",
        found=f"{location}: {why}",
    )


def shown(url: str) -> str:
    """Return a URL as it may be shown: without user, password, query and fragment."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=netloc, query="", fragment="").geturl()
