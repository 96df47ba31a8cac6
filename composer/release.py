"""`lock/releases/NAME.toml`: an immutable record of one lock and its result. Pure.

A release holds the lock's very text, so that it can be compared, pinned and rolled back to with
no other file at hand. Its own digest is over a document written by hand, which names the lock by
the sha256 of that text: a later compose that knows more keys still finds the digest of an older
release right. What it says of where it came from is not part of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from .errors import InputError, IntegrityError
from .lock import DigestText, Lock, PlatformText, Record, Size, dump
from .lock import load as load_lock
from .oci.digest import Digest, sha256
from .oci.manifest import canonical_json
from .tomlfile import parse, validate

__all__ = [
    "Provenance",
    "Release",
    "ReleasedPlatform",
    "Result",
    "check_name",
    "dump_release",
    "is_name",
    "load_release",
    "release_of",
    "tips",
]

_HEADER = "# Made by compose; a release never changes. See `compose diff` and `compose releases`.\n"
# The name is also a tag of a repository, and a file's name where capitals may count or not.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?\Z")


class ReleasedPlatform(Record):
    """What one platform became. diff_ids: of all its layers, the base's first."""

    platform: PlatformText
    manifest: DigestText
    manifest_size: Size
    config: DigestText
    diff_ids: tuple[DigestText, ...]


class Result(Record):
    """What was made. `digest`: of the index, or of the only manifest."""

    digest: DigestText
    media_type: str
    platforms: tuple[ReleasedPlatform, ...]


class Provenance(Record):
    """Where a release came from; never compared.

    commit: empty outside of git. dirty: other files than the commit's were used. parents: the
    image's releases that had no later one. retired: modules that were gone on purpose.
    """

    commit: Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?$")] = ""
    dirty: bool = False
    parents: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    note: str = ""


class _Text(Record):
    text: str


class Release(Record):
    """A release. `digest`: its own, over all but `provenance`."""

    schema_: Literal[1] = Field(alias="schema")
    name: str
    image: str
    digest: DigestText
    result: Result
    provenance: Provenance = Provenance()
    lock_: _Text = Field(alias="lock")

    @cached_property
    def lock(self) -> Lock:
        """The lock, read when it is asked for.

        Raises:
            IntegrityError: its text is no lock.
        """
        return load_lock(self.lock_text, f"the lock in release {self.name}")

    @property
    def lock_text(self) -> bytes:
        """The bytes of `lock/IMAGE.lock`."""
        return self.lock_.text.encode()


def is_name(name: str) -> bool:
    """Tell whether a release can have this name; what no file can be called is none."""
    return _NAME.match(name) is not None


def check_name(name: str) -> None:
    """Check that a release can have this name.

    Raises:
        InputError: it cannot.
    """
    if not is_name(name):
        raise InputError.of(
            f"{name!r} is not a name for a release",
            expected="at most 128 lower-case letters and digits, with '-', '_' or '.' inside",
            fix="a name is also the tag that is pushed; choose one such as v14",
        )


def release_of(
    name: str, lock: Lock, diff_ids: Mapping[str, Sequence[Digest]], provenance: Provenance
) -> Release:
    """Return a release. diff_ids: of all layers, by platform."""
    text = dump(lock).decode()
    result = Result(
        digest=lock.digest,
        media_type=lock.media_type,
        platforms=tuple(
            ReleasedPlatform(
                platform=one.platform,
                manifest=one.manifest,
                manifest_size=one.manifest_size,
                config=one.config,
                diff_ids=tuple(str(diff_id) for diff_id in diff_ids[one.platform]),
            )
            for one in lock.platforms
        ),
    )
    return Release(
        schema=1,
        name=name,
        image=lock.image,
        digest=str(_digest(name, lock.image, result, text)),
        result=result,
        provenance=provenance,
        lock=_Text(text=text),
    )


def _digest(name: str, image: str, result: Result, text: str) -> Digest:
    document = {
        "compose-release": 1,
        "name": name,
        "image": image,
        "digest": result.digest,
        "media_type": result.media_type,
        "platforms": [
            [one.platform, one.manifest, one.manifest_size, one.config, list(one.diff_ids)]
            for one in result.platforms
        ],
        "lock": str(sha256(text.encode())),
    }
    return sha256(canonical_json(document))


def dump_release(release: Release) -> bytes:
    """Serialise a release: the same one gives the same bytes. The lock stands there as it is."""
    import tomli_w  # noqa: PLC0415 - those who read releases need none

    document = release.model_dump(by_alias=True, exclude_defaults=True, exclude={"lock_"})
    text = release.lock_.text
    # A literal string has no escapes, and so cannot hold its own end.
    quoted = f"'''\n{text}'''" if "'''" not in text else json.dumps(text, ensure_ascii=False)
    return f"{_HEADER}{tomli_w.dumps(document)}\n[lock]\ntext = {quoted}\n".encode()


def load_release(raw: bytes, shown: str, name: str) -> Release:
    """Read release `name`, checked against its own digest; `shown` is its file in messages.

    Raises:
        IntegrityError: it was damaged, or changed by hand.
    """
    try:
        release = validate(parse(raw, shown), Release)
    except InputError as error:
        raise IntegrityError(*error.faults) from error
    fix = f"a release never changes: `git checkout -- {shown}`"
    if release.name != name:
        raise IntegrityError.of(
            f"the file of release {name} says that it is another",
            where=shown,
            expected=name,
            found=release.name,
            fix=fix,
        )
    found = _digest(name, release.image, release.result, release.lock_.text)
    if str(found) != release.digest:
        raise IntegrityError.of(
            f"release {name} was changed by hand",
            where=shown,
            expected=release.digest,
            found=str(found),
            fix=fix,
        )
    return release


def tips(releases: Iterable[Release], image: str) -> list[Release]:
    """Return an image's releases that no later one names as its parent: the last one, or those.

    Several of them were made on branches that were merged since.
    """
    own = sorted((one for one in releases if one.image == image), key=lambda one: one.name)
    parents = {parent for one in own for parent in one.provenance.parents}
    return [one for one in own if one.name not in parents]
