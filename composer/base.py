"""Bases: where a derived image starts, made from wheels and kept in the store.

A base is assembled once for its pins; what was assembled is found again by a digest of them.
Files of a base are read one by one, and those that were read stay in the store, so that a later
build needs neither the wheel nor the network.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import wheelhouse
from .errors import ComposeError, InputError
from .fingerprint import FORMAT
from .oci import toc
from .oci.digest import Digest, sha256
from .oci.filetree import Entry, LayerTable, Tree
from .oci.image import AddedLayer, Image, derive, scratch
from .oci.layer import Member, encode_layer
from .oci.layout import Layout, atomic_write
from .oci.manifest import Config, Manifest, canonical_json
from .oci.platform import Platform
from .plan import PlatformBase
from .spec import BaseSpec
from .wheel import Scheme, members, read_wheel
from .wheelhouse import WheelPin, WheelTarget

__all__ = ["WheelBase", "wheel_target"]

# What a base of wheels says of its age: the earliest time that zip files can hold.
CREATED = "1980-01-01T00:00:00Z"
_EPOCH = 315532800
# The glibc of Ubuntu 22.04, on which vLLM's own image is built; `glibc` of a base says another.
_GLIBC = "2.35"


def wheel_target(spec: BaseSpec, platform: Platform) -> WheelTarget:
    """Return what wheels of a base must fit."""
    return WheelTarget(python=spec.python or "", platform=platform, glibc=spec.glibc or _GLIBC)


def _scheme(spec: BaseSpec, where: str) -> Scheme:
    root = (spec.package_root or "").lstrip("/")
    python = f"python{spec.python}"
    if f"/{python}/" not in f"/{root}/":
        raise InputError.of(
            "the package root is not that of the base's Python",
            where=where,
            expected=f"a directory below lib/{python}/",
            found=f"/{root}",
        )
    prefix = root.partition(f"lib/{python}/")[0]
    # Debian keeps packages of the system's interpreter below /usr/local/lib as "dist-packages".
    system = posixpath.basename(root) == "dist-packages"
    folder = "usr/bin" if system else posixpath.join(prefix, "bin")
    try:
        return Scheme(root, spec.interpreter or f"/{folder}/{python}")
    except ValueError as error:
        raise InputError.of(str(error), where=where) from error


@dataclass(frozen=True, slots=True)
class _Files:
    """The view of an assembled base. `open_`: the content of a path, from the wheels."""

    tree: Tree
    layout: Layout
    open_: Callable[[str], Iterable[bytes]]

    def stat(self, path: str) -> Entry | None:
        return self.tree.stat(path)

    def names(self, path: str) -> Sequence[str]:
        return self.tree.names(path)

    def siblings(self, path: str) -> Sequence[str]:
        return self.tree.siblings(path)

    def read(self, path: str) -> bytes:
        entry = self.tree.entries[path]
        digest = Digest("sha256", entry.sha256)
        if not self.layout.has(digest, entry.size):
            self.layout.put_chunks(self.open_(path), digest)
        return self.layout.read(digest, limit=entry.size)


@dataclass(frozen=True, slots=True)
class WheelBase:
    """A base of wheels on one platform. `where`: its place in images.toml, for messages."""

    spec: BaseSpec
    platform: Platform
    pins: tuple[WheelPin, ...]
    layout: Layout
    where: str

    def load(self) -> PlatformBase:
        """Return the base, assembled now if the store does not have it.

        Raises:
            InputError: wheels that cannot be installed together.
            UnreachableError: a wheel that is neither in the store nor to be had.
            IntegrityError: a wheel whose bytes are not those of its pin or its RECORD.
        """
        scheme = _scheme(self.spec, self.where)
        found = self._recorded()
        if found is None:
            with self.layout.exclusive(f"base-{self._key()}"):
                found = self._recorded() or self._assemble(scheme)
        image, tables = found
        opener = _Opener(self, scheme, tables)
        view = _Files(Tree.merge(tables), self.layout, opener)
        return PlatformBase(self.platform, image, view, scheme.package_root)

    def _key(self) -> str:
        document = {
            "compose-base": 1,
            "format": FORMAT,
            "platform": str(self.platform),
            "package_root": self.spec.package_root,
            "interpreter": self.spec.interpreter or "",
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
        held = all(self.layout.has(one.digest, one.size) for one in image.manifest.layers)
        return (image, loaded) if held else None

    def _assemble(self, scheme: Scheme) -> tuple[Image, list[LayerTable]]:
        tables: list[LayerTable] = []
        added: list[AddedLayer] = []
        for pin in self.pins:
            found = self._members(pin, scheme, tables)
            with self.layout.ingest() as ingest:
                layer = encode_layer(found, ingest.write)
                ingest.commit(layer.digest)
            added.append(AddedLayer(layer, f"compose wheel {pin.filename}"))
            tables.append(LayerTable({one.path: one.entry for one in found}))
        image = derive(scratch(self.platform, CREATED), added, created=CREATED)
        manifest = self.layout.put(image.manifest.raw)
        config = self.layout.put(image.config.raw)
        stored = [str(self.layout.put(toc.encode(table))) for table in tables]
        atomic_write(self._record(), canonical_json([str(manifest), str(config), *stored]))
        return image, tables

    def _members(
        self, pin: WheelPin, scheme: Scheme, below: Sequence[LayerTable]
    ) -> tuple[Member, ...]:
        path = wheelhouse.fetch(pin, wheel_target(self.spec, self.platform), self.layout)
        wheel = read_wheel(path, filename=pin.filename)
        return members(wheel, scheme, mtime=_EPOCH, stat=Tree.merge(below).stat)


class _Opener:
    """Finds the wheel that brought a path and reads that one file."""

    def __init__(self, base: WheelBase, scheme: Scheme, tables: Sequence[LayerTable]) -> None:
        self.base = base
        self.scheme = scheme
        self.tables = tables

    def __call__(self, path: str) -> Iterable[bytes]:
        number = max(at for at, table in enumerate(self.tables) if path in table.entries)
        pin = self.base.pins[number]
        found = self.base._members(pin, self.scheme, self.tables[:number])
        member = next(one for one in found if one.path == path)
        if isinstance(member.data, bytes):
            return (member.data,)
        return member.data()
