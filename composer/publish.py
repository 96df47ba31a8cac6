"""A built image to a registry: blobs mounted, found there or sent; then manifests, then the tag.

Layers that came with a base image are mounted from its repository, or found; they are never
uploaded unless that is asked for, because that is how a patch of kilobytes becomes a transfer
of gigabytes. What was put is read back by the registry client and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from .daemonbase import PREFIX
from .errors import Fault, InputError
from .oci.archive import Content
from .oci.digest import Digest
from .oci.image import Image
from .oci.layout import Layout, reading
from .oci.manifest import Config, Descriptor, Index, Manifest
from .oci.mediatype import family_of_index, is_foreign
from .oci.reference import Reference
from .plan import Plan
from .progress import counted
from .release import Release
from .text import short

if TYPE_CHECKING:
    from .oci.registry import Parcel

__all__ = ["Published", "Shipment", "publish", "shipment_of_plan", "shipment_of_release"]


@dataclass(frozen=True, slots=True)
class Shipped:
    """An image of one platform. foreign: how many of its layers, the first ones, are not ours.

    base: the reference of the image that those came with; empty where it is in no registry.
    """

    image: Image
    foreign: int
    base: str


@dataclass(frozen=True, slots=True)
class Shipment:
    """What to push. partial: the foreign layers are in a Docker daemon only."""

    platforms: tuple[Shipped, ...]
    index: Index | None
    partial: bool = False

    @property
    def digest(self) -> Digest:
        """What a pin uses."""
        return (self.index or self.platforms[0].image.manifest).digest


def shipment_of_plan(made: Plan) -> Shipment:
    """Return what a plan gives to push."""
    shipped = (
        Shipped(
            one.image,
            len(one.image.manifest.layers) - len(one.layers) - one.base.own,
            one.base.name,
        )
        for one in made.platforms
    )
    return Shipment(tuple(shipped), made.index, made.platforms[0].base.partial)


def shipment_of_release(release: Release, layout: Layout) -> Shipment:
    """Return what the store holds of a release, byte for byte what was made.

    Raises:
        UnreachableError: the store does not hold its documents.
        IntegrityError: one of them is damaged.
    """
    lock, result = release.lock, release.result
    shipped = []
    for one in lock.platforms:
        raw = layout.read(Digest.parse(one.manifest))
        family = result.media_type if family_of_index(result.media_type) is None else None
        manifest = Manifest.parse(raw, family)
        image = Image(manifest, Config.parse(layout.read(manifest.config.digest)))
        shipped.append(Shipped(image, one.base_layers, one.base_name))
    index = None
    if family_of_index(result.media_type) is not None:
        index = Index.parse(layout.read(Digest.parse(result.digest)), result.media_type)
    there = lock.base.reference or lock.base.image
    return Shipment(tuple(shipped), index, there.startswith(PREFIX))


@dataclass(frozen=True, slots=True)
class Published:
    """What a push did. `counts`: blobs by how they came there; `sent`: bytes of those sent."""

    reference: Reference
    counts: dict[str, int]
    sent: int
    remark: str = ""


def publish(
    made: Shipment, layout: Layout, target: Reference, *, copy_from: Content | None = None
) -> Published:
    """Push all platforms of `made`, whose own blobs the layout holds, to `target`, a tag.

    copy_from: gives layers of the base, if they may be uploaded.

    Raises:
        InputError: layers of the base are not there, and were not to be copied; nothing has been
            pushed under the tag then.
        UnreachableError, IntegrityError: as of the registry.
    """
    from .oci.registry import Delivered, deliver
    from .sources import registries

    destination = registries().destination(target)
    parcels = list(_parcels(made.platforms, layout, copy_from))
    results = deliver(destination, parcels)
    refused = [
        parcel.blob
        for parcel, result in zip(parcels, results, strict=True)
        if result is Delivered.REFUSED
    ]
    if refused:
        raise InputError(_refusal(made, target, refused))
    for one in made.platforms:
        manifest = one.image.manifest
        tag = target.tag if made.index is None else None
        destination.put(manifest.raw, manifest.media_type, tag)
    if made.index is not None:
        destination.put(made.index.raw, made.index.media_type, target.tag)
    counts = {kind.value: results.count(kind) for kind in Delivered if kind in results}
    sent = sum(
        parcel.blob.size
        for parcel, result in zip(parcels, results, strict=True)
        if result is Delivered.SENT
    )
    return Published(target.with_digest(made.digest), counts, sent)


def _parcels(
    platforms: Sequence[Shipped], layout: Layout, copy_from: Content | None
) -> Iterator[Parcel]:
    """Yield every blob once: configs and layers of ours, and the base's."""
    from .oci.registry import Parcel

    seen = set()
    for one in platforms:
        manifest = one.image.manifest
        origin = Reference.parse(one.base) if one.base else None
        for number, blob in enumerate([*manifest.layers, manifest.config]):
            if blob.digest in seen or is_foreign(blob.media_type):
                continue
            seen.add(blob.digest)
            if number >= one.foreign:
                yield Parcel(blob, partial(_sent, blob, reading(layout.path(blob.digest))))
            else:
                content = partial(_copied, blob, copy_from) if copy_from is not None else None
                yield Parcel(blob, content, origin)


def _sent(blob: Descriptor, content: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    return counted(content(), f"send {short(str(blob.digest))}", blob.size)


def _copied(blob: Descriptor, content: Content) -> Iterator[bytes]:
    return counted(content(blob), f"copy {short(str(blob.digest))}", blob.size)


def _refusal(made: Shipment, target: Reference, refused: Sequence[Descriptor]) -> Fault:
    name = made.platforms[0].base
    size = sum(one.size for one in refused)
    count = "a layer" if len(refused) == 1 else f"{len(refused)} layers"
    return Fault(
        what=f"{target.repository} does not have {count} of the base",
        where=str(target),
        expected=f"layers that can be mounted from {name or 'the base'}",
        found=", ".join(str(one.digest) for one in refused),
        fix="the base is in a Docker daemon only: --export-base"
        if made.partial
        else f"push to the registry that has the base, or send them ({size} bytes): --copy-base",
    )
