"""An image as one tar that every tool reads: an OCI layout with docker's `manifest.json`.

skopeo and podman read `index.json`; dockerd before version 25 reads `manifest.json` only, and
both name the same blobs. Sources: OCI image-spec image-layout.md; Docker image spec v1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from .digest import sha256
from .filetree import directory, regular
from .image import Image
from .layer import Member, tar
from .layout import REF_NAME, replacing
from .manifest import Descriptor, Index, canonical_json
from .mediatype import OCI, is_foreign

__all__ = ["write_archive"]


Content = Callable[[Descriptor], Iterable[bytes]]


def write_archive(
    path: Path, images: Sequence[Image], index: Index | None, name: str, content: Content
) -> None:
    """Write the archive of an image, replaced as a whole; `content` gives a blob's bytes.

    Raises:
        UnreachableError: the file cannot be written, or the disk is full.
    """
    with replacing(path) as file:
        for chunk in tar(_members(images, index, name, content)):
            file.write(chunk)


def _members(
    images: Sequence[Image], index: Index | None, name: str, content: Content
) -> Iterator[Member]:
    top = index.descriptor() if index is not None else images[0].manifest.descriptor()
    named = Descriptor(top.media_type, top.digest, top.size, None, {REF_NAME: name})
    texts = {
        "index.json": Index.make(OCI, [named]).raw,
        "manifest.json": canonical_json([_docker_entry(image, name) for image in images]),
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
    }
    members = [Member("blobs", directory(0)), Member("blobs/sha256", directory(0))]
    members += [
        Member(path, regular(len(data), sha256(data).hex), data) for path, data in texts.items()
    ]
    for blob, data in _blobs(images, index, content).items():
        path = f"blobs/{blob.digest.algorithm}/{blob.digest.hex}"
        members.append(Member(path, regular(blob.size, blob.digest.hex), data))
    yield from sorted(members, key=lambda member: member.path)


def _blobs(
    images: Sequence[Image], index: Index | None, content: Content
) -> dict[Descriptor, bytes | Callable[[], Iterable[bytes]]]:
    """Return every blob once. Foreign layers lie elsewhere, by definition."""
    blobs: dict[Descriptor, bytes | Callable[[], Iterable[bytes]]] = {}
    if index is not None:
        blobs[index.descriptor()] = index.raw
    for image in images:
        blobs[image.manifest.descriptor()] = image.manifest.raw
        blobs[image.manifest.config] = image.config.raw
        for layer in image.manifest.layers:
            if not is_foreign(layer.media_type):
                blobs[layer] = partial(content, layer)
    once = {one.digest: one for one in blobs}
    return {one: blobs[one] for one in once.values()}


def _docker_entry(image: Image, name: str) -> dict[str, object]:
    return {
        "Config": f"blobs/sha256/{image.config.digest.hex}",
        "Layers": [f"blobs/sha256/{one.digest.hex}" for one in image.manifest.layers],
        "RepoTags": [f"{name}:latest"],
    }
