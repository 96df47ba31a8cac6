"""Descriptors, image manifests, indexes and configs, each beside the bytes it came from.

A digest is always one of stored bytes: a document that was read is never serialised again.
Documents that we write are canonical JSON: sorted keys, no spaces, UTF-8.
Sources: OCI image-spec manifest.md, image-index.md, config.md, descriptor.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .digest import Digest, sha256
from .mediatype import FAMILIES, OCI, Family, family_of_index, family_of_manifest
from .platform import Platform

__all__ = [
    "Config",
    "Descriptor",
    "Index",
    "Manifest",
    "canonical_json",
    "parse_json",
]

# distribution-spec, "Pushing Manifests": registries are to take manifests of up to 4 MiB.
DOCUMENT_LIMIT = 4 * 1024 * 1024
_DOCUMENT_TYPES = frozenset(one for family in FAMILIES for one in (family.manifest, family.index))


def canonical_json(document: Any) -> bytes:
    """Serialise a document of ours: the same value gives the same bytes."""
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    # A lone surrogate has no UTF-8; Python's escape for it, \udxxx, is JSON's own.
    return text.encode("utf-8", "backslashreplace")


def parse_json(raw: bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object, refusing duplicate keys and non-finite numbers.

    Raises:
        ValueError: `raw` is not such an object; the message names `what`.
    """
    if len(raw) > DOCUMENT_LIMIT:
        raise ValueError(f"{what} has {len(raw)} bytes, more than {DOCUMENT_LIMIT}")
    try:
        document = json.loads(
            raw.decode("utf-8"),  # bytes would be guessed at: UTF-16 and a BOM are not JSON to Go
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{what} is not a JSON object")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("an object has the same key twice")
    return document


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is out of range")
    return number


def _strings(value: Any, what: str) -> dict[str, str]:
    """Read an object of strings, such as annotations: null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError(f"{what} is not an object of strings")
    return value


def _stated_type(document: Mapping[str, Any], media_type: str | None, default: str) -> str:
    """Return a document's media type: its own word, which its transport must not contradict."""
    if document.get("schemaVersion", 2) != 2:
        raise ValueError(f"schemaVersion is {document['schemaVersion']!r}, not 2")
    # manifest.md: a document that is both a manifest and an index means different things to
    # different readers (CVE-2021-41190).
    if "manifests" in document and ("layers" in document or "config" in document):
        raise ValueError("the document is a manifest and an index at once")
    stated = document.get("mediaType") or media_type or default
    if not isinstance(stated, str):
        raise ValueError(f"mediaType is {stated!r}, not a string")
    if media_type in _DOCUMENT_TYPES and media_type != stated:
        raise ValueError(f"the document says {stated}, its descriptor {media_type}")
    return stated


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A typed pointer to stored bytes. `size` in bytes. `extra`: fields we carry verbatim."""

    media_type: str
    digest: Digest
    size: int
    platform: Platform | None = None
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def parse(cls, document: Any, what: str) -> Descriptor:
        """Read a descriptor.

        Raises:
            ValueError: a required property is absent or malformed.
        """
        if not isinstance(document, dict):
            raise ValueError(f"{what} is not an object")
        media_type, digest, size = (document.get(key) for key in ("mediaType", "digest", "size"))
        if not isinstance(media_type, str) or not isinstance(digest, str):
            raise ValueError(f"{what} lacks mediaType or digest")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise ValueError(f"{what} has size {size!r}, not a number of bytes")
        if not isinstance(platform := document.get("platform") or {}, dict):
            raise ValueError(f"{what} has a platform that is not an object")
        known = {"mediaType", "digest", "size", "platform", "annotations"}
        try:
            parsed = Digest.parse(digest)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from error
        return cls(
            media_type,
            parsed,
            size,
            Platform.of(platform) if platform else None,
            _strings(document.get("annotations"), f"{what}.annotations"),
            {key: value for key, value in document.items() if key not in known},
        )

    def document(self) -> dict[str, Any]:
        """Return the JSON object."""
        document: dict[str, Any] = {
            **self.extra,
            "mediaType": self.media_type,
            "digest": str(self.digest),
            "size": self.size,
        }
        if self.platform is not None:
            document["platform"] = self.platform.document()
        if self.annotations:
            document["annotations"] = dict(self.annotations)
        return document


@dataclass(frozen=True, slots=True)
class _Stored:
    """A document and its bytes."""

    raw: bytes = field(repr=False)

    @property
    def digest(self) -> Digest:
        """The digest of the bytes as they are stored."""
        return sha256(self.raw)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.raw)


@dataclass(frozen=True, slots=True)
class Manifest(_Stored):
    """An image manifest of one platform."""

    family: Family
    config: Descriptor
    layers: tuple[Descriptor, ...]
    # The layers' own JSON objects: a base's are carried over verbatim, whatever is in them.
    layer_documents: tuple[Mapping[str, Any], ...] = field(repr=False, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def parse(cls, raw: bytes, media_type: str | None = None) -> Manifest:
        """Read an image manifest; `media_type` is what the transport said of it.

        Raises:
            ValueError: not an image manifest, or one whose media types mix the two families.
        """
        document = parse_json(raw, "the manifest")
        stated = _stated_type(document, media_type, OCI.manifest)
        family = family_of_manifest(stated)
        if family is None:
            raise ValueError(f"media type {stated} is not that of an image manifest")
        if not isinstance(documents := document.get("layers"), list):
            raise ValueError("the manifest has no list of layers")
        layers = tuple(
            Descriptor.parse(layer, f"layers[{number}]") for number, layer in enumerate(documents)
        )
        config = Descriptor.parse(document.get("config"), "config")
        annotations = _strings(document.get("annotations"), "annotations")
        manifest = cls(raw, family, config, layers, tuple(documents), annotations)
        manifest._check_family()
        return manifest

    def _check_family(self) -> None:
        others = [other for other in FAMILIES if other is not self.family]
        for what, descriptor in [("config", self.config), *(("layer", one) for one in self.layers)]:
            for other in others:
                if descriptor.media_type in other.layers | {other.config}:
                    raise ValueError(
                        f"a manifest of the {self.family.name} family has a {what} of the"
                        f" {other.name} family ({descriptor.media_type})"
                    )

    @classmethod
    def make(
        cls,
        family: Family,
        *,
        config: Descriptor,
        layer_documents: Iterable[Mapping[str, Any]],
        annotations: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Write a manifest of ours."""
        documents = tuple(layer_documents)
        document: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": family.manifest,
            "config": config.document(),
            "layers": documents,
        }
        if annotations:
            document["annotations"] = dict(annotations)
        return cls.parse(canonical_json(document))

    @property
    def media_type(self) -> str:
        """The manifest's own media type."""
        return self.family.manifest

    def descriptor(self, platform: Platform | None = None) -> Descriptor:
        """Return the descriptor an index or a reference would hold."""
        return Descriptor(self.media_type, self.digest, self.size, platform)


@dataclass(frozen=True, slots=True)
class Index(_Stored):
    """An image index (Docker: manifest list)."""

    family: Family
    manifests: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def parse(cls, raw: bytes, media_type: str | None = None) -> Index:
        """Read an index.

        Raises:
            ValueError: not an index.
        """
        document = parse_json(raw, "the index")
        stated = _stated_type(document, media_type, OCI.index)
        family = family_of_index(stated)
        if family is None:
            raise ValueError(f"media type {stated} is not that of an index")
        if not isinstance(documents := document.get("manifests"), list):
            raise ValueError("the index has no list of manifests")
        manifests = tuple(
            Descriptor.parse(one, f"manifests[{number}]") for number, one in enumerate(documents)
        )
        return cls(raw, family, manifests, _strings(document.get("annotations"), "annotations"))

    @classmethod
    def make(cls, family: Family, manifests: Iterable[Descriptor]) -> Index:
        """Write an index of ours over `manifests`, in their order."""
        document = {
            "schemaVersion": 2,
            "mediaType": family.index,
            "manifests": [descriptor.document() for descriptor in manifests],
        }
        return cls.parse(canonical_json(document))

    @property
    def media_type(self) -> str:
        """The index's own media type."""
        return self.family.index

    def descriptor(self) -> Descriptor:
        """Return the descriptor of the index itself."""
        return Descriptor(self.media_type, self.digest, self.size)

    def images(self) -> tuple[Descriptor, ...]:
        """Return the children that are images, not attestations or other artifacts."""
        return tuple(one for one in self.manifests if _is_image(one))


def _is_image(child: Descriptor) -> bool:
    # BuildKit's attestations say platform unknown/unknown; descriptor.md gives an artifact's
    # type, which for an image is its config's.
    configs = [family.config for family in FAMILIES]
    return (
        family_of_manifest(child.media_type) is not None
        and "vnd.docker.reference.type" not in child.annotations
        and (child.platform is None or child.platform.os != "unknown")
        and (child.extra.get("artifactType") or OCI.config) in configs
    )


def _check_items(value: Any, kind: type, what: str) -> None:
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(one, kind) for one in value):
        name = "strings" if kind is str else "objects"
        raise ValueError(f"{what} is not a list of {name}")


@dataclass(frozen=True, slots=True)
class Config(_Stored):
    """An image configuration. `document` is the parsed object; treat it as read-only."""

    document: Mapping[str, Any] = field(repr=False, hash=False)
    diff_ids: tuple[Digest, ...]

    @classmethod
    def parse(cls, raw: bytes) -> Config:
        """Read a config.

        Raises:
            ValueError: not a config, or one without `rootfs.diff_ids`.
        """
        document = parse_json(raw, "the config")
        rootfs = document.get("rootfs")
        if not isinstance(rootfs, dict) or not isinstance(rootfs.get("diff_ids"), list):
            raise ValueError("the config has no list rootfs.diff_ids")
        # config.md: "MUST generate an error if they encounter a unknown value"
        if (kind := rootfs.get("type", "layers")) != "layers":
            raise ValueError(f"the config's rootfs.type is {kind!r}, not 'layers'")
        if not isinstance(runtime := document.get("config") or {}, dict):
            raise ValueError("the config's config is not an object")
        _check_items(runtime.get("Env"), str, "the config's Env")
        _strings(runtime.get("Labels"), "the config's Labels")
        _check_items(document.get("history"), dict, "the config's history")
        _check_items(rootfs["diff_ids"], str, "the config's rootfs.diff_ids")
        return cls(raw, document, tuple(Digest.parse(text) for text in rootfs["diff_ids"]))

    @classmethod
    def make(cls, document: Mapping[str, Any]) -> Config:
        """Write a config of ours."""
        return cls.parse(canonical_json(document))

    @property
    def platform(self) -> Platform:
        """What the image runs on."""
        return Platform.of(self.document)

    @property
    def created(self) -> str:
        """RFC 3339 time, or empty."""
        value = self.document.get("created")
        return value if isinstance(value, str) else ""

    @property
    def history(self) -> tuple[Mapping[str, Any], ...]:
        """The history entries, those of empty layers included."""
        return tuple(self.document.get("history") or ())

    @property
    def runtime(self) -> Mapping[str, Any]:
        """The `config` object: Env, Entrypoint, Cmd, Labels, …"""
        runtime: Mapping[str, Any] = self.document.get("config") or {}
        return runtime

    @property
    def env(self) -> dict[str, str]:
        """Environment variables, in the image's order."""
        pairs = (text.partition("=") for text in self.runtime.get("Env") or ())
        return {name: value for name, _, value in pairs}

    def descriptor(self, family: Family) -> Descriptor:
        """Return the descriptor a manifest of `family` would hold."""
        return Descriptor(family.config, self.digest, self.size)
