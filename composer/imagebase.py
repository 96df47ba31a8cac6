"""Bases that are images: pinned by digest, read through file tables, never pulled.

Documents and the few files that modules touch are kept in the store; of the layers only their
tables. What a locked build asks of a base is in the lock (`composer.facts`), so that it reads
no table at all.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from .errors import InputError, IntegrityError
from .oci.digest import Digest
from .oci.filetree import Entry, LayerTable, Tree
from .oci.image import Image
from .oci.layout import Layout
from .oci.manifest import Config, Descriptor, Index, Manifest
from .oci.mediatype import family_of_index, is_foreign
from .oci.platform import Platform
from .oci.ports import Source
from .oci.registry.delivery import overlap
from .oci.scan import Scanned, scan
from .progress import counted
from .tables import held_table, keep_table

__all__ = ["ImageBase", "ImageLayers", "LayerFiles"]

_KEPT = 16 * 1024 * 1024  # bytes; a larger file is read when it is asked for
_STREAMS = 2  # layers read at once


@dataclass(frozen=True, slots=True)
class ImageBase:
    """An image somewhere, pinned to `top`.

    shown: as images.toml spells it. location: where it is for every machine, the same or not.
    """

    shown: str
    location: str
    top: Descriptor
    source: Callable[[], Source]
    layout: Layout

    def document(self, descriptor: Descriptor) -> bytes:
        """Return a manifest, index or config: from the store, else from where the image is."""
        if self.layout.has(descriptor.digest, descriptor.size):
            return self.layout.read(descriptor.digest)
        raw = self.source().document(descriptor)
        self.layout.put(raw)
        return raw

    @property
    def single(self) -> bool:
        """The base is one manifest and no index."""
        return family_of_index(self.top.media_type) is None

    def images(self) -> dict[str, Descriptor]:
        """Return the manifest of each platform.

        Raises:
            InputError: none, two of one platform, or a document that is no image.
            IntegrityError, UnreachableError: see `Source.document`.
        """
        raw = self.document(self.top)
        if self.single:
            return {self._named(self.image(self.top).platform): self.top}
        try:
            children = Index.parse(raw, self.top.media_type).images()
        except ValueError as error:
            raise self._unusable(str(error)) from error
        found: dict[str, Descriptor] = {}
        for child in children:
            platform = self._named(child.platform or self.image(child).platform)
            if platform in found:
                raise self._unusable(f"it has two images for {platform}")
            found[platform] = child
        if not found:
            raise self._unusable("it lists no image")
        return found

    def _named(self, platform: Platform) -> str:
        try:
            return str(Platform.parse(str(platform)))
        except ValueError as error:
            raise self._unusable(f"its platform: {error}") from error

    def image(self, descriptor: Descriptor) -> Image:
        """Return one platform's manifest and config.

        Raises:
            InputError: a document that is not one of an image, or that mixes families.
        """
        try:
            manifest = Manifest.parse(self.document(descriptor), descriptor.media_type)
            config = Config.parse(self.document(manifest.config))
        except ValueError as error:
            raise self._unusable(str(error)) from error
        if len(config.diff_ids) != len(manifest.layers):
            raise self._unusable(
                f"{len(manifest.layers)} layers, but {len(config.diff_ids)} diff_ids in its config"
            )
        return Image(manifest, config)

    def _unusable(self, why: str) -> InputError:
        return InputError.of(
            "the base is not an image that can be built on", where=self.shown, found=why
        )


@dataclass(frozen=True, slots=True)
class ImageLayers:
    """The layers of one platform of an image. `wanted`: ends of paths whose content to keep."""

    base: ImageBase
    image: Image
    wanted: frozenset[str] = frozenset()

    def files(self) -> LayerFiles:
        """Return all files, of tables that are made now where the store does not have them."""
        numbers = range(len(self.image.manifest.layers))
        return LayerFiles.of(overlap(self._table, numbers, _STREAMS))

    def _table(self, number: int) -> LayerTable:
        diff_id = self.image.config.diff_ids[number]
        held = held_table(self.base.layout, diff_id)
        return held if held is not None else self._scan(number, self._wants).table

    def _wants(self, path: str, entry: Entry) -> bool:
        name = posixpath.basename(path)
        return entry.size <= _KEPT and any(
            f"/{path}".endswith(end) for end in self.wanted if end.endswith(name)
        )

    def content(self, path: str, entry: Entry, number: int) -> bytes:
        """Return a file of layer `number`, from the store where it is held.

        Raises:
            IntegrityError: the layer does not have what its table says.
        """
        digest = Digest("sha256", entry.sha256)
        if not self.base.layout.has(digest, entry.size):
            written = entry.inode.partition(":")[2]  # the name that has the content
            names = {posixpath.basename(one) for one in (path, written)}
            self._scan(number, partial(_may_be, entry.size, names))
        if not self.base.layout.has(digest, entry.size):
            raise IntegrityError.of(
                "a layer of the base does not have a file that its table has",
                where=f"{self.base.shown}, layer {number + 1}, /{path}",
                expected=str(digest),
            )
        return self.base.layout.read(digest, limit=entry.size)

    def _scan(self, number: int, wanted: Callable[[str, Entry], bool]) -> Scanned:
        """Stream a layer once; keep its table, and the files that are wanted."""
        layer = self.image.manifest.layers[number]
        where = f"{self.base.shown}, layer {number + 1} ({layer.digest})"
        if is_foreign(layer.media_type):
            raise InputError.of(
                "a layer of the base lies elsewhere (a foreign layer) and is never fetched",
                where=where,
                fix="modules cannot be checked against this base",
            )
        room = max(_KEPT * 4, layer.size)
        label = f"layer {number + 1} of {len(self.image.manifest.layers)}, {self.base.shown}"
        chunks = counted(self.base.source().chunks(layer), label, layer.size)
        found = scan(chunks, layer.media_type, where=where, wanted=wanted, room=room)
        expected = self.image.config.diff_ids[number]
        if found.diff_id != expected:
            raise IntegrityError.of(
                "a layer of the base is not the one its config names",
                where=where,
                expected=f"diff_id {expected}",
                found=str(found.diff_id),
            )
        for data in found.contents.values():
            self.base.layout.put(data)
        keep_table(self.base.layout, expected, found.table)
        return found


def _may_be(size: int, names: set[str], path: str, entry: Entry) -> bool:
    # The reader asks before it has hashed the file. A hard link's content has another name.
    return entry.size == size and posixpath.basename(path) in names


@dataclass(frozen=True, slots=True)
class LayerFiles:
    """The merged files of layers, with the layer that holds each."""

    tree: Tree
    tables: tuple[LayerTable, ...]
    _children: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Iterable[LayerTable]) -> LayerFiles:
        """Merge tables, the lowest first."""
        layers = tuple(tables)
        return cls(Tree.merge(layers), layers)

    def stat(self, path: str) -> Entry | None:
        """Return what is at `path`, links not followed."""
        return self.tree.stat(path)

    def names(self, path: str, stem: str = "") -> Sequence[str]:
        """Return the sorted names in a directory that start with `stem` and a dot."""
        return self.tree.names(path, stem)

    def package_roots(self, package: str) -> Sequence[str]:
        """Return the directories of Python packages that hold `package`, sorted."""
        return self.tree.package_roots(package)

    def siblings(self, path: str) -> Sequence[str]:
        """Return the other names of a hard-linked file."""
        return self.tree.siblings(path)

    def layer(self, path: str) -> int:
        """Return the number of the layer, from the bottom, that holds a file's content."""
        entry = self.tree.entries[path]
        for number in reversed(range(len(self.tables))):
            found = self.tables[number].entries.get(path)
            if found is not None and found.kind in ("f", "h"):
                return self._holder(number, path, entry)
        raise KeyError(path)

    def _holder(self, number: int, path: str, entry: Entry) -> int:
        """Return the layer with the content of what may be a hard link into a lower one."""
        found = self.tables[number].entries[path]
        if found.kind == "f":
            return number
        for lower in range(number, -1, -1):
            entries = self.tables[lower].entries.values()
            if any(one.kind == "f" and one.sha256 == entry.sha256 for one in entries):
                return lower
        raise KeyError(path)
