"""What a registry can do, asked question by question. What the answers mean is left to others.

Sources: distribution-spec "Determining Support", "Listing Referrers", "Pulling blobs" (ranges).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..digest import Digest
from .credentials import Credentials
from .remote import Remote
from .session import ask_plainly
from .tokens import Access
from .transport import Answer, Request

__all__ = ["Probe"]


@dataclass(frozen=True, slots=True)
class Probe:
    """Questions to a registry, and to the repository of `remote` there; its path may be empty.

    Every method raises UnreachableError where no answer comes about.
    """

    remote: Remote

    @property
    def origin(self) -> str:
        """What answers for the registry: `https://HOST`."""
        return str(self.remote.session.endpoint.origin)

    def knock(self) -> Answer:
        """Ask for the API's version without credentials."""
        session = self.remote.session
        request = Request("GET", session.endpoint.url(""))
        return ask_plainly(session.transport, request, session.patience())

    def enter(self) -> Answer:
        """Ask the same with credentials where the registry wants some.

        Raises:
            DeniedError: the token service refuses.
        """
        session, path = self.remote.session, self.remote.path
        access = self.remote.access if path else Access("", frozenset())
        return session.ask(Request("GET", session.endpoint.url("")), access)

    def who(self) -> Credentials:
        """Return the credentials that are used here.

        Raises:
            InputError: a file of credentials is broken.
        """
        return self.remote.session.authority.who(self.remote.path)

    def tags(self) -> Answer:
        """Ask for the repository's tags; few of them will do."""
        return self.remote.ask("GET", f"{self.remote.url('tags', 'list')}?n=1")

    def referrers(self, subject: Digest) -> Answer:
        """Ask for what refers to a manifest, which need not exist."""
        return self.remote.ask("GET", self.remote.url("referrers", str(subject)))

    def range(self, blob: Digest, first: int, last: int) -> Answer:
        """Ask for bytes of a blob, the last one included."""
        headers = {"Range": f"bytes={first}-{last}"}
        return self.remote.ask("GET", self.remote.url("blobs", str(blob)), headers)
