"""Bases: where a derived image starts, made from wheels and kept in the store.

A base is assembled once for its pins; what was assembled is found again by a digest of them.
Files of a base are read one by one, and those that were read stay in the store, so that a later
build needs neither the wheel nor the network. What reads wheels is imported when one is read.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ComposeError, InputError
from .fingerprint import FORMAT
from .oci import toc
from .oci.digest import Digest, sha256
from .oci.filetree import Entry, LayerTable, Tree
from .oci.image import AddedLayer, Image, derive, scratch
from .oci.layer import Layer, Member, encode_layer
from .oci.layout import Layout, atomic_write
from .oci.manifest import Config, Manifest, canonical_json
from .oci.platform import Platform
from .plan import PlatformBase
from .progress import transfer
from .spec import BaseSpec
from .wheelpin import WheelPin

if TYPE_CHECKING:
    from .wheel import Scheme
    from .wheelhouse import WheelTarget

__all__ = ["WheelBase", "glibc_of", "wheel_target"]

# What a base of wheels says of its age: the earliest time that zip files can hold.
CREATED = "1980-01-01T00:00:00Z"
_EPOCH = 315532800
# The glibc of Ubuntu 22.04, on which vLLM's own image is built; `glibc` of a base says another.
_GLIBC = "2.35"


def wheel_target(spec: BaseSpec, platform: Platform, where: str) -> WheelTarget:
    """Return what wheels of a base must fit.

    Raises:
        InputError: the base's `python`, `glibc` or platform is not one that wheels are made for.
    """
    from .wheelhouse import WheelTarget

    try:
        return WheelTarget(spec.python or "", platform, glibc_of(spec))
    except ValueError as error:
        raise InputError.of(str(error), where=where) from error


def glibc_of(spec: BaseSpec) -> str:
    """Return the glibc of a base."""
    return spec.glibc or _GLIBC


def _package_root(spec: BaseSpec, where: str) -> str:
    root = (spec.package_root or "").lstrip("/")
    folder = f"lib/python{spec.python}"
    if f"/{folder}/" not in f"/{root}":
        raise InputError.of(
            "the package root is not that of the base's Python",
            where=where,
            expected=f"a directory below {folder}/",
            found=f"/{root}",
        )
    return root


def _scheme(spec: BaseSpec, where: str) -> Scheme:
    from .wheel import Scheme

    root = _package_root(spec, where)
    prefix = root.partition(f"lib/python{spec.python}/")[0]
    # Debian keeps packages of the system's interpreter below /usr/local/lib as "dist-packages".
    system = posixpath.basename(root) == "dist-packages"
    folder = "usr/bin" if system else posixpath.join(prefix, "bin")
    try:
        return Scheme(root, spec.interpreter or f"/{folder}/python{spec.python}")
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

    def names(self, path: str, stem: str = "") -> Sequence[str]:
        return self.tree.names(path, stem)

    def package_roots(self, package: str) -> Sequence[str]:
        return self.tree.package_roots(package)

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
        package_root = _package_root(self.spec, self.where)
        found = self._recorded()
        if found is None:
            with self.layout.exclusive(f"base-{self._key()}"):
                found = self._recorded() or self._assemble()
        image, tables = found
        view = _Files(Tree.merge(tables), self.layout, _Opener(self, tables))
        own = len(image.manifest.layers)
        return PlatformBase(self.platform, image, view, package_root, own=own)

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

    def _assemble(self) -> tuple[Image, list[LayerTable]]:
        tables: list[LayerTable] = []
        added: list[AddedLayer] = []
        for pin in self.pins:
            found = self.members(pin, tables)
            layer = self._keep(found, f"assemble {pin.filename}")
            added.append(AddedLayer(layer, f"compose wheel {pin.filename}"))
            tables.append(LayerTable({one.path: one.entry for one in found}))
        image = derive(scratch(self.platform, CREATED), added, created=CREATED)
        manifest = self.layout.put(image.manifest.raw)
        config = self.layout.put(image.config.raw)
        stored = [str(self.layout.put(toc.encode(table))) for table in tables]
        atomic_write(self._record(), canonical_json([str(manifest), str(config), *stored]))
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

    def members(self, pin: WheelPin, below: Sequence[LayerTable]) -> tuple[Member, ...]:
        """Return what the layer of one wheel holds, on top of the layers `below`."""
        from . import wheelhouse
        from .wheel import members, read_wheel

        target = wheel_target(self.spec, self.platform, self.where)
        path = wheelhouse.fetch(pin, target, self.layout)
        wheel = read_wheel(path, filename=pin.filename)
        scheme = _scheme(self.spec, self.where)
        return members(wheel, scheme, mtime=_EPOCH, stat=Tree.merge(below).stat)


@dataclass(frozen=True, slots=True)
class _Opener:
    """Finds the wheel that brought a path and reads that one file."""

    base: WheelBase
    tables: Sequence[LayerTable]

    def __call__(self, path: str) -> Iterable[bytes]:
        number = max(at for at, table in enumerate(self.tables) if path in table.entries)
        found = self.base.members(self.base.pins[number], self.tables[:number])
        member = next(one for one in found if one.path == path)
        return (member.data,) if isinstance(member.data, bytes) else member.data()
