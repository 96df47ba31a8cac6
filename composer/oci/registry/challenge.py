"""What a registry asks for: the `WWW-Authenticate` header as values.

Sources: RFC 9110 section 11.6.1 (grammar), RFC 6750 section 3 (Bearer), distribution's
"Token Authentication Specification".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Challenge", "parse_challenges", "pick"]

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME = re.compile(rf"\s*,?\s*({_WORD})(?=\s|,|\Z)(?!\s*=)")
_PARAMETER = re.compile(rf'\s*,?\s*({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))')


@dataclass(frozen=True, slots=True)
class Challenge:
    """One scheme (lower case) and its parameters (names in lower case)."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that the registry says are needed."""
        return frozenset(self.parameters.get("scope", "").split())


def parse_challenges(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """Read every challenge of the headers; what is malformed is left out."""
    return tuple(challenge for header in headers for challenge in _parse(header))


def _parse(header: str) -> Iterable[Challenge]:
    position = 0
    while match := _SCHEME.match(header, position):
        position = match.end()
        parameters: dict[str, str] = {}
        while found := _PARAMETER.match(header, position):
            quoted = re.sub(r"\\(.)", r"\1", found[2]) if found[2] is not None else found[3]
            parameters[found[1].lower()] = quoted
            position = found.end()
        yield Challenge(match[1].lower(), parameters)


def pick(challenges: Iterable[Challenge]) -> Challenge | None:
    """Return the challenge that we can meet: Bearer with a realm before Basic."""
    known = {challenge.scheme: challenge for challenge in reversed(tuple(challenges))}
    bearer = known.get("bearer")
    if bearer is not None and bearer.parameters.get("realm"):
        return bearer
    return known.get("basic")
