"""Whether an image holds together: every broken invariant, all at once.

Documents are checked as values; blobs through a small port, streamed, so that a layer of any
size takes a few MiB. What lies inside a zstd layer is not looked at.
Sources: OCI image-spec config.md ("rootfs", "history"), manifest.md, descriptor.md.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import BinaryIO, Protocol

from ..errors import Fault, UnreachableError
from .digest import Digest
from .image import Image
from .manifest import Config, Descriptor, Index, Manifest
from .mediatype import Family, is_foreign
from .platform import Platform
from .tarcheck import check_tar

__all__ = ["Blobs", "validate", "validate_index"]

_CHUNK = 1024 * 1024
_NO_BASES: Mapping[Platform, Image] = MappingProxyType({})


class Blobs(Protocol):
    """Where blobs lie, such as a `Layout`."""

    def open(self, digest: Digest) -> BinaryIO:
        """Open a blob.

        Raises:
            UnreachableError: it is not held, or cannot be read.
        """
        ...


def validate(
    image: Image, blobs: Blobs | None = None, *, base: Image | None = None
) -> tuple[Fault, ...]:
    """Return every fault of `image`.

    blobs: where given, the image's blobs must be there and be what their descriptors say.
    base: where given, `image` must begin with its layers, which may lie elsewhere and are
        checked where held; the layers on top are ours and must be such as `layer.tar` writes.
        Without it no layer is taken for ours.
    """
    faults = [*_documents(image)]
    if base is not None:
        faults += _on_base(image, base)
    if blobs is not None:
        faults += _held("the manifest", image.manifest.descriptor(), blobs)
        faults += _held("the config", image.manifest.config, blobs)
        faults += _layers(image, blobs, base)
    return tuple(faults)


def validate_index(
    index: Index, blobs: Blobs, *, bases: Mapping[Platform, Image] = _NO_BASES
) -> tuple[Fault, ...]:
    """Return every fault of an index of ours and of the images in it.

    bases: what the image of each platform was derived from; see `validate`.
    """
    faults = [*_held("the index", index.descriptor(), blobs)]
    platforms = [child.platform for child in index.manifests]
    for number, child in enumerate(index.manifests):
        what = f"manifests[{number}] ({child.platform or 'no platform'})"
        if platforms.index(child.platform) != number:
            faults.append(Fault(what=f"{what} has the platform of another child"))
        if child.media_type != index.family.manifest:
            faults.append(
                Fault(
                    what=f"{what} is of another media type than the index's family has",
                    expected=index.family.manifest,
                    found=child.media_type,
                )
            )
        faults += (_below(what, fault) for fault in _child(child, blobs, bases))
    return tuple(faults)


def _below(what: str, fault: Fault) -> Fault:
    return replace(fault, where=", ".join(filter(None, (what, fault.where))))


def _child(child: Descriptor, blobs: Blobs, bases: Mapping[Platform, Image]) -> Iterator[Fault]:
    if found := [*_held("the manifest", child, blobs)]:
        yield from found
        return
    try:
        manifest = Manifest.parse(_read(blobs, child), child.media_type)
        config = Config.parse(_read(blobs, manifest.config))
    except (ValueError, UnreachableError) as error:
        yield Fault(what="the image cannot be read", found=str(error))
        return
    image = Image(manifest, config)
    if child.platform != image.platform:
        yield Fault(
            what="the config is of another platform than the index says",
            expected=str(child.platform),
            found=str(image.platform),
        )
    yield from validate(image, blobs, base=bases.get(image.platform))


def _read(blobs: Blobs, descriptor: Descriptor) -> bytes:
    with blobs.open(descriptor.digest) as file:
        return file.read(descriptor.size)


def _documents(image: Image) -> Iterator[Fault]:
    manifest, config = image.manifest, image.config
    family = manifest.family
    if manifest.config.digest != config.digest or manifest.config.size != config.size:
        yield Fault(
            what="the manifest's config is not the image's",
            expected=f"{manifest.config.digest}, {manifest.config.size} bytes",
            found=f"{config.digest}, {config.size} bytes",
        )
    if manifest.config.media_type != family.config:
        yield _untyped("the config", manifest.config, family)
    for number, layer in enumerate(manifest.layers):
        if layer.media_type not in family.layers:
            yield _untyped(f"layers[{number}]", layer, family)
    yield from _counts(image)
    if config.document["rootfs"].get("type") != "layers":
        yield Fault(what="the config lacks rootfs.type", expected="layers")
    for key in ("os", "architecture"):
        if not config.document.get(key):
            yield Fault(what=f"the config lacks {key}")


def _untyped(what: str, descriptor: Descriptor, family: Family) -> Fault:
    return Fault(
        what=f"{what} has a media type that the {family.name} family lacks",
        found=descriptor.media_type,
    )


def _counts(image: Image) -> Iterator[Fault]:
    expected = f"{len(image.manifest.layers)}, one a layer of the manifest"
    if len(image.config.diff_ids) != len(image.manifest.layers):
        yield Fault(
            what="the config's diff_ids are out of step with the layers",
            expected=expected,
            found=str(len(image.config.diff_ids)),
        )
    filled = sum(not entry.get("empty_layer") for entry in image.config.history)
    if filled != len(image.manifest.layers):
        yield Fault(
            what="the history is out of step with the layers",
            expected=expected,
            found=f"{filled} entries without empty_layer",
        )


def _on_base(image: Image, base: Image) -> Iterator[Fault]:
    if image.manifest.family is not base.manifest.family:
        yield Fault(
            what="the image is of another family than its base",
            expected=base.manifest.family.name,
            found=image.manifest.family.name,
        )
    if image.platform != base.platform:
        yield Fault(
            what="the image is of another platform than its base",
            expected=str(base.platform),
            found=str(image.platform),
        )
    count = len(base.manifest.layers)
    if image.manifest.layer_documents[:count] != base.manifest.layer_documents:
        yield Fault(what="the image does not begin with its base's layer descriptors, verbatim")
    if image.config.diff_ids[: len(base.config.diff_ids)] != base.config.diff_ids:
        yield Fault(what="the image does not begin with its base's diff_ids")


def _layers(image: Image, blobs: Blobs, base: Image | None) -> Iterator[Fault]:
    of_base = len(base.manifest.layers) if base is not None else 0
    diff_ids: list[Digest | None] = [*image.config.diff_ids]
    diff_ids += [None] * (len(image.manifest.layers) - len(diff_ids))
    for number, descriptor in enumerate(image.manifest.layers):
        what = f"layers[{number}]"
        found = _layer(
            what, descriptor, diff_ids[number], blobs, ours=base is not None and number >= of_base
        )
        if number < of_base or is_foreign(descriptor.media_type):
            found = _unless_absent(descriptor, blobs, found)
        yield from found


def _unless_absent(descriptor: Descriptor, blobs: Blobs, found: Iterator[Fault]) -> Iterator[Fault]:
    try:
        blobs.open(descriptor.digest).close()
    except UnreachableError:
        return
    yield from found


def _held(what: str, descriptor: Descriptor, blobs: Blobs) -> Iterator[Fault]:
    return _layer(what, replace(descriptor, media_type=""), None, blobs, ours=False)


def _layer(
    what: str, descriptor: Descriptor, diff_id: Digest | None, blobs: Blobs, *, ours: bool
) -> Iterator[Fault]:
    """Check a blob's bytes; those inside it too, where it is a layer."""
    try:
        file = blobs.open(descriptor.digest)
    except UnreachableError as error:
        yield Fault(
            what=f"{what} is not held", where=str(descriptor.digest), found=error.faults[0].found
        )
        return
    with file:
        stored = _Measured(descriptor.digest.algorithm, iter(lambda: file.read(_CHUNK), b""))
        yield from _inside(what, descriptor.media_type, diff_id, stored, ours=ours)
        stored.drain()
    yield from stored.differences(what, descriptor.digest, descriptor.size)


def _inside(
    what: str, media_type: str, diff_id: Digest | None, stored: _Measured, *, ours: bool
) -> Iterator[Fault]:
    if diff_id is None or media_type.endswith("zstd"):
        return
    unpacked = _gunzip(stored) if media_type.endswith("gzip") else stored
    tar = _Measured(diff_id.algorithm, unpacked)
    try:
        broken = check_tar(tar) if ours else []
        tar.drain()
    except zlib.error as error:
        yield Fault(what=f"{what} is not the gzip it should be", found=str(error))
        return
    for text in broken:
        yield Fault(what=f"{what} is not an archive of ours", found=text)
    yield from tar.differences(f"{what} uncompressed", diff_id)


class _Measured(Iterator[bytes]):
    """Passes chunks on, and knows the digest and size of what passed."""

    def __init__(self, algorithm: str, chunks: Iterator[bytes]) -> None:
        self._algorithm = algorithm
        self._chunks = chunks
        self._hash = hashlib.new(algorithm)
        self._size = 0

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        self._hash.update(chunk)
        self._size += len(chunk)
        return chunk

    def drain(self) -> None:
        for _ in self:
            pass

    def differences(self, what: str, digest: Digest, size: int | None = None) -> Iterator[Fault]:
        if size not in (None, self._size):
            yield Fault(
                what=f"{what} has another size than it should",
                where=str(digest),
                expected=f"{size} bytes",
                found=f"{self._size} bytes",
            )
        if (found := Digest(self._algorithm, self._hash.hexdigest())) != digest:
            yield Fault(
                what=f"{what} has another digest than it should",
                expected=str(digest),
                found=str(found),
            )


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Inflate a gzip stream of one or more members (RFC 1952 section 2.2)."""
    inflater = zlib.decompressobj(wbits=31)
    for chunk in chunks:
        data = chunk
        while data:
            if inflater.eof:
                if not (data := data.lstrip(b"\0")):  # padding, which gzip(1) takes too
                    break
                inflater = zlib.decompressobj(wbits=31)
            if inflated := inflater.decompress(data, _CHUNK):
                yield inflated
            data = inflater.unconsumed_tail or inflater.unused_data
    if not inflater.eof:
        raise zlib.error("the stream ends in the middle")
