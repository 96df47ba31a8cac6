"""An image's definition and its base -> every byte of the derived image. Pure.

Per platform: the modules' changes, the layers, the config, the manifest; over them an index
where the base has one.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import fingerprint
from .errors import Fault, InputError
from .facts import Facts
from .layering import BuiltLayer, layers_of, overlay_layer
from .module import Module
from .oci.digest import Digest
from .oci.image import AddedLayer, Image, derive, index_of
from .oci.manifest import Config, Index
from .oci.platform import Platform
from .overlay import FileChange, Overlay, View, overlay
from .project import ImageDefinition

__all__ = ["Plan", "PlatformBase", "PlatformPlan", "knob_values", "plan", "rfc3339", "settings"]

LABEL_INPUTS = "dev.compose.inputs"
LABEL_MODULES = "dev.compose.modules"
LABEL_BASE_NAME = "org.opencontainers.image.base.name"
LABEL_BASE_DIGEST = "org.opencontainers.image.base.digest"
CACHE_VARIABLE = "VLLM_CACHE_ROOT"
# vLLM's own default; vLLM expands the tilde, so it is written literally.
CACHE_DEFAULT = "~/.cache/vllm"
_ZIP_EPOCH = 315532800  # 1980-01-01, the earliest time that zip files can hold
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND = datetime.timedelta(seconds=1)
# RFC 3339 section 5.6, "date-time"; the fraction is dropped.
_DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):(\d\d))\Z",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class PlatformBase:
    """A base on one platform.

    package_root: without leading slash, None to find it. name, origin: reference and manifest
    digest of the image that somebody else made; a base of wheels has no name. own: how many of
    the base's layers, the last ones, are ours to push. facts: what was asked of an image.
    partial: the base's layers are nowhere as blobs, so that the image cannot be pulled.
    """

    platform: Platform
    image: Image
    view: View
    package_root: str | None
    name: str = ""
    origin: Digest | None = None
    own: int = 0
    facts: Facts | None = None
    partial: bool = False


@dataclass(frozen=True, slots=True)
class PlatformPlan:
    """The derived image of one platform. `cache_root`: empty without a namespace."""

    base: PlatformBase
    overlay: Overlay
    layers: tuple[BuiltLayer, ...]
    image: Image
    cache_root: str

    @property
    def platform(self) -> Platform:
        """The platform."""
        return self.base.platform


@dataclass(frozen=True, slots=True)
class Plan:
    """A derived image. `index` is None where the base is a single manifest."""

    definition: ImageDefinition
    platforms: tuple[PlatformPlan, ...]
    inputs: Digest
    index: Index | None
    epoch: int

    @property
    def digest(self) -> Digest:
        """What a pin uses."""
        top = self.index or self.platforms[0].image.manifest
        return top.digest


def knob_values(definition: ImageDefinition) -> list[tuple[str, str, tuple[str, ...], str]]:
    """Return (module, knob, values, value in force by default) of an image's knobs."""
    return [
        (module.name, knob.name, knob.values, definition.knobs.get(knob.name, knob.default))
        for module in definition.modules
        for knob in module.knobs
    ]


def settings(definition: ImageDefinition) -> dict[str, Any]:
    """Return what the image sets in its config, as declared."""
    return {
        "env": dict(definition.env),
        "labels": dict(definition.labels),
        "entrypoint": list(definition.entrypoint) if definition.entrypoint is not None else None,
        "cmd": list(definition.cmd) if definition.cmd is not None else None,
        "workdir": definition.workdir or "",
        "cache_namespace": definition.cache_namespace,
    }


def plan(
    definition: ImageDefinition,
    bases: Sequence[PlatformBase],
    *,
    epoch: int | None = None,
    others: Mapping[str, Mapping[str, Any]] | None = None,
    single: bool = True,
) -> Plan:
    """Plan an image on `bases`, one a platform.

    epoch: seconds, instead of what the base's config says. others: `platform_inputs` of the
    platforms that are not planned now. single: the base has no index.

    Raises:
        InputError: every fault of every module on every platform.
    """
    when = _epoch(bases[0], epoch)
    overlays = [overlay(definition.modules, base.view, base.package_root) for base in bases]
    _raise_faults(bases, overlays)
    names = [module.name for module in definition.modules]
    platforms = dict(others or {})
    for base, one in zip(bases, overlays, strict=True):
        platforms[str(base.platform)] = fingerprint.platform_inputs(
            base=base.image.manifest.digest,
            base_name=base.name,
            epoch=when,
            modules=names,
            changes=one.changes,
        )
    inputs = fingerprint.inputs(
        platforms=platforms, knobs=knob_values(definition), config=settings(definition)
    )
    planned = tuple(
        _platform(definition, base, one, inputs=inputs, epoch=when)
        for base, one in zip(bases, overlays, strict=True)
    )
    index = None if single else index_of([one.image for one in planned])
    return Plan(definition, planned, inputs, index, when)


def _epoch(base: PlatformBase, epoch: int | None) -> int:
    if epoch is not None:
        return max(0, epoch)
    return epoch_of(base.image.config)


def epoch_of(config: Config) -> int:
    """Return a config's `created` in whole seconds, not below 0; 1980-01-01 where it has none.

    What is not RFC 3339 counts as none: Python's own parser takes more with each version.
    """
    if not (parts := _DATE_TIME.match(config.created)):
        return _ZIP_EPOCH
    try:
        local = datetime.datetime.fromisoformat(f"{parts[1]}+00:00")
    except ValueError:
        return _ZIP_EPOCH
    offset = 0
    if parts[2]:
        sign = -1 if parts[2] == "-" else 1
        offset = sign * (int(parts[3]) * 60 + int(parts[4])) * 60
    return max(0, (local - _EPOCH) // _SECOND - offset)


def _raise_faults(bases: Sequence[PlatformBase], overlays: Sequence[Overlay]) -> None:
    """Report a fault once, and say on which platforms where that is not all of them."""
    where: dict[Fault, list[str]] = {}
    for base, one in zip(bases, overlays, strict=True):
        for fault in one.faults:
            where.setdefault(fault, []).append(str(base.platform))
    if where:
        raise InputError(*(_on_platforms(fault, on, len(bases)) for fault, on in where.items()))


def _on_platforms(fault: Fault, platforms: Sequence[str], count: int) -> Fault:
    if len(platforms) == count:
        return fault
    return replace(fault, what=f"{fault.what} (on {', '.join(platforms)} only)")


def _platform(
    definition: ImageDefinition,
    base: PlatformBase,
    applied: Overlay,
    *,
    inputs: Digest,
    epoch: int,
) -> PlatformPlan:
    layers = layers_of(
        applied.changes, base.view, epoch=epoch, base_layers=len(base.image.manifest.layers)
    )
    document = _overlay_document(definition.modules, applied)
    layers.append(overlay_layer(document, base.view, epoch=epoch))
    env = {name: value for _, name, _, value in knob_values(definition)}
    env.update(definition.env)
    cache_root = ""
    if definition.cache_namespace:
        env[CACHE_VARIABLE] = cache_root = _cache_root(env, base, applied)
    image = derive(
        base.image,
        [AddedLayer(one.layer, f"compose {one.module}") for one in layers],
        created=rfc3339(epoch),
        env=env,
        labels=_labels(definition, base, inputs),
        entrypoint=definition.entrypoint,
        cmd=definition.cmd,
        workdir=definition.workdir,
    )
    return PlatformPlan(base, applied, tuple(layers), image, cache_root)


def _cache_root(env: Mapping[str, str], base: PlatformBase, applied: Overlay) -> str:
    own = base.image.config.env.get(CACHE_VARIABLE)
    parent = env.get(CACHE_VARIABLE) or own or CACHE_DEFAULT
    suffix = fingerprint.cache_suffix(base.image.config.diff_ids, applied.changes)
    return f"{parent.rstrip('/')}/{suffix}"


def _labels(definition: ImageDefinition, base: PlatformBase, inputs: Digest) -> dict[str, str]:
    labels = {
        **definition.labels,
        LABEL_BASE_DIGEST: str(base.origin or base.image.manifest.digest),
        LABEL_INPUTS: str(inputs),
        LABEL_MODULES: ",".join(module.name for module in definition.modules),
    }
    if base.name:
        labels[LABEL_BASE_NAME] = base.name
    return labels


def _overlay_document(modules: Iterable[Module], applied: Overlay) -> dict[str, Any]:
    """Return what `/usr/share/compose/overlay.json` says, in the modules' order."""
    return {
        "schema": 1,
        "modules": [
            {
                "name": module.name,
                "knobs": [
                    {"name": knob.name, "values": list(knob.values)} for knob in module.knobs
                ],
                "changes": [_change_document(change) for change in applied.of(module.name)],
            }
            for module in modules
        ],
    }


def _change_document(change: FileChange) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "target": change.target,
        "path": f"/{change.path}",
        "pre": str(change.pre) if change.pre is not None else None,
        "post": str(change.post) if change.post is not None else None,
    }


def rfc3339(epoch: int) -> str:
    """Return a time, in seconds since 1970, as a config writes it."""
    return datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
