"""An image as one tar that every tool reads: an OCI layout with docker's `manifest.json`.

skopeo and podman read `index.json`; dockerd before version 25 reads `manifest.json` only, and
both name the same blobs. Sources: OCI image-spec image-layout.md; Docker image spec v1.2.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from .digest import Digest, sha256
from .filetree import directory, regular
from .image import Image
from .layer import Member, tar
from .layout import REF_NAME, Layout, reading, storage_errors
from .manifest import Descriptor, Index, canonical_json
from .mediatype import OCI

__all__ = ["write_archive"]


def write_archive(
    path: Path, layout: Layout, images: Sequence[Image], index: Index | None, name: str
) -> None:
    """Write the archive of an image whose blobs the layout holds; replaced as a whole.

    Raises:
        UnreachableError: the file cannot be written, or the disk is full.
    """
    with storage_errors(path.parent):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb", buffering=1024 * 1024) as file:
                for chunk in tar(_members(layout, images, index, name)):
                    file.write(chunk)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)


def _members(
    layout: Layout, images: Sequence[Image], index: Index | None, name: str
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
    members += [
        Member(
            f"blobs/sha256/{digest.hex}", regular(size, digest.hex), reading(layout.path(digest))
        )
        for digest, size in _blobs(images, index).items()
    ]
    yield from sorted(members, key=lambda member: member.path)


def _blobs(images: Sequence[Image], index: Index | None) -> dict[Digest, int]:
    blobs = {index.digest: index.size} if index is not None else {}
    for image in images:
        blobs[image.manifest.digest] = image.manifest.size
        for one in (image.manifest.config, *image.manifest.layers):
            blobs[one.digest] = one.size
    return blobs


def _docker_entry(image: Image, name: str) -> dict[str, object]:
    return {
        "Config": f"blobs/sha256/{image.config.digest.hex}",
        "Layers": [f"blobs/sha256/{one.digest.hex}" for one in image.manifest.layers],
        "RepoTags": [f"{name}:latest"],
    }
