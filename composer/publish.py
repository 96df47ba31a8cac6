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

from .errors import Fault, InputError
from .oci.archive import Content
from .oci.layout import Layout, reading
from .oci.manifest import Descriptor
from .oci.mediatype import is_foreign
from .oci.reference import Reference
from .plan import Plan, PlatformPlan
from .progress import counted
from .text import short

if TYPE_CHECKING:
    from .oci.registry import Parcel

__all__ = ["Published", "publish"]


@dataclass(frozen=True, slots=True)
class Published:
    """What a push did. `counts`: blobs by how they came there; `sent`: bytes of those sent."""

    reference: Reference
    counts: dict[str, int]
    sent: int


def publish(
    made: Plan, layout: Layout, target: Reference, *, copy_from: Content | None = None
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
    platforms: Sequence[PlatformPlan], layout: Layout, copy_from: Content | None
) -> Iterator[Parcel]:
    """Yield every blob once: configs and layers of ours, and the base's."""
    from .oci.registry import Parcel

    seen = set()
    for one in platforms:
        manifest = one.image.manifest
        foreign = len(manifest.layers) - len(one.layers) - one.base.own
        origin = Reference.parse(one.base.name) if one.base.name else None
        for number, blob in enumerate([*manifest.layers, manifest.config]):
            if blob.digest in seen or is_foreign(blob.media_type):
                continue
            seen.add(blob.digest)
            if number >= foreign:
                yield Parcel(blob, partial(_sent, blob, reading(layout.path(blob.digest))))
            else:
                content = partial(_copied, blob, copy_from) if copy_from is not None else None
                yield Parcel(blob, content, origin)


def _sent(blob: Descriptor, content: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    return counted(content(), f"send {short(str(blob.digest))}", blob.size)


def _copied(blob: Descriptor, content: Content) -> Iterator[bytes]:
    return counted(content(blob), f"copy {short(str(blob.digest))}", blob.size)


def _refusal(made: Plan, target: Reference, refused: Sequence[Descriptor]) -> Fault:
    name, partial_base = made.platforms[0].base.name, made.platforms[0].base.partial
    size = sum(one.size for one in refused)
    count = "a layer" if len(refused) == 1 else f"{len(refused)} layers"
    return Fault(
        what=f"{target.repository} does not have {count} of the base",
        where=str(target),
        expected=f"layers that can be mounted from {name or 'the base'}",
        found=", ".join(str(one.digest) for one in refused),
        fix="the base is in a Docker daemon only: --export-base"
        if partial_base
        else f"push to the registry that has the base, or send them ({size} bytes): --copy-base",
    )
