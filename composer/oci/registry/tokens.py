"""Proving to a registry who we are: Basic, or Bearer tokens for scopes, kept while they last.

Sources: distribution "Token Authentication Specification" (GET) and "OAuth2 Token
Authentication" (POST, for identity tokens).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from ...errors import UnreachableError
from .backoff import Clock
from .challenge import Challenge, parse_challenges, pick
from .credentials import Credentials
from .location import Endpoint, Origin, shown
from .transport import Answer, Request

__all__ = ["Access", "Authority", "DeniedError"]

_LIFETIME = 60.0  # seconds: what the specification says of an answer without `expires_in`
_MARGIN = 5.0  # seconds before its end at which a token is not used any more
_CLIENT = "compose"


class DeniedError(UnreachableError):
    """No permission; a mount falls back on an upload."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a request needs: the repository whose credentials count, and scopes."""

    path: str
    scopes: frozenset[str]

    @classmethod
    def to(cls, path: str, actions: str, *, also_pull: str | None = None) -> Access:
        """Return access to a repository; `actions` such as `pull,push`."""
        scopes = {f"repository:{path}:{actions}"}
        if also_pull is not None and also_pull != path:
            scopes.add(f"repository:{also_pull}:pull")
        return cls(path, frozenset(scopes))


@dataclass(frozen=True, slots=True)
class _Token:
    path: str
    grants: frozenset[tuple[str, str]]  # (resource, action)
    header: str = field(repr=False)
    ends: float  # on the monotonic clock


def _grants(scopes: Iterable[str]) -> frozenset[tuple[str, str]]:
    pairs = (scope.rpartition(":") for scope in scopes)
    return frozenset((name, one) for name, _, actions in pairs for one in actions.split(","))


@dataclass(slots=True)
class Authority:
    """What one registry let us know and gave us; shared by threads.

    ask: sends a request to the token service, with retries. credentials: looks them up by
    repository path; called at most once a path, and not before a registry asks for any.
    """

    endpoint: Endpoint
    clock: Clock
    ask: Callable[[Request], Answer] = field(repr=False)
    credentials: Callable[[str], Credentials] = field(repr=False)
    _challenge: Challenge | None = None
    _tokens: list[_Token] = field(default_factory=list, repr=False)
    _found: dict[str, Credentials] = field(default_factory=dict, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def who(self, path: str) -> Credentials:
        """Return the credentials for a repository, looked up once."""
        with self._lock:
            if path not in self._found:
                self._found[path] = self.credentials(path)
            return self._found[path]

    def header(self, access: Access) -> str | None:
        """Return the `Authorization` to send at once; None while nothing was asked for.

        Raises:
            DeniedError: the token service refuses.
        """
        with self._lock:
            if self._challenge is None:
                return None
            return self._answer(self._challenge, access, frozenset())

    def challenged(
        self, access: Access, headers: Iterable[str], sent: str | None, *, wider: bool
    ) -> str | None:
        """Return the `Authorization` that meets a 401's headers; None: we have none to give.

        sent: what was refused. wider: ask for the scopes of the challenge too.

        Raises:
            DeniedError: the token service refuses.
        """
        with self._lock:
            challenge = pick(parse_challenges(headers))
            if challenge is None:
                return None
            self._challenge = challenge
            # A thread that was refused before us may have got a new token meanwhile.
            self._tokens = [one for one in self._tokens if one.header != sent]
            extra = challenge.scopes if wider else frozenset()
            header = self._answer(challenge, access, extra)
            return header if header != sent else None

    def _answer(self, challenge: Challenge, access: Access, extra: frozenset[str]) -> str | None:
        who = self.who(access.path)
        if challenge.scheme == "basic":
            return who.basic if who.username else None
        if who.registry_token:
            return f"Bearer {who.registry_token}"
        scopes = access.scopes | extra
        return self._held(access.path, scopes) or self._fetch(challenge, access.path, scopes)

    def _held(self, path: str, scopes: frozenset[str]) -> str | None:
        now, wanted = self.clock.monotonic(), _grants(scopes)
        self._tokens = [one for one in self._tokens if one.ends > now]
        fit = (one for one in self._tokens if one.path == path and wanted <= one.grants)
        return next((one.header for one in fit), None)

    def _fetch(self, challenge: Challenge, path: str, scopes: frozenset[str]) -> str:
        realm = challenge.parameters["realm"]
        who = self.who(path)
        self._check_realm(realm)
        before = self.clock.monotonic()
        service = challenge.parameters.get("service", "")
        answer = self.ask(_token_request(realm, service, sorted(scopes), who))
        if answer.status in (400, 401, 403):
            raise self._denied(realm, answer, who)
        value, lifetime = self._read(realm, answer)
        header = f"Bearer {value}"
        ends = before + max(lifetime - _MARGIN, lifetime / 2)
        self._tokens.append(_Token(path, _grants(scopes), header, ends))
        return header

    def _check_realm(self, realm: str) -> None:
        try:
            origin = Origin.of(realm)
        except ValueError:
            origin = None
        if origin is None or (origin.scheme == "http" and not self.endpoint.may_be_plain(origin)):
            raise UnreachableError.of(
                "the registry names a token service that credentials must not be sent to",
                where=self.endpoint.domain,
                expected="an https URL",
                found=shown(realm),
            )

    def _denied(self, realm: str, answer: Answer, who: Credentials) -> DeniedError:
        return DeniedError.of(
            f"{self.endpoint.domain} gives no token",
            where=f"{shown(realm)}, with {who.source}",
            found=str(answer.complaint),
            fix=f"log in: docker login {self.endpoint.domain}",
        )

    def _read(self, realm: str, answer: Answer) -> tuple[str, float]:
        try:
            document = json.loads(answer.body) if answer.status == 200 else None
        except ValueError:
            document = None
        value = _text(document, "token") or _text(document, "access_token")
        if not value or not value.isascii() or not value.isprintable():
            raise UnreachableError.of(
                f"the token service of {self.endpoint.domain} gives no token",
                where=shown(realm),
                expected='JSON such as {"token": "..."}',
                found=str(answer.complaint) if answer.status != 200 else "no token in it",
            )
        stated = document.get("expires_in") if isinstance(document, dict) else None
        return value, float(stated) if isinstance(stated, int | float) and stated > 0 else _LIFETIME


def _text(document: Any, key: str) -> str:
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""


def _token_request(realm: str, service: str, scopes: list[str], who: Credentials) -> Request:
    if who.identity_token:
        form = {
            "grant_type": "refresh_token",
            "service": service,
            "client_id": _CLIENT,
            "scope": " ".join(scopes),
            "refresh_token": who.identity_token,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return Request("POST", realm, headers, urlencode(form).encode())
    query = [("service", service)] if service else []
    query += [("scope", scope) for scope in scopes]
    url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
    return Request("GET", url, {"Authorization": who.basic} if who.username else {})
