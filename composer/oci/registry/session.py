"""Requests to one registry: authorised, redirected, tried again, and never for ever.

`ask` reads an answer whole, `open` hands over a body that is still to be read. Both return
refusals as they are; what a refusal means depends on what was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...errors import UnreachableError
from .backoff import Clock, Patience, Policy, retry_after
from .location import Endpoint, Origin, resolve, shown
from .tokens import Access, Authority
from .transport import Answer, BrokenError, Request, Transport, read_body

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

__all__ = ["SMALL", "Session", "ask_plainly", "wait_if_busy"]

SMALL = 64 * 1024  # bytes of an answer that is only looked at
_REDIRECTS = 5
_MOVED = frozenset({301, 302, 303, 307, 308})
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_CHALLENGES = 2  # one because no token, or an old one, was sent; one to ask for more scopes


@dataclass(frozen=True, slots=True)
class Session:
    """What requests to one registry share."""

    endpoint: Endpoint
    transport: Transport
    authority: Authority
    clock: Clock = field(default_factory=Clock)
    policy: Policy = field(default_factory=Policy)

    def patience(self) -> Patience:
        """Return new patience, for one operation."""
        return Patience(self.policy, self.clock)

    def ask(
        self, request: Request, access: Access, *, limit: int = SMALL, replay: bool = True
    ) -> Answer:
        """Return the answer, with at most `limit` + 1 bytes of its body.

        replay: False where the request must not be sent twice.

        Raises:
            UnreachableError: no answer came about.
        """
        patience = self.patience() if replay else None
        answer = _persist(lambda: self._authorised(request, access), request.url, patience, limit)
        assert isinstance(answer, Answer)
        return answer

    def open(
        self, request: Request, access: Access, ok: Collection[int]
    ) -> BaseHTTPResponse | Answer:
        """Return a body to be read and closed where the status is in `ok`; else the answer.

        Raises:
            UnreachableError: no answer came about.
        """
        return _persist(
            lambda: self._authorised(request, access), request.url, self.patience(), SMALL, ok
        )

    def _authorised(self, request: Request, access: Access) -> BaseHTTPResponse:
        """Send a request, and answer the challenges that come back."""
        sent = self.authority.header(access)
        challenges = 0
        while True:
            response, ours = self._redirected(request, sent)
            if response.status != 401 or not ours or challenges == _CHALLENGES:
                return response
            sent = self._answer(response, access, sent, wider=challenges > 0)
            if sent is None:
                return response
            read_body(response, request.url, SMALL)
            challenges += 1

    def _answer(
        self, response: BaseHTTPResponse, access: Access, sent: str | None, *, wider: bool
    ) -> str | None:
        headers = response.headers.getlist("WWW-Authenticate")
        try:
            return self.authority.challenged(access, headers, sent, wider=wider)
        except BaseException:
            response.close()
            raise

    def _redirected(
        self, request: Request, authorization: str | None
    ) -> tuple[BaseHTTPResponse, bool]:
        """Send a request where it is sent on to; tells whether the registry itself answered."""
        for _ in range(_REDIRECTS + 1):
            ours = Origin.of(request.url) == self.endpoint.origin
            headers = dict(request.headers)
            if authorization is not None and ours:  # and to no other host
                headers["Authorization"] = authorization
            response = self.transport.send(replace(request, headers=headers))
            if (location := _moved(request, response)) is None:
                return response, ours
            read_body(response, request.url, SMALL)
            request = replace(request, url=resolve(self.endpoint, request.url, location))
        raise UnreachableError.of(
            "the registry sends us round in circles",
            where=shown(request.url),
            expected=f"at most {_REDIRECTS} redirects",
        )


def _moved(request: Request, response: BaseHTTPResponse) -> str | None:
    if response.status in _MOVED and request.method in ("GET", "HEAD"):
        return response.headers.get("Location")
    return None


def wait_if_busy(status: int, headers: Mapping[str, str], patience: Patience) -> bool:
    """Wait where the server asks for another attempt; False where there is to be none."""
    if status not in _AGAIN:
        return False
    return patience.wait(retry_after(headers.get("Retry-After"), patience.clock.wall()))


def ask_plainly(transport: Transport, request: Request, patience: Patience) -> Answer:
    """Send a request that carries its own credentials; tried again like any other.

    Raises:
        UnreachableError: no answer came about.
    """
    try:
        answer = _persist(lambda: transport.send(request), request.url, patience, SMALL)
    except BrokenError as error:
        # Patience with this is used up: whoever needs the answer is not to begin again.
        raise UnreachableError(*error.faults) from error
    assert isinstance(answer, Answer)
    return answer


def _persist(
    exchange: Callable[[], BaseHTTPResponse],
    url: str,
    patience: Patience | None,
    limit: int,
    ok: Collection[int] = (),
) -> BaseHTTPResponse | Answer:
    while True:
        try:
            response = exchange()
            if response.status in ok:
                return response
            answer = read_body(response, url, limit)
        except BrokenError as error:
            if patience is None or not patience.wait(unconnected=not error.connected):
                raise
            continue
        if patience is None or not wait_if_busy(answer.status, answer.headers, patience):
            return answer
