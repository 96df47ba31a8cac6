"""A small image as bytes and descriptors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from composer.oci.digest import sha256
from composer.oci.manifest import Config, Descriptor, Manifest
from composer.oci.mediatype import OCI
from tests.support.registry import Simulator

OCTETS = "application/octet-stream"


def blob(data: bytes, media_type: str = OCTETS) -> Descriptor:
    return Descriptor(media_type, sha256(data), len(data))


def once(data: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: [data]


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that look random and are not."""
    return random.Random(seed).randbytes(size)


@dataclass(frozen=True)
class Small:
    config: bytes
    layers: tuple[bytes, ...]
    manifest: Manifest

    @classmethod
    def make(cls, *layers: bytes) -> Small:
        config = Config.make({"os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).raw
        documents = [blob(one, OCI.layer).document() for one in layers]
        manifest = Manifest.make(OCI, config=blob(config, OCI.config), layer_documents=documents)
        return cls(config, layers, manifest)

    def put_into(self, sim: Simulator, name: str, *tags: str) -> None:
        for data in (self.config, *self.layers):
            sim.add_blob(name, data)
        sim.add_manifest(name, self.manifest.raw, self.manifest.media_type, *tags)
