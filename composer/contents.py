"""Contents of changed files, by digest, as far as the store holds them.

What modules leave is in our layers; what they found in the base was kept when it was read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from .diff import FileChange
from .layering import SQUASHED
from .lock import Lock, LockedLayer, LockedPlatform
from .oci.digest import Digest
from .oci.layout import Layout, reading
from .oci.manifest import Descriptor
from .oci.scan import scan
from .oci.verify import verified
from .textdiff import TextDiff, text_diff

__all__ = ["held_contents", "text_diffs"]


def text_diffs(
    layout: Layout, files: Sequence[FileChange], locks: Iterable[Lock]
) -> dict[tuple[str, tuple[str, ...]], TextDiff]:
    """Return how the contents of files differ, by path and platforms; of those that are held.

    Raises:
        IntegrityError: a blob of the store is damaged.
    """
    wanted = {digest for one in files for digest in one.contents if digest is not None}
    held = held_contents(layout, wanted, locks)
    found = {}
    for one in files:
        before, after = one.contents
        if all(digest is None or digest in held for digest in (before, after)):
            contents = [held[digest] if digest else None for digest in (before, after)]
            found[one.path, one.platforms] = text_diff(one.path, *contents)
    return found


def held_contents(
    layout: Layout, wanted: Collection[str], locks: Iterable[Lock]
) -> dict[str, bytes]:
    """Return the contents of those digests that are blobs, or in a layer of the locks.

    Raises:
        IntegrityError: a blob of the store is damaged.
    """
    digests = {text: Digest.parse(text) for text in sorted(wanted)}
    found = {text: layout.read(digest) for text, digest in digests.items() if layout.has(digest)}
    for platform in (one for lock in locks for one in lock.platforms):
        for layer in platform.layers:
            missing = {*wanted} - found.keys()
            paths = _paths(platform, layer, missing)
            if paths and layout.has(Digest.parse(layer.digest), layer.size):
                found.update(_in_layer(layout, layer, paths))
    return found


def _paths(platform: LockedPlatform, layer: LockedLayer, missing: Collection[str]) -> set[str]:
    """Return where in a layer the missing contents are, as its archive spells it."""
    return {
        change.path.lstrip("/")
        for change in platform.changes
        if change.post in missing and layer.module in (change.module, SQUASHED)
    }


def _in_layer(layout: Layout, layer: LockedLayer, paths: Collection[str]) -> dict[str, bytes]:
    digest = Digest.parse(layer.digest)
    path = layout.path(digest)
    chunks = verified(reading(path)(), Descriptor("", digest, layer.size), str(path))
    scanned = scan(chunks, "", where=str(path), wanted=lambda name, _: name in paths)
    entries = scanned.table.entries
    return {f"sha256:{entries[name].sha256}": data for name, data in scanned.contents.items()}
