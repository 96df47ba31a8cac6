"""The base of an image as one run pins it: wheels, an image, or wheels on an image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .errors import InputError, IntegrityError
from .facts import Facts, FactView, LayeredFiles
from .imagebase import ImageBase, ImageLayers
from .lock import Lock, LockedBase, LockedPlatform, LockedWheel
from .module import Module
from .oci.digest import Digest
from .oci.image import Image, index_of
from .oci.layout import Layout
from .oci.manifest import Descriptor
from .oci.platform import Platform
from .oci.ports import Source
from .plan import PlatformBase
from .sources import open_source, reference_of
from .spec import BaseSpec
from .wheelbase import WheelBase, glibc_of
from .wheelpin import WheelPin

__all__ = ["Base", "pin_image"]


@dataclass(frozen=True, slots=True)
class Base:
    """A pinned base. `where`: its place in images.toml. `children`: manifest by platform."""

    name: str
    spec: BaseSpec
    where: str
    layout: Layout
    image: ImageBase | None
    children: Mapping[str, Descriptor]
    pins: Mapping[str, tuple[WheelPin, ...]]

    @property
    def platforms(self) -> Sequence[str]:
        """The platforms, sorted: those that are listed, or all that the image has."""
        return sorted(self.spec.platforms or self.children)

    @property
    def single(self) -> bool:
        """The derived image is one manifest and no index, as its base."""
        return self.image.single if self.image is not None else len(self.platforms) == 1

    def pinned(self) -> list[tuple[str, str]]:
        """Return (platform, digest) of everything the base is pinned to."""
        found = [("", str(self.image.top.digest))] if self.image is not None else []
        for platform in self.platforms:
            found += [(platform, str(pin.digest)) for pin in self.pins.get(platform, ())]
        return found

    def load(
        self, platform: str, locked: LockedPlatform | None, modules: Iterable[Module]
    ) -> PlatformBase:
        """Return the base on one platform. `locked`: what a lock says of it.

        Raises:
            ComposeError: it cannot be had, or is not what it is pinned to.
        """
        if self.image is None:
            pins = self.pins[platform]
            where = self.where
            return WheelBase(self.spec, Platform.parse(platform), pins, self.layout, where).load()
        image = self.image.image(self.children[platform])
        layers = ImageLayers(self.image, image, _ends(modules))
        same = locked is not None and locked.base == str(image.digest)
        facts = _facts(locked) if locked is not None and same else Facts()
        view = FactView(facts, _Loaded(layers), layers.content)
        reference, root = reference_of(self.image.shown), self.spec.package_root
        return PlatformBase(
            platform=Platform.parse(platform),
            image=image,
            view=view,
            package_root=root.lstrip("/") if root is not None else None,
            name=str(reference) if reference is not None else "",
            facts=view.used,
        )

    def record(self, images: Sequence[Image], epoch: int, chosen: int | None) -> LockedBase:
        """Return what the lock says. images: of all platforms; epoch, chosen: in seconds."""
        wheels = [
            LockedWheel(
                platform=platform,
                requirement=pin.requirement,
                name=pin.name,
                version=pin.version,
                filename=pin.filename,
                digest=str(pin.digest),
                size=pin.size,
            )
            for platform in self.platforms
            for pin in self.pins.get(platform, ())
        ]
        if self.image is not None:
            top = self.image.top
        elif len(images) == 1:
            top = images[0].manifest.descriptor()
        else:
            top = index_of(images).descriptor()
        return LockedBase(
            name=self.name,
            digest=str(top.digest),
            image=self.image.shown if self.image is not None else "",
            media_type=top.media_type if self.image is not None else "",
            size=top.size if self.image is not None else 0,
            epoch=epoch,
            source_date_epoch=chosen,
            python=self.spec.python or "" if wheels else "",
            glibc=glibc_of(self.spec) if wheels else "",
            wheels=tuple(wheels),
        )


def _facts(locked: LockedPlatform) -> Facts:
    try:
        return Facts.parse(locked.facts)
    except ValueError as error:
        raise IntegrityError.of(
            "the lock is damaged",
            where=f"facts of {locked.platform}",
            found=str(error),
            fix="restore it: `git checkout -- lock/`",
        ) from error


class _Loaded:
    """All files of an image, merged when the first question needs them."""

    def __init__(self, layers: ImageLayers) -> None:
        self._layers = layers
        self._files: LayeredFiles | None = None

    def __call__(self) -> LayeredFiles:
        if self._files is None:
            self._files = self._layers.files()
        return self._files


def _ends(modules: Iterable[Module]) -> frozenset[str]:
    """Return how the paths end that modules will read, whatever the package root is."""
    targets = {one.target for module in modules for one in module.changes if one.kind == "patch"}
    return frozenset(map(_end, targets))


def _end(target: str) -> str:
    if not target.startswith("/"):
        return f"/{target}"
    # Of an absolute path a link may lead elsewhere: most often one far above the file.
    return "/" + "/".join(target.strip("/").split("/")[-2:])


def pin_image(
    spec: BaseSpec, old: Lock | None, *, upgrade: bool, root: Path, layout: Layout, where: str
) -> tuple[ImageBase, dict[str, Descriptor]]:
    """Pin the image of a base: to what the lock says, else to what its reference names now.

    Raises:
        InputError: there is no such image, or not on a platform that is asked for.
    """
    shown = spec.image or ""
    source = _Lazy(partial(open_source, shown, root))
    if old is not None and old.base.image == shown and not upgrade:
        top = Descriptor(old.base.media_type, Digest.parse(old.base.digest), old.base.size)
    else:
        top = source().top()
    base = ImageBase(shown, top, source, layout)
    children = base.images()
    missing = [one for one in spec.platforms if one not in children]
    if missing:
        raise InputError.of(
            f"the base has no image for {', '.join(missing)}",
            where=where,
            expected=", ".join(spec.platforms),
            found=", ".join(sorted(children)),
            fix="take it out of 'platforms', or choose a base that has it",
        )
    return base, children


class _Lazy:
    """Opens a source once, when it is first needed."""

    def __init__(self, make: partial[Source]) -> None:
        self._make = make
        self._source: Source | None = None

    def __call__(self) -> Source:
        if self._source is None:
            self._source = self._make()
        return self._source
