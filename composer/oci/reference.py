"""Image references: `[domain/]path[:tag][@digest]`.

The grammar is that of the distribution project's `reference` package, which docker, podman and
Kubernetes share; a name without a domain belongs to docker.io, and one without a slash to its
`library/`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from .digest import Digest

__all__ = ["Reference", "is_tag"]

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*\Z")
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?\Z")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_IDENTIFIER = re.compile(r"[0-9a-f]{64}\Z")
_DOCKER_HUB = "docker.io"
_NAME_LIMIT = 255


def is_tag(text: str) -> bool:
    """Tell whether `text` may be a tag (distribution-spec, "Pulling manifests")."""
    return _TAG.match(text) is not None


@dataclass(frozen=True, slots=True)
class Reference:
    """A fully qualified reference; `tag` and `digest` may both be absent or present."""

    domain: str
    path: str
    tag: str | None = None
    digest: Digest | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse and normalise a reference as people write it.

        Raises:
            ValueError: `text` is not a reference; the message says which part is wrong.
        """
        name, at, digest = text.partition("@")
        parsed = Digest.parse(digest) if at else None
        name, tag = _split_tag(name)
        domain, path = _split_domain(name)
        if _IDENTIFIER.match(text):
            raise ValueError(f"{text!r}: 64 hex digits are an image ID, not a name")
        _check_name(text, domain, path)
        if tag is not None and not is_tag(tag):
            raise ValueError(f"{text!r}: {tag!r} is not a tag")
        return cls(domain, path, tag, parsed)

    @property
    def repository(self) -> str:
        """`domain/path`, without tag and digest."""
        return f"{self.domain}/{self.path}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag is not None else ""
        digest = f"@{self.digest}" if self.digest is not None else ""
        return f"{self.repository}{tag}{digest}"

    @property
    def familiar(self) -> str:
        """The short spelling that docker shows: `ubuntu:24.04`, not `docker.io/library/…`.

        The full one where the short one would be read as another name.
        """
        if self.domain != _DOCKER_HUB:
            return str(self)
        name = self.path.removeprefix("library/") if self.path.count("/") == 1 else self.path
        if _split_domain(name) != (self.domain, self.path) or _IDENTIFIER.match(name):
            return str(self)
        return name + str(self).removeprefix(self.repository)

    def with_tag(self, tag: str | None) -> Reference:
        """Return the same repository under another tag, without a digest."""
        return replace(self, tag=tag, digest=None)

    def with_digest(self, digest: Digest | None) -> Reference:
        """Return the same repository and tag with `digest`."""
        return replace(self, digest=digest)


def _split_tag(name: str) -> tuple[str, str | None]:
    head, colon, tail = name.rpartition(":")
    if not colon or "/" in tail:  # a colon before the last slash belongs to a port
        return name, None
    return head, tail


def _split_domain(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    is_domain = slash and (
        "." in first or ":" in first or first == "localhost" or first.lower() != first
    )
    if not is_domain:
        domain, path = _DOCKER_HUB, name
    else:
        domain, path = first, rest
    if domain == "index.docker.io":
        domain = _DOCKER_HUB
    if domain == _DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    return domain, path


def _check_name(text: str, domain: str, path: str) -> None:
    if not _DOMAIN.match(domain):
        raise ValueError(f"{text!r}: {domain!r} is not a registry host")
    if not _PATH.match(path):
        raise ValueError(
            f"{text!r}: {path.removeprefix('library/')!r} is not a repository name"
            " (lower-case letters, digits and separators)"
        )
    if len(path) > _NAME_LIMIT:
        raise ValueError(f"{text!r}: the repository name is longer than {_NAME_LIMIT} characters")
