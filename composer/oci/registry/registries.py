"""What all repositories of one run share: settings, connections, tokens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..reference import Reference
from .backoff import Clock, Patience, Policy
from .credentials import Credentials, auth_files, find_credentials
from .location import Endpoint
from .probe import Probe
from .remote import Remote
from .repository import Repository
from .session import Session, ask_plainly
from .tokens import Authority
from .transport import Answer, Request, Transport
from .upload import Uploads

__all__ = ["Registries", "Settings"]

_CERTS = (Path("/etc/docker/certs.d"), Path("/etc/containers/certs.d"))


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person sets: files of credentials, hosts without TLS, proxies, certificates.

    plain: `host[:port]` spoken to by plain HTTP. environ: for proxies and certificates.
    chunked, chunk: bytes; see `Uploads`.
    """

    files: tuple[Path, ...] = ()
    plain: frozenset[str] = frozenset()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    certs: tuple[Path, ...] = _CERTS
    chunked: int = 64 * 1024 * 1024
    chunk: int = 16 * 1024 * 1024

    @classmethod
    def of(cls, environ: Mapping[str, str], home: Path) -> Settings:
        """Read the environment; COMPOSE_INSECURE_REGISTRIES is a list with commas."""
        listed = environ.get("COMPOSE_INSECURE_REGISTRIES", "").split(",")
        plain = frozenset(name for one in listed if (name := one.strip()))
        return cls(auth_files(environ, home), plain, dict(environ))


@dataclass(slots=True)
class Registries:
    """The registries of one run. Threads may share it."""

    settings: Settings
    clock: Clock = field(default_factory=Clock)
    policy: Policy = field(default_factory=Policy)
    _transport: Transport = field(init=False, repr=False)
    _sessions: dict[str, Session] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._transport = Transport(self.settings.environ, self.settings.certs)
        self._sessions = {}

    @classmethod
    def from_environment(cls) -> Registries:
        """Return what the process's environment describes."""
        return cls(Settings.of(os.environ, Path.home()))

    def source(self, reference: Reference) -> Repository:
        """Return the repository, to read from; nothing is asked yet."""
        return self._repository(reference, "pull")

    def destination(self, reference: Reference) -> Repository:
        """Return the repository, to write to (and read from); nothing is asked yet."""
        return self._repository(reference, "pull,push")

    def probe(self, domain: str, path: str, actions: str) -> Probe:
        """Return questions to a registry and, where `path` is given, to a repository there."""
        return Probe(Remote(self._session(domain), domain, path, actions))

    def _repository(self, reference: Reference, actions: str) -> Repository:
        session = self._session(reference.domain)
        remote = Remote(session, reference.domain, reference.path, actions)
        uploads = Uploads(remote, self.settings.chunked, self.settings.chunk)
        return Repository(reference, remote, uploads)

    def _session(self, domain: str) -> Session:
        if domain not in self._sessions:
            made = self._connect(domain)
            self._sessions.setdefault(domain, made)  # of two threads, one wins
        return self._sessions[domain]

    def _connect(self, domain: str) -> Session:
        tls = any((directory / domain).is_dir() for directory in self.settings.certs)
        endpoint = Endpoint.of(domain, self.settings.plain, tls=tls)

        def ask(request: Request) -> Answer:
            return ask_plainly(self._transport, request, Patience(self.policy, self.clock))

        def credentials(path: str) -> Credentials:
            return find_credentials(domain, path, self.settings.files)

        authority = Authority(endpoint, self.clock, ask, credentials)
        return Session(endpoint, self._transport, authority, self.clock, self.policy)
