"""One repository at a registry: its URLs, what access it needs, and what refusals of it mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from ...errors import ComposeError, InputError, UnreachableError
from ..digest import Digest
from ..reference import Reference
from .backoff import retry_after
from .session import SMALL, Session
from .tokens import Access, DeniedError
from .transport import Answer, Request

__all__ = ["Remote"]


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository; `actions` are asked for together, `pull` or `pull,push`."""

    session: Session
    domain: str
    path: str
    actions: str

    @property
    def name(self) -> str:
        """`domain/path`."""
        return f"{self.domain}/{self.path}"

    @property
    def access(self) -> Access:
        """What a request to this repository alone needs."""
        return Access.to(self.path, self.actions)

    def at(self, digest: Digest) -> str:
        """Return how a digest of this repository is written."""
        return f"{self.name}@{digest}"

    def url(self, kind: str, name: str = "") -> str:
        """Return a URL below the repository: `blobs`, `manifests`, `blobs/uploads`, `tags`."""
        return self.session.endpoint.url(f"{self.path}/{kind}/{quote(name, safe=':')}")

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        limit: int = SMALL,
    ) -> Answer:
        """Send a request that may be sent again.

        Raises:
            UnreachableError: no answer came about.
        """
        request = Request(method, url, headers or {}, body)
        return self.session.ask(request, self.access, limit=limit)

    def refused(self, answer: Answer, what: str, *, where: str = "") -> ComposeError:
        """Return the error for an answer that is a refusal of `what`."""
        where = where or self.name
        if answer.status in (401, 403):
            return self._denied(answer, what, where)
        if answer.status == 429:
            return self._too_many(answer, what, where)
        return UnreachableError.of(what, where=where, found=str(answer.complaint))

    def _denied(self, answer: Answer, what: str, where: str) -> ComposeError:
        who = self.session.authority.who(self.path)
        need = "push to it" if "push" in self.actions else "pull from it"
        fix = f"log in: docker login {self.domain}"
        if who:
            fix = f"let these credentials {need}, or {fix}"
        return DeniedError.of(
            f"{what}: no permission",
            where=f"{where}, with {who.source}",
            found=str(answer.complaint),
            fix=f"{fix} (a registry may say the same of a repository that does not exist)",
        )

    def _too_many(self, answer: Answer, what: str, where: str) -> ComposeError:
        wait = retry_after(answer.headers.get("Retry-After"), self.session.clock.wall())
        return UnreachableError.of(
            f"{what}: too many requests",
            where=f"{where}, with {self.session.authority.who(self.path).source}",
            found=str(answer.complaint),
            fix=f"wait {wait:.0f} s" if wait else "wait, or log in for a higher limit",
        )

    def unknown(self, reference: Reference, answer: Answer) -> InputError:
        """Return the error for an image that is not there."""
        return InputError.of(
            f"there is no image {reference}",
            where=self.name,
            found=str(answer.complaint),
            fix="check the name and the tag; the tag may have been moved or deleted",
        )
