"""A registry: who we are there, and what it can do that `compose` makes use of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..errors import ComposeError, InputError
from ..oci.digest import sha256
from ..oci.reference import Reference
from ..oci.registry import Registries
from ..oci.registry.probe import Probe
from ..oci.registry.tokens import DeniedError
from ..oci.registry.transport import Answer
from .finding import Finding, Level
from .trial import Trial

__all__ = ["registry"]

_VERSION = "Docker-Distribution-API-Version"


def registry(registries: Registries, text: str, *, write: bool) -> Iterator[Finding]:
    """Look at the registry that `text`, HOST or HOST/REPOSITORY, names.

    write: also try what it takes; tiny blobs and manifests without a tag are left there.

    Raises:
        InputError: `text` names no registry, or no repository although `write` needs one.
    """
    domain, path = _parse(text)
    if write and not path:
        raise InputError.of(
            "only a repository can be written to", where=text, fix=f"name one: {text}/NAME"
        )
    probe = registries.probe(domain, path, "pull,push" if write else "pull")
    doctor = _Doctor(f"registry {domain}", domain, path, probe)
    yield from doctor.findings()
    if write and doctor.open:
        trial = Trial(doctor.about, Reference(domain, path), registries, probe)
        yield from trial.findings()


def _parse(text: str) -> tuple[str, str]:
    name = text.rstrip("/")
    host, slash, _ = name.partition("/")
    try:
        reference = Reference.parse(name if slash else f"{host}/any")
    except ValueError as error:
        raise InputError.of(str(error), where="REGISTRY", fix=_SPELLING) from error
    if host not in (reference.domain, "index.docker.io"):
        raise InputError.of(
            f"{host!r} is not a registry host",
            where="REGISTRY",
            expected="a name with a dot or a port, or localhost",
            fix=_SPELLING,
        )
    return reference.domain, reference.path if slash else ""


_SPELLING = "write HOST[:PORT] or HOST[:PORT]/REPOSITORY"


@dataclass(slots=True)
class _Doctor:
    """Looks without writing. `open`: there is a registry, and it lets us in."""

    about: str
    domain: str
    path: str
    probe: Probe
    open: bool = False

    def findings(self) -> Iterator[Finding]:
        try:
            answer = self.probe.knock()
        except ComposeError as error:
            yield Finding.of(self.about, "reachable", Level.FAIL, error)
            return
        yield self._reachable(answer)
        if not self.open:
            return
        yield self._auth(open_to_all=answer.status == 200)
        if self.path:
            # Asked even if there was no way in: some open single repositories only.
            yield self._asked("repository", self.probe.tags, self._repository)
        if self.path and self.open:
            subject = sha256(b"")  # nobody's; the API answers with an empty list
            yield self._asked("referrers", lambda: self.probe.referrers(subject), self._referrers)

    def _reachable(self, answer: Answer) -> Finding:
        self.open = answer.status in (200, 401)
        if not self.open:
            found = f"{self.probe.origin}/v2/ says {answer.complaint}"
            fix = "check the host: a registry answers there with 200 or 401"
            return Finding(self.about, "reachable", Level.FAIL, found, fix)
        version = answer.headers.get(_VERSION, "")
        found = f"{self.probe.origin}, API {version or 'without a version'}"
        return Finding(self.about, "reachable", Level.OK, found)

    def _auth(self, *, open_to_all: bool) -> Finding:
        """Say whose credentials count. Never what they are."""
        try:
            who = self.probe.who()
        except ComposeError as error:
            return Finding.of(self.about, "auth", Level.FAIL, error)
        login = f"docker login {self.domain}"
        if open_to_all:
            return Finding(self.about, "auth", Level.OK, f"not asked for here; {who.source}")
        try:
            answer = self.probe.enter()
        except ComposeError as error:
            level = Level.FAIL if who or not isinstance(error, DeniedError) else Level.WARN
            return Finding.of(self.about, "auth", level, error)
        if answer.status != 200:
            level = Level.FAIL if who else Level.WARN
            found = f"refused, with {who.source}: {answer.complaint}"
            return Finding(self.about, "auth", level, found, f"log in: {login}")
        if not who:
            fix = f"to push, log in: {login}"
            return Finding(self.about, "auth", Level.WARN, f"anonymous: {who.source}", fix)
        return Finding(self.about, "auth", Level.OK, f"accepted: {who.source}")

    def _asked(
        self, name: str, ask: Callable[[], Answer], judge: Callable[[Answer], Finding]
    ) -> Finding:
        try:
            return judge(ask())
        except DeniedError:
            return self._closed()
        except ComposeError as error:
            return Finding.of(self.about, name, Level.WARN, error)

    def _closed(self) -> Finding:
        self.open = False
        found = f"{self.domain}/{self.path} cannot be read; nothing more was tried"
        fix = f"log in: docker login {self.domain}"
        return Finding(self.about, "repository", Level.WARN, found, fix)

    def _repository(self, answer: Answer) -> Finding:
        name = f"{self.domain}/{self.path}"
        if answer.status == 200:
            return Finding(self.about, "repository", Level.OK, f"{name} can be read")
        if answer.status == 404:
            fix = "the first push makes it, or the registry's administrator has to"
            return Finding(self.about, "repository", Level.WARN, f"{name} is not there yet", fix)
        if answer.status in (401, 403):
            return self._closed()
        return Finding(self.about, "repository", Level.WARN, f"{name}: {answer.complaint}")

    def _referrers(self, answer: Answer) -> Finding:
        if answer.status == 200 and _is_index(answer.body):
            return Finding(self.about, "referrers", Level.OK, "the API answers")
        found = f"no API (HTTP {answer.status}); no verb depends on it"
        return Finding(self.about, "referrers", Level.WARN, found)


def _is_index(body: bytes) -> bool:
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and isinstance(document.get("manifests"), list)
