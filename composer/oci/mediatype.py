"""Media types of images, and the two families they come in.

An image is of one family throughout: podman and CRI-O refuse a manifest that mixes them.
Sources: OCI image-spec media-types.md; Docker image manifest version 2, schema 2.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "DOCKER",
    "DOCKER_FOREIGN_LAYER_GZIP",
    "FAMILIES",
    "OCI",
    "Family",
    "family_of_index",
    "family_of_manifest",
    "is_foreign",
]

DOCKER_FOREIGN_LAYER_GZIP = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"


@dataclass(frozen=True, slots=True)
class Family:
    """The media types of one family; `layer_zstd` is empty where there is none."""

    name: str
    index: str
    manifest: str
    config: str
    layer: str
    layer_gzip: str
    layer_zstd: str

    @property
    def layers(self) -> frozenset[str]:
        """Every layer type of the family that a base may hold, foreign ones included."""
        own = {self.layer, self.layer_gzip, self.layer_zstd} - {""}
        return frozenset(own | _FOREIGN[self.name] | _READ_ONLY[self.name])


OCI = Family(
    name="OCI",
    index="application/vnd.oci.image.index.v1+json",
    manifest="application/vnd.oci.image.manifest.v1+json",
    config="application/vnd.oci.image.config.v1+json",
    layer="application/vnd.oci.image.layer.v1.tar",
    layer_gzip="application/vnd.oci.image.layer.v1.tar+gzip",
    layer_zstd="application/vnd.oci.image.layer.v1.tar+zstd",
)
DOCKER = Family(
    name="Docker",
    index="application/vnd.docker.distribution.manifest.list.v2+json",
    manifest="application/vnd.docker.distribution.manifest.v2+json",
    config="application/vnd.docker.container.image.v1+json",
    layer="application/vnd.docker.image.rootfs.diff.tar",
    layer_gzip="application/vnd.docker.image.rootfs.diff.tar.gzip",
    layer_zstd="",
)
FAMILIES = (OCI, DOCKER)
_FOREIGN = {
    "OCI": frozenset(
        f"application/vnd.oci.image.layer.nondistributable.v1.tar{suffix}"
        for suffix in ("", "+gzip", "+zstd")
    ),
    "Docker": frozenset(
        {DOCKER_FOREIGN_LAYER_GZIP, "application/vnd.docker.image.rootfs.foreign.diff.tar"}
    ),
}
# What BuildKit and containerd write although Docker's specification lacks it. Never ours.
_READ_ONLY: dict[str, frozenset[str]] = {
    "OCI": frozenset(),
    "Docker": frozenset({"application/vnd.docker.image.rootfs.diff.tar.zstd"}),
}


def family_of_manifest(media_type: str) -> Family | None:
    """Return the family whose image manifest has `media_type`."""
    return next((family for family in FAMILIES if family.manifest == media_type), None)


def family_of_index(media_type: str) -> Family | None:
    """Return the family whose index (manifest list) has `media_type`."""
    return next((family for family in FAMILIES if family.index == media_type), None)


def is_foreign(media_type: str) -> bool:
    """Tell whether a layer's bytes lie elsewhere: its descriptor is copied, never fetched."""
    return any(media_type in foreign for foreign in _FOREIGN.values())
