"""Which proxy a host is reached through: HTTP_PROXY, HTTPS_PROXY and NO_PROXY.

There is no standard; these are the rules of Go's `httpproxy`, which docker, podman and
Kubernetes share: loopback never goes through a proxy, and NO_PROXY holds hosts, domains with
their subdomains, addresses, networks, each with or without a port, or `*`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from .location import Origin, is_loopback

__all__ = ["proxy_for"]


def proxy_for(origin: Origin, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for `origin`, None for a direct connection."""
    proxy = _either(environ, f"{origin.scheme}_proxy")
    if not proxy or is_loopback(origin.host):
        return None
    excluded = _either(environ, "no_proxy").split(",")
    if any(_matches(origin, one.strip().lower()) for one in excluded):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _either(environ: Mapping[str, str], name: str) -> str:
    # In a CGI program HTTP_PROXY is a request's header (CVE-2016-5385); lower case is safe.
    upper = "" if name == "http_proxy" and "REQUEST_METHOD" in environ else name.upper()
    return environ.get(upper) or environ.get(name) or ""


def _matches(origin: Origin, pattern: str) -> bool:
    if pattern in ("", "*"):
        return pattern == "*"
    if "/" in pattern:
        return _in_network(origin.host, pattern)
    host, colon, port = pattern.rpartition(":")
    if colon and port.isdigit() and (":" not in host or host.startswith("[")):
        if int(port) != origin.port:
            return False
        pattern = host
    pattern = pattern.strip("[]")
    if pattern.startswith("*."):
        pattern = pattern[1:]
    if pattern.startswith("."):
        return origin.host.endswith(pattern)
    return origin.host == pattern or origin.host.endswith(f".{pattern}")


def _in_network(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
