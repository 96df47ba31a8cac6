"""`lock/pushes.toml`: where each digest has been pushed, so that a pin knows where to point.

Kept apart from releases, which never change, and by digest, so that it says the same of an image
whatever it is called. A push adds to it; nothing is ever asked of a registry here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .errors import InputError, IntegrityError
from .lock import DigestText, Record
from .oci.digest import Digest
from .oci.layout import atomic_write, exclusive
from .oci.reference import Reference
from .places import PUSHES
from .tomlfile import parse, read_bytes, validate

__all__ = ["Pushes", "dump_pushes", "load_pushes", "read", "record", "references"]

_HEADER = "# Made by compose push: where each digest is. `compose releases` shows it.\n"


def _reference(text: str) -> str:
    reference = Reference.parse(text)
    if reference.digest is not None:
        raise ValueError("the digest is the key already")
    return str(reference)


ReferenceText = Annotated[str, AfterValidator(_reference)]


class Pushes(Record):
    """References by digest, of an index or single manifest, each sorted.

    A reference without a tag says that the repository has the digest, and no tag of it any more.
    """

    schema_: Literal[1] = Field(alias="schema", default=1)
    pushes: Mapping[DigestText, tuple[ReferenceText, ...]] = {}

    def of(self, digest: str) -> tuple[Reference, ...]:
        """Return where a digest has been pushed, without the digest."""
        return tuple(map(Reference.parse, self.pushes.get(digest, ())))

    def adding(self, digest: str, reference: Reference) -> Pushes:
        """Return the record after a push; a tag names one digest only."""
        tagged, bare = str(reference.with_digest(None)), reference.repository
        pushes = {one: set(names) for one, names in self.pushes.items()}
        for one, names in pushes.items():
            if one != digest and tagged in names:
                names.remove(tagged)
                if not _has_tag(names, bare):
                    names.add(bare)
        own = pushes.setdefault(digest, set())
        if tagged != bare:
            own.discard(bare)
        if tagged != bare or not _has_tag(own, bare):
            own.add(tagged)
        return Pushes(
            schema=1, pushes={one: tuple(sorted(names)) for one, names in sorted(pushes.items())}
        )


def _has_tag(names: Iterable[str], repository: str) -> bool:
    return any(name.startswith(f"{repository}:") for name in names)


def load_pushes(raw: bytes, shown: str) -> Pushes:
    """Read the record.

    Raises:
        IntegrityError: it was damaged, or written by hand.
    """
    try:
        return validate(parse(raw, shown), Pushes)
    except InputError as error:
        raise IntegrityError(*error.faults) from error


def dump_pushes(pushes: Pushes) -> bytes:
    """Serialise the record: the same one gives the same bytes."""
    import tomli_w  # noqa: PLC0415 - those who read it need none

    document = {"schema": 1, "pushes": {one: list(names) for one, names in pushes.pushes.items()}}
    return (_HEADER + tomli_w.dumps(document)).encode()


def read(root: Path) -> Pushes:
    """Return the record of a project; empty where nothing has been pushed.

    Raises:
        InputError: it cannot be read. IntegrityError: it was damaged, or written by hand.
    """
    raw = read_bytes(root, PUSHES)
    return load_pushes(raw, PUSHES) if raw is not None else Pushes(schema=1)


def references(root: Path, digest: str) -> tuple[Reference, ...]:
    """Return where a digest has been pushed, sorted, without the digest.

    Raises:
        InputError, IntegrityError: see `read`.
    """
    return read(root).of(digest)


def record(root: Path, digest: Digest, reference: Reference) -> None:
    """Note that `reference`, a tag or a repository, has been given the digest.

    Raises:
        InputError, IntegrityError: see `read`. UnreachableError: it cannot be written.
    """
    path = root / PUSHES
    with exclusive(path.parent):
        before = read(root)
        after = before.adding(str(digest), reference)
        if after != before:
            atomic_write(path, dump_pushes(after))
