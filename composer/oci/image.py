"""Images as values: a manifest and its config. Each operation returns a new image.

A derived image repeats its base's layer descriptors and every field of the base's config that is
not set anew, so that the base keeps its bytes and its meaning. Storing and moving the blobs is
left to `layout` and `registry`; whether an image holds together, to `validate`.
Sources: OCI image-spec config.md, manifest.md and image-index.md; Dockerfile reference, ENTRYPOINT.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .digest import Digest
from .layer import Layer
from .manifest import Config, Index, Manifest
from .mediatype import OCI
from .platform import Platform

__all__ = ["DEFAULT_PATH", "AddedLayer", "Image", "derive", "index_of", "scratch"]

# What Docker puts into an image that sets no PATH (moby, DefaultPathEnv on Unix).
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UNRECORDED = "layer of the base, which has no history of it"
_NOTHING: Mapping[str, str] = MappingProxyType({})
# RFC 3339 section 5.6, "date-time", as Go parses it: engines refuse a config with another.
_DATE_TIME = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)\Z",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image of one platform."""

    manifest: Manifest
    config: Config

    @property
    def digest(self) -> Digest:
        """The manifest's digest."""
        return self.manifest.digest

    @property
    def platform(self) -> Platform:
        """What the image runs on, as its config says."""
        return self.config.platform


@dataclass(frozen=True, slots=True)
class AddedLayer:
    """A layer to put on a base, and what its history entry says of it."""

    layer: Layer
    created_by: str


def derive(
    base: Image,
    layers: Sequence[AddedLayer],
    *,
    created: str,
    env: Mapping[str, str] = _NOTHING,
    labels: Mapping[str, str] = _NOTHING,
    entrypoint: Sequence[str] | None = None,
    cmd: Sequence[str] | None = None,
    workdir: str | None = None,
) -> Image:
    """Return `base` with `layers` on top and the given settings replaced.

    `created` is an RFC 3339 time. `None` keeps what the base says and an empty list clears it;
    a new entrypoint clears the base's command unless `cmd` is given too. Annotations of the
    base's manifest describe the base and are left behind.

    Raises:
        ValueError: the base has other numbers of layers and diff_ids, or a value that a config
            cannot hold.
    """
    _check_settings(base, created, env)
    runtime = dict(base.config.runtime)
    _set_env(runtime, env)
    if labels:
        runtime["Labels"] = {**(runtime.get("Labels") or {}), **labels}
    _set_command(runtime, entrypoint, cmd)
    if workdir is not None:
        runtime["WorkingDir"] = workdir
    document = {
        **base.config.document,
        "created": created,
        "rootfs": _rootfs(base.config, layers),
        "history": _history(base.config, layers, created),
    }
    if runtime or base.config.runtime:
        document["config"] = runtime
    return _on_layers_of(base.manifest, layers, Config.make(document))


def scratch(platform: Platform, created: str) -> Image:
    """Return an OCI image of no layers, to derive from. `created` is an RFC 3339 time."""
    config = Config.make(
        {
            **platform.document(),
            "created": created,
            "config": {"Env": [f"PATH={DEFAULT_PATH}"]},
            "rootfs": {"type": "layers", "diff_ids": []},
            "history": [],
        }
    )
    return Image(Manifest.make(OCI, config=config.descriptor(OCI), layer_documents=()), config)


def index_of(images: Iterable[Image]) -> Index:
    """Return an index over one image per platform, in the order of their platforms.

    Raises:
        ValueError: no image, two of one platform, or images of both families.
    """
    chosen = sorted(images, key=lambda image: image.platform)
    platforms = [str(image.platform) for image in chosen]
    twice = sorted({one for one in platforms if platforms.count(one) > 1})
    families = {image.manifest.family.name: image.manifest.family for image in chosen}
    if twice:
        raise ValueError(f"an index takes one image a platform; several are of {', '.join(twice)}")
    if len(families) != 1:
        found = " and ".join(sorted(families)) or "none"
        raise ValueError(f"an index takes images of one family, not of {found}")
    (family,) = families.values()
    return Index.make(family, [image.manifest.descriptor(image.platform) for image in chosen])


def _on_layers_of(base: Manifest, layers: Sequence[AddedLayer], config: Config) -> Image:
    family = base.family
    ours = [added.layer.descriptor(family).document() for added in layers]
    manifest = Manifest.make(
        family,
        config=config.descriptor(family),
        layer_documents=[*base.layer_documents, *ours],
    )
    return Image(manifest, config)


def _check_settings(base: Image, created: str, env: Mapping[str, str]) -> None:
    held, named = len(base.manifest.layers), len(base.config.diff_ids)
    if held != named:
        raise ValueError(f"the base's manifest has {held} layers, its config {named} diff_ids")
    if not _DATE_TIME.match(created):
        raise ValueError(f"created is {created!r}, not an RFC 3339 time")
    for name in env:
        if not name or "=" in name:
            raise ValueError(f"{name!r} cannot name an environment variable")


def _set_env(runtime: dict[str, Any], env: Mapping[str, str]) -> None:
    """Override variables where the base has them; the others follow, sorted."""
    if not env:
        return
    lines: list[str] = []
    names = set()
    for line in runtime.get("Env") or ():
        name = line.partition("=")[0]
        names.add(name)
        lines.append(f"{name}={env[name]}" if name in env else line)
    runtime["Env"] = [*lines, *(f"{name}={env[name]}" for name in sorted(env.keys() - names))]


def _set_command(
    runtime: dict[str, Any], entrypoint: Sequence[str] | None, cmd: Sequence[str] | None
) -> None:
    if entrypoint is not None and cmd is None:
        cmd = ()
    for key, value in (("Entrypoint", entrypoint), ("Cmd", cmd)):
        if value is not None:
            runtime.pop(key, None)
        if value:
            runtime[key] = list(value)


def _rootfs(base: Config, layers: Sequence[AddedLayer]) -> dict[str, Any]:
    ours = [str(added.layer.diff_id) for added in layers]
    return {
        "type": "layers",
        **base.document["rootfs"],
        "diff_ids": [*map(str, base.diff_ids), *ours],
    }


def _history(base: Config, layers: Sequence[AddedLayer], created: str) -> list[Mapping[str, Any]]:
    """Return the base's history, put in step with its layers, and an entry for each of ours."""
    missing = len(base.diff_ids)
    history: list[Mapping[str, Any]] = []
    for entry in base.history:
        if not entry.get("empty_layer"):
            missing -= 1
        # An entry for a layer that is not there says as much; none is dropped.
        history.append({**entry, "empty_layer": True} if missing < 0 else entry)
    padding: dict[str, Any] = {"comment": _UNRECORDED}
    if base.created:
        padding["created"] = base.created
    history += [padding] * missing
    return history + [{"created": created, "created_by": added.created_by} for added in layers]
