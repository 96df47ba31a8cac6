"""Manifests and indexes: read by tag or digest, written once, read back.

`Docker-Content-Digest` is a hint: the digest of a document is that of its bytes. Where the two
differ, the registry is asked whether it knows the bytes' own digest.
Sources: distribution-spec "Pulling manifests", "Pushing Manifests".
"""

from __future__ import annotations

import hashlib
import json

from ...errors import ComposeError, InputError, IntegrityError, UnreachableError
from ..digest import Digest, sha256
from ..manifest import DOCUMENT_LIMIT, Descriptor
from ..mediatype import FAMILIES, OCI
from ..reference import Reference
from .download import check, missing
from .remote import Remote
from .transport import Answer

__all__ = ["current", "fetch_document", "fetch_top", "put_manifest"]

_TYPES = tuple(one for family in FAMILIES for one in (family.index, family.manifest))
_ACCEPT = {"Accept": ", ".join(_TYPES)}


def fetch_top(remote: Remote, reference: Reference) -> tuple[Descriptor, bytes]:
    """Return the manifest or index that a reference names, with its bytes.

    Raises:
        InputError: there is no such image, or it is none that we know. IntegrityError: its
            bytes are not those of the reference's digest. UnreachableError: no answer.
    """
    name = str(reference.digest or reference.tag or "latest")
    answer = remote.ask("GET", remote.url("manifests", name), _ACCEPT, limit=DOCUMENT_LIMIT)
    if answer.status == 404:
        raise remote.unknown(reference, answer)
    if answer.status != 200:
        raise remote.refused(answer, f"{reference} cannot be read")
    _check_limit(remote, reference, answer)
    raw, stated = answer.body, reference.digest or _hint(answer)
    digest = _of_bytes(raw, stated) if stated else sha256(raw)
    if reference.digest is not None:
        check(remote, Descriptor("", reference.digest, len(raw)), raw)
    elif stated not in (None, digest):
        _settle(remote, digest, str(stated))
    return Descriptor(_media_type(answer, reference), digest, len(raw)), raw


def _check_limit(remote: Remote, reference: Reference, answer: Answer) -> None:
    if len(answer.body) > DOCUMENT_LIMIT:
        raise IntegrityError.of(
            f"the manifest of {reference} is too large",
            where=remote.name,
            expected=f"at most {DOCUMENT_LIMIT} bytes",
        )


def _hint(answer: Answer) -> Digest | None:
    try:
        return Digest.parse(answer.headers.get("Docker-Content-Digest", ""))
    except ValueError:
        return None


def _of_bytes(raw: bytes, like: Digest) -> Digest:
    return Digest(like.algorithm, hashlib.new(like.algorithm, raw).hexdigest())


def _settle(remote: Remote, found: Digest, stated: str) -> None:
    """Accept bytes that the registry contradicts, if it holds them under their own digest."""
    answer = remote.ask("HEAD", remote.url("manifests", str(found)), _ACCEPT)
    if answer.status != 200:
        raise IntegrityError.of(
            "the registry sent a manifest that it does not know",
            where=remote.name,
            expected=stated,
            found=str(found),
            fix="try again; a proxy or a mirror between here and there may hold a damaged copy",
        )


def _media_type(answer: Answer, reference: Reference) -> str:
    """Return what the document says it is; its transport's word where it says nothing."""
    sent = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if sent in _TYPES:
        return sent
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        document = None
    document = document if isinstance(document, dict) else {}
    stated = document.get("mediaType") or (sent if "schemaVersion" not in document else "")
    if document.get("schemaVersion") == 2 and not stated:
        stated = OCI.index if "manifests" in document else OCI.manifest
    if stated not in _TYPES:
        raise InputError.of(
            f"{reference} is no image of a kind that can be used",
            expected="an OCI or Docker (schema 2) manifest or index",
            found=str(stated or sent or "no media type"),
        )
    return str(stated)


def fetch_document(remote: Remote, descriptor: Descriptor) -> bytes:
    """Return a manifest, index or config, checked.

    Raises:
        IntegrityError: other bytes. UnreachableError: it cannot be had.
    """
    where = remote.at(descriptor.digest)
    if descriptor.size > DOCUMENT_LIMIT:
        raise IntegrityError.of(
            "a document of the image is too large",
            where=where,
            expected=f"at most {DOCUMENT_LIMIT} bytes",
            found=f"{descriptor.size} bytes",
        )
    manifest = descriptor.media_type in _TYPES
    url = remote.url("manifests" if manifest else "blobs", str(descriptor.digest))
    accept = {"Accept": descriptor.media_type} if manifest else {}
    answer = remote.ask("GET", url, accept, limit=descriptor.size)
    if answer.status in (404, 410):
        raise missing(remote, descriptor, answer)
    if answer.status != 200:
        raise remote.refused(answer, "a document of the image cannot be read", where=where)
    return check(remote, descriptor, answer.body)


def current(remote: Remote, name: str) -> Digest | None:
    """Return the registry's own word on what a tag or digest names; None: nothing.

    Raises:
        UnreachableError: no answer, or no permission.
    """
    answer = remote.ask("HEAD", remote.url("manifests", name), _ACCEPT)
    if answer.status in (401, 403, 429) or answer.status >= 500:
        raise remote.refused(answer, f"{remote.name} cannot be asked for {name}")
    return _hint(answer) if answer.status == 200 else None


def put_manifest(remote: Remote, raw: bytes, media_type: str, tag: str | None) -> Digest:
    """Store a manifest or index by digest or under a tag, and read its digest back.

    Raises:
        InputError: the tag names other content and may not be moved. IntegrityError: the
            registry then names other content. UnreachableError: it refuses, or is not there.
    """
    digest = sha256(raw)
    name = tag or str(digest)
    before = current(remote, name)
    if before == digest:
        return digest
    url = remote.url("manifests", name)
    answer = remote.ask("PUT", url, {"Content-Type": media_type}, raw)
    after = current(remote, name)
    if not _same(remote, name, digest, after):
        raise _not_stored(remote, name, answer, digest, after)
    return digest


def _same(remote: Remote, name: str, digest: Digest, hint: Digest | None) -> bool:
    if hint == digest:
        return True
    answer = remote.ask("GET", remote.url("manifests", name), _ACCEPT, limit=DOCUMENT_LIMIT)
    return answer.status == 200 and sha256(answer.body) == digest


def _not_stored(
    remote: Remote, name: str, answer: Answer, digest: Digest, after: Digest | None
) -> ComposeError:
    where = f"{remote.name}, {name}"
    if answer.status in (200, 201, 202, 204):
        return IntegrityError.of(
            "the registry took a manifest and names another",
            where=where,
            expected=str(digest),
            found=str(after or "nothing"),
            fix="somebody may have pushed the same tag just now: push again",
        )
    if after is not None and (answer.status in (409, 412) or answer.complaint.says("immutab")):
        return InputError.of(
            "the tag names other content, and the registry does not let it be moved",
            where=where,
            expected=str(digest),
            found=f"{after} ({answer.complaint})",
            fix="push under another tag: --tag NAME",
        )
    if answer.status in (400, 404) and answer.complaint.says("BLOB_UNKNOWN"):
        return UnreachableError.of(
            "the registry lacks a part of the image, and refuses its manifest",
            where=where,
            found=str(answer.complaint),
            fix="push again; what is missing is sent then",
        )
    return remote.refused(answer, "the registry refuses the manifest", where=where)
