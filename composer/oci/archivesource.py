"""Images out of one tar: `archive:FILE[:NAME]`, an OCI archive or what `docker save` writes.

A docker-archive (`manifest.json`, no `index.json`) has a config and layers, and no manifest. One
is made: of the OCI family, as dockerd itself does from version 25 on, because that family knows
plain layers; with the config's bytes as they are; each layer as it is stored. It is a function of
those alone. A plain layer's digest is its diff_id, so that it is known without reading it; the
diff_ids are the config's, the same as wherever else that image lies.

Blobs are read where they lie in the tar. A compressed archive is refused: every blob would cost
a pass over the whole of it.
Sources: OCI image-spec image-layout.md; Docker image spec v1.2, "Combined Image JSON + Filesystem
Changeset Format".
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError, IntegrityError, UnreachableError
from .decode import compression_of
from .digest import Digest, sha256
from .layoutsource import choose, parse_index, split_name, type_of
from .manifest import DOCUMENT_LIMIT, Config, Descriptor, Manifest
from .mediatype import OCI
from .reference import Reference
from .tarindex import Span, TarIndex
from .verify import verified, whole

__all__ = ["ArchiveSource"]

_CONFIG_NAME = re.compile(r"(?:.*/)?([0-9a-f]{64})(?:\.json)?\Z")
_LAYER_TYPES = {"": OCI.layer, "gzip": OCI.layer_gzip, "zstd": OCI.layer_zstd}


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """The image `name` (a reference, tag or digest) of an archive; without one, the only one."""

    path: Path
    name: str = ""
    # Where each blob lies that `top` has found: the files of a docker-archive are not named so.
    _blobs: dict[Digest, Span | bytes] = field(default_factory=dict, compare=False, repr=False)
    _index: list[TarIndex] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> ArchiveSource:
        """Read what follows `archive:`. A file whose own name has a colon needs no name."""
        path, name = split_name(text, Path.is_file)
        return cls(path, name)

    def top(self) -> Descriptor:
        """Return the manifest or index that the name stands for.

        Raises:
            InputError: there is no archive, it is compressed, or it has no such image.
            IntegrityError: it is damaged.
        """
        members = self._members()
        if span := members.find("index.json"):
            index = parse_index(self._small(span), f"{self.path}: index.json")
            return choose(index, self.name, str(self.path), self._described)
        if span := members.find("manifest.json"):
            return self._made(_entry(_list(self._small(span), self._where), self.name, self._where))
        raise InputError.of(
            "this is no archive of an image",
            where=self._where,
            expected="index.json (OCI), or manifest.json (docker save)",
            found=", ".join(sorted(members.names)[:5]) or "an empty archive",
            fix="docker save -o FILE IMAGE, or skopeo copy docker://IMAGE oci-archive:FILE",
        )

    def document(self, descriptor: Descriptor) -> bytes:
        """Return a manifest, index or config, checked.

        Raises:
            IntegrityError: other bytes. UnreachableError: the archive does not hold it.
        """
        return whole(self._reading(descriptor), descriptor, self._where)

    def chunks(self, descriptor: Descriptor) -> Iterator[bytes]:
        """Yield a blob, checked to its end.

        Raises:
            IntegrityError: other bytes. UnreachableError: the archive does not hold it.
        """
        return verified(self._reading(descriptor), descriptor, self._where)

    @property
    def _where(self) -> str:
        return str(self.path)

    def _members(self) -> TarIndex:
        if not self._index:
            self._index.append(TarIndex.of(self.path))
        return self._index[0]

    def _reading(self, descriptor: Descriptor) -> Iterator[bytes]:
        digest = descriptor.digest
        if digest not in self._blobs and not self._members().find("index.json"):
            self.top()  # names the files of a docker-archive
        held = self._blobs.get(digest) or self._blob(digest)
        if held is None:
            raise UnreachableError.of(
                f"the archive does not hold {digest}",
                where=self._where,
                fix="make the archive anew, with all layers of the image",
            )
        return iter([held]) if isinstance(held, bytes) else held.chunks()

    def _blob(self, digest: Digest) -> Span | None:
        return self._members().find(f"blobs/{digest.algorithm}/{digest.hex}")

    def _described(self, digest: Digest) -> Descriptor | None:
        span = self._blob(digest)
        if span is None:
            return None
        raw = self.document(Descriptor("", digest, span.size))
        return Descriptor(type_of(raw), digest, span.size)

    def _small(self, span: Span) -> bytes:
        if span.size > DOCUMENT_LIMIT:
            raise IntegrityError.of(
                f"a document of the archive has {span.size} bytes",
                where=self._where,
                expected=f"at most {DOCUMENT_LIMIT}",
            )
        return b"".join(span.chunks())

    def _made(self, entry: Mapping[str, Any]) -> Descriptor:
        """Make the manifest of a docker-archive's image, and note where its parts lie."""
        name = str(entry.get("Config"))
        span = self._member(name)
        config = _config(self._small(span), name, self._where)
        self._blobs[config.digest] = span
        paths = _strings(entry.get("Layers"))
        if len(paths) != len(config.diff_ids):
            raise IntegrityError.of(
                "an archive's manifest.json and config disagree",
                where=self._where,
                expected=f"{len(config.diff_ids)} layers, as in {name}",
                found=f"{len(paths)} layers",
            )
        layers = [self._layer(*pair) for pair in zip(paths, config.diff_ids, strict=True)]
        manifest = Manifest.make(
            OCI,
            config=config.descriptor(OCI),
            layer_documents=[layer.document() for layer in layers],
        )
        self._blobs[manifest.digest] = manifest.raw
        return manifest.descriptor()

    def _layer(self, path: str, diff_id: Digest) -> Descriptor:
        span = self._member(path)
        kind = compression_of(span.head(16))
        if kind not in _LAYER_TYPES:
            raise InputError.of(
                f"a layer compressed with {kind}",
                where=f"{self.path}: {path}",
                expected="gzip, zstd or none",
                fix="load and save the image with a current docker",
            )
        digest = diff_id if not kind else _hashed(span)
        self._blobs[digest] = span
        return Descriptor(_LAYER_TYPES[kind], digest, span.size)

    def _member(self, path: str) -> Span:
        span = self._members().find(path)
        if span is None:
            raise InputError.of(
                "an archive lacks a part of its image",
                where=self._where,
                expected=path,
                fix="save the image anew; archives that leave layers out serve only one daemon",
            )
        return span


def _hashed(span: Span) -> Digest:
    content = hashlib.sha256()
    for chunk in span.chunks():
        content.update(chunk)
    return Digest("sha256", content.hexdigest())


def _strings(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _config(raw: bytes, name: str, where: str) -> Config:
    match = _CONFIG_NAME.match(name)
    found = sha256(raw)
    if match and match[1] != found.hex:
        raise IntegrityError.of(
            "an archive's config is not what its name says",
            where=where,
            expected=match[1],
            found=found.hex,
            fix="save the image anew",
        )
    try:
        return Config.parse(raw)
    except ValueError as error:
        raise IntegrityError.of(
            "an archive's config is malformed", where=f"{where}: {name}", found=str(error)
        ) from error


def _list(raw: bytes, where: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise IntegrityError.of(
            "an archive's manifest.json is malformed", where=where, found=str(error)
        ) from error
    if not isinstance(document, list) or not all(isinstance(one, dict) for one in document):
        raise IntegrityError.of(
            "an archive's manifest.json is malformed", where=where, expected="a list of images"
        )
    return document


def _entry(entries: Sequence[Mapping[str, Any]], name: str, where: str) -> Mapping[str, Any]:
    """Return the image of a docker-archive that `name` stands for."""
    found = [one for one in entries if not name or _is_named(one, name)]
    if len(found) == 1:
        return found[0]
    tags = sorted(tag for one in entries for tag in _strings(one.get("RepoTags")))
    what = f"there is no image {name!r}" if name else "no image is named, and there is not just one"
    raise InputError.of(
        what,
        where=where,
        found=", ".join(tags) or f"{len(entries)} images without names",
        fix="append :NAME of one of them" if tags else "save a single image",
    )


def _is_named(entry: Mapping[str, Any], name: str) -> bool:
    tags = _strings(entry.get("RepoTags"))
    config = posixpath.basename(str(entry.get("Config"))).removesuffix(".json")
    return name in tags or name == f"sha256:{config}" or _full(name) in map(_full, tags)


def _full(name: str) -> str:
    try:
        reference = Reference.parse(name)
    except ValueError:
        return name
    return str(reference if reference.tag or reference.digest else reference.with_tag("latest"))
