"""Bases that only a Docker daemon has: neither compressed layers nor their sizes are to be had.

Such a base is what its config and its diff_ids say, written down as a manifest whose layers are
named by diff_id and have no size. That manifest is an identity and no document that any tool
could pull: what is built on it can be loaded where the base is, and run. To push it, the base
has to be exported.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .errors import InputError
from .oci.digest import Digest
from .oci.filetree import Entry, LayerTable, normalise
from .oci.image import Image
from .oci.layout import Layout
from .oci.manifest import Descriptor, Manifest
from .oci.mediatype import OCI

if TYPE_CHECKING:
    from .oci.daemonfiles import DaemonFiles

__all__ = ["PREFIX", "DaemonLayers", "DaemonSource"]

PREFIX = "docker-daemon:"


@dataclass(slots=True)
class DaemonSource:
    """An image of the daemon as a source of its documents. `name` as the daemon knows it."""

    name: str
    _documents: dict[Digest, bytes] = field(default_factory=dict, repr=False)

    def top(self) -> Descriptor:
        """Return the manifest that stands for the image.

        Raises:
            InputError: the daemon has no such image. UnreachableError: it does not answer.
        """
        from .oci.daemon import connect

        daemon = connect()
        image = daemon.image(self.name)
        config = daemon.config(image) or daemon.saved_config(image)
        layers = [Descriptor(OCI.layer, one, 0).document() for one in config.diff_ids]
        manifest = Manifest.make(OCI, config=config.descriptor(OCI), layer_documents=layers)
        self._documents = {manifest.digest: manifest.raw, config.digest: config.raw}
        return manifest.descriptor()

    def document(self, descriptor: Descriptor) -> bytes:
        """Return the manifest or the config.

        Raises:
            InputError: the daemon's image is another one by now.
        """
        if not self._documents:
            self.top()
        if descriptor.digest not in self._documents:
            raise InputError.of(
                f"the Docker daemon has another image under the name {self.name!r} by now",
                expected=str(descriptor.digest),
                found=" and ".join(map(str, self._documents)),
                fix="load the old one again, or move to the new one: --upgrade-base",
            )
        return self._documents[descriptor.digest]

    def chunks(self, descriptor: Descriptor) -> Iterator[bytes]:
        """Refuse: a daemon has no layers as they were.

        Raises:
            InputError: always.
        """
        raise InputError.of(
            "a layer of the base is in a Docker daemon only",
            where=f"{PREFIX}{self.name}",
            found=str(descriptor.digest),
            fix="export it: compose push --export-base; or docker save, and archive:FILE.tar",
        )


@dataclass(slots=True)
class DaemonLayers:
    """The files of such an image, asked for one by one in a container that never runs."""

    name: str
    image: Image
    layout: Layout
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)
    _files: list[DaemonFiles] = field(default_factory=list, repr=False)
    _stats: dict[str, Entry | None] = field(default_factory=dict, repr=False)
    _tables: dict[str, LayerTable] = field(default_factory=dict, repr=False)

    def __call__(self) -> DaemonLayers:
        """Return the files: itself."""
        return self

    def close(self) -> None:
        """Remove the container."""
        self._stack.close()
        self._files.clear()

    def _opened(self) -> DaemonFiles:
        if not self._files:
            from .oci.daemon import connect
            from .oci.daemonfiles import opened

            daemon = connect()
            found = daemon.image(self.name)
            if found.diff_ids != self.image.config.diff_ids:
                DaemonSource(self.name).document(self.image.manifest.descriptor())
            self._files.append(self._stack.enter_context(opened(daemon, found)))
        return self._files[0]

    def stat(self, path: str) -> Entry | None:
        """Return what is at `path`, links not followed."""
        if path == "":
            return Entry("d", 0o755)
        if path not in self._stats:
            self._stats[path] = self._opened().stat(path)
        return self._stats[path]

    def names(self, path: str, stem: str = "") -> Sequence[str]:
        """Return the sorted names in a directory that start with `stem` and a dot.

        The daemon cannot list a directory: all that is in it is sent, once.
        """
        entry = self.stat(path)
        if entry is None or not entry.is_dir:
            return ()
        if path not in self._tables:
            self._tables[path] = self._opened().table(path)
        below = (one for one in self._tables[path].entries if posixpath.dirname(one) == path)
        names = (posixpath.basename(one) for one in below)
        return sorted(one for one in names if not stem or one.startswith(f"{stem}."))

    def package_roots(self, package: str) -> Sequence[str]:
        """Refuse: finding a directory needs all files.

        Raises:
            InputError: always.
        """
        raise InputError.of(
            "a daemon cannot be searched for the package root",
            where=f"{PREFIX}{self.name}",
            found=f"no package_root for {package}",
            fix="name it in the base: package_root = ...",
        )

    def siblings(self, path: str) -> Sequence[str]:
        """Return nothing: a daemon does not tell which names are hard links."""
        return ()

    def layer(self, path: str) -> int:
        """Return a number that says nothing: contents are not found by layer."""
        return 0

    def content(self, path: str, entry: Entry, number: int) -> bytes:
        """Return a file, from the store where it is held; `number` is `layer`'s."""
        digest = Digest("sha256", entry.sha256)
        if not self.layout.has(digest, entry.size):
            self.layout.put_chunks([self._opened().read(normalise(path))], digest)
        return self.layout.read(digest, limit=entry.size)
