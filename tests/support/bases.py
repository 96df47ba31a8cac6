"""Bases and definitions of images as values, ready to plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from composer.module import Module
from composer.oci.digest import sha256
from composer.oci.image import Image
from composer.oci.manifest import Config, Descriptor, Manifest
from composer.oci.mediatype import OCI, Family
from composer.oci.platform import Platform
from composer.plan import PlatformBase
from composer.project import ImageDefinition
from composer.spec import BaseSpec
from tests.support.packages import ROOT, package
from tests.support.trees import MemoryView

__all__ = ["CREATED", "base_image", "definition", "platform_base"]

CREATED = "2024-05-01T12:30:00Z"


def base_image(
    platform: str = "linux/amd64",
    *,
    family: Family = OCI,
    layers: int = 2,
    created: str | None = CREATED,
    config: Mapping[str, Any] | None = None,
) -> Image:
    """An image as another tool made it, of layers that nobody has."""
    blobs = [sha256(b"layer %d of %s" % (number, platform.encode())) for number in range(layers)]
    diff_ids = [sha256(str(blob).encode()) for blob in blobs]
    document = {
        **Platform.parse(platform).document(),
        "config": config if config is not None else {"Env": ["PATH=/usr/bin"], "Cmd": ["serve"]},
        "rootfs": {"type": "layers", "diff_ids": [str(diff_id) for diff_id in diff_ids]},
        "history": [{"created_by": f"step {number}"} for number in range(layers)],
        **({"created": created} if created is not None else {}),
    }
    made = Config.make(document)
    descriptors = [Descriptor(family.layer_gzip, blob, 1000).document() for blob in blobs]
    manifest = Manifest.make(family, config=made.descriptor(family), layer_documents=descriptors)
    return Image(manifest, made)


def platform_base(
    view: MemoryView | None = None, *, image: Image | None = None, name: str = "", **how: Any
) -> PlatformBase:
    """A base on one platform; `how`: see `base_image`."""
    image = image or base_image(**how)
    return PlatformBase(image.platform, image, view or package(), ROOT, name)


def definition(modules: Sequence[Module] = (), **settings: Any) -> ImageDefinition:
    """An image `app` of modules in order; `settings`: its other fields."""
    return ImageDefinition(
        **{
            "name": "app",
            "base_name": "base",
            "base": BaseSpec(image="registry.example/base:1"),
            "modules": tuple(modules),
            "retired": (),
            "repository": None,
            "knobs": {},
            "env": {},
            "labels": {},
            "entrypoint": None,
            "cmd": None,
            "workdir": None,
            "cache_namespace": False,
            "inputs": {},
            **settings,
        }
    )
