"""Which Docker daemon is meant: what the docker command would talk to.

In order: an address given, DOCKER_HOST, the context named by DOCKER_CONTEXT or chosen with
`docker context use`, and the socket of this machine.
Source: docker/cli, cli/command/cli.go (resolveContextName) and cli/context/store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError

__all__ = ["DEFAULT_HOST", "Endpoint", "endpoint"]

DEFAULT_HOST = "unix:///var/run/docker.sock"
_TLS_FILES = ("ca.pem", "cert.pem", "key.pem")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A daemon's address. `tls`: the directory of its ca.pem, cert.pem and key.pem, if any."""

    host: str
    said_by: str
    tls: Path | None = None
    verify: bool = True

    @property
    def is_local(self) -> bool:
        """A socket of this machine."""
        return self.host.startswith("unix://")


def endpoint(environ: Mapping[str, str], home: Path, host: str = "") -> Endpoint:
    """Return where the daemon is.

    Raises:
        InputError: the context that is named does not exist, or has no address.
    """
    if host:
        return _by_environment(environ, home, host, "the address given")
    if environ.get("DOCKER_HOST"):
        return _by_environment(environ, home, environ["DOCKER_HOST"], "DOCKER_HOST")
    directory = Path(environ.get("DOCKER_CONFIG") or home / ".docker")
    name, said_by = environ.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT"
    if not name:
        path = directory / "config.json"
        name, said_by = str(_json(path).get("currentContext") or ""), str(path)
    if name in ("", "default"):
        return _by_environment(environ, home, DEFAULT_HOST, "the default")
    return _of_context(directory / "contexts", name, said_by)


def _by_environment(environ: Mapping[str, str], home: Path, host: str, said_by: str) -> Endpoint:
    if host.startswith(("unix://", "ssh://")):
        return Endpoint(host, said_by)
    certificates = environ.get("DOCKER_CERT_PATH")
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    if not verify and not certificates:
        return Endpoint(host, said_by)
    return Endpoint(host, said_by, Path(certificates or home / ".docker"), verify)


def _of_context(contexts: Path, name: str, said_by: str) -> Endpoint:
    # A context's directory is the digest of its name, which may hold any character.
    key = hashlib.sha256(name.encode()).hexdigest()
    path = contexts / "meta" / key / "meta.json"
    endpoints = _json(path).get("Endpoints")
    docker = endpoints.get("docker") if isinstance(endpoints, dict) else None
    if not isinstance(docker, dict) or not docker.get("Host"):
        raise InputError.of(
            f"there is no Docker context {name!r} with an address",
            where=str(path),
            expected=f"the context that {said_by} names",
            fix="docker context ls; docker context use default",
        )
    tls = contexts / "tls" / key / "docker"
    has_tls = any((tls / one).exists() for one in _TLS_FILES)
    verify = not docker.get("SkipTLSVerify")
    return Endpoint(str(docker["Host"]), f"the context {name!r}", tls if has_tls else None, verify)


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError.of(
            "docker's configuration cannot be read", where=str(path), found=str(error)
        ) from error
    return document if isinstance(document, dict) else {}
