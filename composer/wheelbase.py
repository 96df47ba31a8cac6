"""Bases: where a derived image starts, made from wheels and kept in the store.

A base is assembled once for its pins; what was assembled is found again by a digest of them.
Files of a base are read one by one, and those that were read stay in the store, so that a later
build needs neither the wheel nor the network. What reads wheels is imported when one is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import ComposeError, InputError
from .fingerprint import FORMAT
from .imagebase import LayerFiles
from .oci import toc
from .oci.digest import Digest, sha256
from .oci.filetree import Entry, LayerTable, Tree
from .oci.image import AddedLayer, Image, derive, scratch
from .oci.layer import Layer, Member, encode_layer
from .oci.layout import Layout, atomic_write
from .oci.manifest import Config, Manifest, canonical_json
from .oci.platform import Platform
from .plan import rfc3339
from .progress import transfer
from .wheelpin import WheelPin
from .wheelplace import WheelPlace

__all__ = ["Below", "WheelBase"]

# What a base of wheels says of its age: the earliest time that zip files can hold.
CREATED = "1980-01-01T00:00:00Z"
_EPOCH = 315532800


@dataclass(frozen=True, slots=True)
class Below:
    """The image that wheels are put on. epoch: of their files, in seconds."""

    image: Image
    files: Callable[[], LayerFiles]
    epoch: int


@dataclass(frozen=True, slots=True)
class WheelBase:
    """Wheels on one platform, alone or on an image. `where`: in images.toml, for messages."""

    place: WheelPlace
    platform: Platform
    pins: tuple[WheelPin, ...]
    layout: Layout
    where: str
    below: Below | None = None

    def load(self) -> tuple[Image, list[LayerTable]]:
        """Return the image with the wheels, and their tables; assembled now if it has to be.

        Raises:
            InputError: wheels that cannot be installed together, or on that image.
            UnreachableError: a wheel that is neither in the store nor to be had.
            IntegrityError: a wheel whose bytes are not those of its pin or its RECORD.
        """
        found = self._recorded()
        if found is None:
            with self.layout.exclusive(f"base-{self._key()}"):
                found = self._recorded() or self._assemble()
        return found

    def read(self, tables: Sequence[LayerTable], path: str, entry: Entry) -> bytes:
        """Return a file of the wheels, whose tables these are, from the store where it is held."""
        digest = Digest("sha256", entry.sha256)
        if not self.layout.has(digest, entry.size):
            number = max(at for at, table in enumerate(tables) if path in table.entries)
            found = self._members(self.pins[number], tables[:number])
            member = next(one for one in found if one.path == path)
            data = (member.data,) if isinstance(member.data, bytes) else member.data()
            self.layout.put_chunks(data, digest)
        return self.layout.read(digest, limit=entry.size)

    @property
    def _epoch(self) -> int:
        return self.below.epoch if self.below is not None else _EPOCH

    def _start(self) -> Image:
        return self.below.image if self.below is not None else scratch(self.platform, CREATED)

    def _key(self) -> str:
        document = {
            "compose-base": 1,
            "format": FORMAT,
            "platform": str(self.platform),
            "below": str(self.below.image.digest) if self.below is not None else "",
            "package_root": self.place.package_root,
            "interpreter": self.place.interpreter,
            "wheels": [[pin.filename, str(pin.digest)] for pin in self.pins],
        }
        return sha256(canonical_json(document)).hex

    def _record(self) -> Path:
        return self.layout.root / "bases" / f"{self._key()}.json"

    def _recorded(self) -> tuple[Image, list[LayerTable]] | None:
        """Return what an earlier run assembled, if all of it is still there."""
        try:
            record = json.loads(self._record().read_bytes())
            manifest, config, *tables = (Digest.parse(one) for one in record)
            image = Image(
                Manifest.parse(self.layout.read(manifest)), Config.parse(self.layout.read(config))
            )
            loaded = [toc.decode(self.layout.read(table)) for table in tables]
        except (OSError, ValueError, KeyError, TypeError, ComposeError):
            return None  # whatever is wrong with it, it is only a cache
        own = image.manifest.layers[len(image.manifest.layers) - len(tables) :]
        held = all(self.layout.has(one.digest, one.size) for one in own)
        return (image, loaded) if held else None

    def _assemble(self) -> tuple[Image, list[LayerTable]]:
        tables: list[LayerTable] = []
        added: list[AddedLayer] = []
        for pin in self.pins:
            found = self._members(pin, tables)
            layer = self._keep(found, f"assemble {pin.filename}")
            added.append(AddedLayer(layer, f"compose wheel {pin.filename}"))
            tables.append(LayerTable({one.path: one.entry for one in found}))
        image = derive(self._start(), added, created=rfc3339(self._epoch))
        manifest = self.layout.put(image.manifest.raw)
        config = self.layout.put(image.config.raw)
        stored = [str(self.layout.put(toc.encode(table))) for table in tables]
        atomic_write(
            self._record(), canonical_json([str(manifest), str(config), *stored]), durable=False
        )
        return image, tables

    def _keep(self, members: Sequence[Member], label: str) -> Layer:
        total = sum(one.entry.size for one in members if one.entry.is_file)
        with transfer(label, total) as advance, self.layout.ingest() as ingest:

            def emit(data: bytes | memoryview) -> None:
                ingest.write(data)
                advance(len(data))

            layer = encode_layer(members, emit)
            ingest.commit(layer.digest)
        return layer

    def _members(self, pin: WheelPin, wheels: Sequence[LayerTable]) -> tuple[Member, ...]:
        """Return what the layer of one wheel holds, on top of the layers of `wheels`."""
        from . import wheelhouse
        from .wheel import members, read_wheel

        lower = self.below.files().tables if self.below is not None else ()
        tree = Tree.merge([*lower, *wheels])
        self._check_absent(pin, tree)
        path = wheelhouse.fetch(pin, self.place.target(self.platform, self.where), self.layout)
        wheel = read_wheel(path, filename=pin.filename)
        scheme = self.place.scheme(self.where)
        return members(wheel, scheme, mtime=self._epoch, stat=tree.stat)

    def _check_absent(self, pin: WheelPin, tree: Tree) -> None:
        """Refuse a distribution that is there already: its old files would stay beside the new."""
        for name in tree.names(tree.resolve(self.place.package_root)):
            stem, dot, kind = name.rpartition(".")
            distribution, _, version = stem.partition("-")
            same = re.sub(r"[-_.]+", "-", distribution).lower() == pin.name
            if dot and kind in ("dist-info", "egg-info") and same:
                raise InputError.of(
                    f"the base already has {pin.name} {version}",
                    where=self.where,
                    found=f"/{self.place.package_root}/{name}",
                    fix="take the wheel out of the base, or start from an image without it",
                )
