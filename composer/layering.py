"""Changes of modules -> the layers of the derived image, one a module."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import bytecode
from .oci.digest import sha256
from .oci.filetree import directory, regular, resolve
from .oci.layer import Layer, Member, encode_layer, whiteout
from .oci.manifest import canonical_json
from .overlay import OVERLAY_PATH, FileChange, View

__all__ = ["LAYER_LIMIT", "OVERLAY_PATH", "SQUASHED", "BuiltLayer", "layers_of", "overlay_layer"]

# Docker's overlay2 driver and containerd both stop short of 128 lower directories.
LAYER_LIMIT = 120
SQUASHED = "(all modules)"
OVERLAY = "(overlay.json)"


@dataclass(frozen=True, slots=True)
class BuiltLayer:
    """A layer of ours with its bytes. `module`: its name, or `SQUASHED`, or `OVERLAY`."""

    module: str
    layer: Layer
    blob: bytes = field(repr=False)


def layers_of(
    changes: Sequence[FileChange], view: View, *, epoch: int, base_layers: int
) -> list[BuiltLayer]:
    """Return a layer for each module that changes files, in their order.

    With more layers than `LAYER_LIMIT` all modules share one. `epoch`: mtime, in seconds.
    """
    by_module: dict[str, list[FileChange]] = {}
    for change in changes:
        by_module.setdefault(change.module, []).append(change)
    if len(by_module) > 1 and base_layers + len(by_module) + 1 > LAYER_LIMIT:
        by_module = {SQUASHED: _squashed(changes, view)}
    return [
        _built(module, _members(own, view, epoch), view, epoch) for module, own in by_module.items()
    ]


def overlay_layer(document: Mapping[str, object], view: View, *, epoch: int) -> BuiltLayer:
    """Return the layer that tells a container what it is made of."""
    data = canonical_json(document) + b"\n"
    entry = regular(len(data), sha256(data).hex, mtime=epoch)
    path = resolve(view.stat, OVERLAY_PATH)
    return _built(OVERLAY, [Member(path, entry, data)], view, epoch)


def _squashed(changes: Iterable[FileChange], view: View) -> list[FileChange]:
    """Return the last change of each file, without those that came and went again."""
    last = {change.path: change for change in changes}
    return [
        change
        for path, change in last.items()
        if change.post is not None or view.stat(path) is not None
    ]


def _members(changes: Iterable[FileChange], view: View, epoch: int) -> list[Member]:
    members: dict[str, Member] = {}
    for change in changes:
        if bytecode.is_source(change.path):
            for path in bytecode.stale(change.path, view.names):
                gone = whiteout(path, epoch)
                members[gone.path] = gone
    for change in changes:
        member = _file(change, epoch)
        members[member.path] = member
    return list(members.values())


def _file(change: FileChange, epoch: int) -> Member:
    if change.post is None:
        return whiteout(change.path, epoch)
    source = bytecode.is_source(change.path)
    entry = change.entry._replace(
        kind="f",
        mtime=bytecode.mtime(epoch, change.post) if source else epoch,
        size=len(change.data),
        sha256=change.post.hex,
        inode="",
    )
    return Member(change.path, entry, change.data)


def _built(module: str, members: Sequence[Member], view: View, epoch: int) -> BuiltLayer:
    """Add every ancestor directory and encode: runtimes recreate a left-out parent wrongly."""
    entries = {member.path: member for member in members}
    for member in members:
        folder = posixpath.dirname(member.path)
        while folder and folder not in entries:
            found = view.stat(folder)
            known = found is not None and found.is_dir
            entries[folder] = Member(folder, found if found and known else directory(epoch))
            folder = posixpath.dirname(folder)
    blob = bytearray()
    layer = encode_layer((entries[path] for path in sorted(entries)), blob.extend)
    return BuiltLayer(module, layer, bytes(blob))
