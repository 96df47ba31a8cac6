"""Reading an image out of a layout without our own code: the standard library's tar and gzip."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["blob", "layer_members", "manifest", "overlay_document", "own_files"]


def blob(store: Path, digest: str) -> bytes:
    """Return a blob's bytes."""
    return _path(store, digest).read_bytes()


def _path(store: Path, digest: str) -> Path:
    algorithm, _, encoded = digest.partition(":")
    return store / "blobs" / algorithm / encoded


def manifest(store: Path, digest: str) -> Any:
    """Return a JSON document of the layout."""
    return json.loads(blob(store, digest))


def layer_members(store: Path, digest: str) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Yield the members of a gzip layer with their content."""
    with tarfile.open(_path(store, digest), "r|gz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            yield member, file.read() if file is not None else b""


def own_files(store: Path, answer: Any) -> dict[str, bytes]:
    """Return the files of our own layers as the last of them leaves each, whiteouts left out.

    answer: what `compose build --json` printed.
    """
    files: dict[str, bytes] = {}
    for layer in answer["platforms"][0]["layers"]:
        for member, data in layer_members(store, layer["digest"]):
            if member.isfile() and not Path(member.name).name.startswith(".wh."):
                files[member.name] = data
    return files


def overlay_document(store: Path, answer: Any) -> Any:
    """Return the image's `overlay.json`."""
    return json.loads(own_files(store, answer)["usr/share/compose/overlay.json"])
