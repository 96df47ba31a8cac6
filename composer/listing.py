"""The files of any image, wherever it is, without pulling it."""

from __future__ import annotations

import platform as host
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import InputError
from .imagebase import ImageBase, ImageLayers, LayerFiles
from .oci.filetree import Entry, PathError
from .oci.layout import Layout
from .oci.manifest import Descriptor
from .sources import locate, open_source
from .text import nearest

__all__ = ["Listing", "open_listing"]

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The merged files of one platform of an image."""

    layers: ImageLayers
    files: LayerFiles

    def find(self, path: str) -> str:
        """Return `path` in the image with its links followed.

        Raises:
            InputError: the image has nothing there.
        """
        try:
            found = self.files.tree.resolve(path)
        except PathError as error:
            raise InputError.of(str(error), where=self.layers.base.shown) from error
        if self.files.stat(found) is None:
            folder, _, name = found.rpartition("/")
            guess = nearest(name, self.files.tree.names(folder))
            raise InputError.of(
                f"the image has no /{found}",
                where=self.layers.base.shown,
                fix=guess if guess.startswith("did") else "",
            )
        return found

    def below(self, path: str) -> Iterator[tuple[str, Entry]]:
        """Yield what is at `path` and below it, sorted."""
        for name, entry in self.files.tree.walk():
            if not path or name == path or name.startswith(f"{path}/"):
                yield name, entry

    def read(self, path: str) -> bytes:
        """Return the content of a regular file."""
        return self.layers.content(path, self.files.tree.entries[path], self.files.layer(path))


def open_listing(
    text: str, layout: Layout, platform: str | None, path: str | None = None
) -> Listing:
    """Read the file tables of the image that `text` names.

    platform: None for the only one, or the one of this machine. path: a file whose content to
    keep on the way, or a directory.

    Raises:
        InputError: there is no such image, or not on that platform.
        UnreachableError, IntegrityError: it cannot be had, or is not what it says.
    """
    source = open_source(locate(text), Path.cwd())
    base = ImageBase(text, text, source.top(), lambda: source, layout)
    image = base.image(_choose(base, platform))
    wanted = frozenset({f"/{path.strip('/')}"}) if path else frozenset()
    layers = ImageLayers(base, image, wanted)
    return Listing(layers, layers.files())


def _choose(base: ImageBase, platform: str | None) -> Descriptor:
    images = base.images()
    if platform is None and len(images) == 1:
        return next(iter(images.values()))
    machine = host.machine()
    wanted = platform or f"linux/{_MACHINES.get(machine, machine)}"
    if wanted not in images:
        raise InputError.of(
            f"the image has no platform {wanted}",
            where=base.shown,
            expected=" or ".join(sorted(images)),
            fix="choose one: --platform",
        )
    return images[wanted]
