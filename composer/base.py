"""The base of an image as one run pins it: wheels, an image, or wheels on an image."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .daemonbase import PREFIX, DaemonLayers
from .errors import InputError, IntegrityError
from .facts import Facts, FactView, LayeredFiles
from .imagebase import ImageBase, ImageLayers, LayerFiles
from .lock import Lock, LockedBase, LockedPlatform, LockedWheel
from .module import Module
from .oci.digest import Digest
from .oci.filetree import Entry, LayerTable
from .oci.image import Image, index_of
from .oci.layout import Layout
from .oci.manifest import Descriptor
from .oci.platform import Platform
from .oci.ports import Source
from .plan import PlatformBase, epoch_of
from .sources import locate, open_source, reference_of
from .spec import BaseSpec
from .wheelbase import Below, WheelBase
from .wheelpin import WheelPin
from .wheelplace import LIBC, WheelPlace, declared, found_in

__all__ = ["Base", "pin_image", "place_of"]


@dataclass(frozen=True, slots=True)
class Base:
    """A pinned base. `where`: its place in images.toml. `children`: manifest by platform.

    place: what its wheels are installed for; None without wheels.
    """

    name: str
    spec: BaseSpec
    where: str
    layout: Layout
    image: ImageBase | None
    children: Mapping[str, Descriptor]
    pins: Mapping[str, tuple[WheelPin, ...]]
    place: WheelPlace | None

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
            return self._wheels_alone(platform)
        original = _original(self.image, self.children[platform], platform)
        layers = _Once(ImageLayers(self.image, original, _ends(modules)))
        view: Callable[[], LayeredFiles] = layers
        image, content = original, layers.content
        if self.image.location.startswith(PREFIX):
            of_daemon = self._in_daemon(self.image.location.removeprefix(PREFIX), original)
            view, content = of_daemon, of_daemon.content
        elif self.place is not None:
            below = Below(original, layers, epoch_of(original.config))
            wheels = self._wheels(platform, below)
            image, tables = wheels.load()
            both = _Both(layers, wheels, tables)
            view, content = both, both.content
        known = locked is not None and locked.base == str(image.digest)
        count = len(image.manifest.layers)
        facts = _facts(locked, count) if locked is not None and known else Facts()
        answers = FactView(facts, view, content)
        return PlatformBase(
            platform=Platform.parse(platform),
            image=image,
            view=answers,
            package_root=self._package_root(),
            name=self._reference(),
            origin=original.digest,
            own=len(image.manifest.layers) - len(original.manifest.layers),
            facts=answers.used,
            partial=self.image.location.startswith(PREFIX),
        )

    def _in_daemon(self, name: str, image: Image) -> DaemonLayers:
        if self.place is not None:
            raise InputError.of(
                "wheels cannot be put on an image that only a Docker daemon has",
                where=self.where,
                fix=f'docker save {name} -o base.tar, and write image = "archive:base.tar"',
            )
        layers = DaemonLayers(name, image, self.layout)
        atexit.register(layers.close)
        return layers

    def _package_root(self) -> str | None:
        if self.place is not None:
            return self.place.package_root
        root = self.spec.package_root
        return root.lstrip("/") if root is not None else None

    def _reference(self) -> str:
        reference = reference_of(self.image.location) if self.image is not None else None
        return str(reference.with_digest(None)) if reference is not None else ""

    def _wheels(self, platform: str, below: Below | None) -> WheelBase:
        assert self.place is not None
        return WheelBase(
            self.place,
            Platform.parse(platform),
            self.pins[platform],
            self.layout,
            self.where,
            below,
        )

    def _wheels_alone(self, platform: str) -> PlatformBase:
        wheels = self._wheels(platform, None)
        image, tables = wheels.load()
        files = LayerFiles.of(tables)

        def content(path: str, entry: Entry, number: int) -> bytes:
            return wheels.read(tables, path, entry)

        view = FactView(Facts(), lambda: files, content)
        root = wheels.place.package_root
        return PlatformBase(Platform.parse(platform), image, view, root, own=len(tables))

    def record(self, images: Sequence[Image], epoch: int, chosen: int | None) -> LockedBase:
        """Return what the lock says. images: of all platforms; epoch, chosen: in seconds."""
        top = self._top(images)
        of_image = {}
        if self.image is not None:
            of_image = {
                "image": self.image.shown,
                "reference": _elsewhere(self.image),
                "media_type": top.media_type,
                "size": top.size,
            }
        of_wheels = {}
        if self.place is not None:
            of_wheels = {"python": self.place.python, "glibc": self.place.glibc}
        if self.place is not None and self.image is not None:
            of_wheels["package_root"] = f"/{self.place.package_root}"
            of_wheels["interpreter"] = self.place.interpreter
        return LockedBase(
            name=self.name,
            digest=str(top.digest),
            epoch=epoch,
            source_date_epoch=chosen,
            wheels=tuple(
                _locked_wheel(platform, pin)
                for platform in self.platforms
                for pin in self.pins.get(platform, ())
            ),
            **of_image,
            **of_wheels,
        )

    def _top(self, images: Sequence[Image]) -> Descriptor:
        if self.image is not None:
            return self.image.top
        if len(images) == 1:
            return images[0].manifest.descriptor()
        return index_of(images).descriptor()


def _locked_wheel(platform: str, pin: WheelPin) -> LockedWheel:
    return LockedWheel(
        platform=platform,
        requirement=pin.requirement,
        name=pin.name,
        version=pin.version,
        filename=pin.filename,
        digest=str(pin.digest),
        size=pin.size,
    )


def _original(image: ImageBase, child: Descriptor, platform: str) -> Image:
    """Return the image of one platform; its config must say the same platform as the index."""
    found = image.image(child)
    if str(found.platform) != platform:
        raise InputError.of(
            "an image of the base is of another platform than its index says",
            where=f"{image.shown}, {child.digest}",
            expected=platform,
            found=f"{found.platform}, in its config",
            fix="name the platforms to build on: 'platforms' of the base",
        )
    return found


def _elsewhere(image: ImageBase) -> str:
    return image.location if image.location != image.shown else ""


def _facts(locked: LockedPlatform, layers: int) -> Facts:
    try:
        facts = Facts.parse(locked.facts)
    except ValueError as error:
        raise _damaged(locked, str(error)) from error
    for path, number in facts.layers.items():
        if not 0 <= number < layers:
            raise _damaged(locked, f"{path} in layer {number} of {layers}, counted from 0")
    return facts


def _damaged(locked: LockedPlatform, found: str) -> IntegrityError:
    return IntegrityError.of(
        "the lock is damaged",
        where=f"facts of {locked.platform}",
        found=found,
        fix="restore it: `git checkout -- lock/`",
    )


class _Once:
    """All files of an image, merged when the first question needs them."""

    def __init__(self, layers: ImageLayers) -> None:
        self._layers = layers
        self._files: LayerFiles | None = None
        self.content = layers.content

    def __call__(self) -> LayerFiles:
        if self._files is None:
            self._files = self._layers.files()
        return self._files


class _Both:
    """All files of an image and of the wheels on it."""

    def __init__(self, image: _Once, wheels: WheelBase, tables: Sequence[LayerTable]) -> None:
        self._image = image
        self._wheels = wheels
        self._tables = tables
        self._files: LayerFiles | None = None

    def __call__(self) -> LayerFiles:
        if self._files is None:
            self._files = LayerFiles.of([*self._image().tables, *self._tables])
        return self._files

    def content(self, path: str, entry: Entry, number: int) -> bytes:
        """Return a file: `number` counts the image's layers, then the wheels'."""
        below = self._wheels.below
        assert below is not None
        if number < len(below.image.manifest.layers):
            return self._image.content(path, entry, number)
        return self._wheels.read(self._tables, path, entry)


def place_of(
    spec: BaseSpec,
    image: ImageBase | None,
    children: Mapping[str, Descriptor],
    old: Lock | None,
    *,
    where: str,
) -> WheelPlace | None:
    """Return what wheels are installed for: declared, in the lock, or read in the image.

    Raises:
        InputError: the image does not tell, or tells two things.
    """
    if not spec.wheels:
        return None
    if image is None:
        return declared(spec, where)
    said = {key: getattr(spec, key) for key in ("python", "glibc", "package_root", "interpreter")}
    if old is not None and old.base.package_root and old.base.digest == str(image.top.digest):
        recorded = {key: getattr(old.base, key) for key in said}
        if all(value in (None, recorded[key]) for key, value in said.items()):
            root = old.base.package_root.lstrip("/")
            return WheelPlace(old.base.python, old.base.glibc, root, old.base.interpreter)
    platform = min(spec.platforms or children)
    layers = ImageLayers(image, image.image(children[platform]), frozenset({LIBC}))
    files = layers.files()

    def read(path: str) -> bytes:
        return layers.content(path, files.tree.entries[path], files.layer(path))

    return found_in(files, read, spec, where)


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
    pinned = old is not None and old.base.image == shown and not upgrade
    location = locate(shown) if old is None or not pinned else old.base.reference or shown
    source = _Lazy(partial(open_source, location, root))
    if old is not None and pinned:
        top = Descriptor(old.base.media_type, Digest.parse(old.base.digest), old.base.size)
    else:
        top = source().top()
    base = ImageBase(shown, location, top, source, layout)
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
