"""File tables of layers in the store, found by the diff_id of the layer they are of."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .oci import toc
from .oci.digest import Digest
from .oci.filetree import LayerTable
from .oci.layout import Layout, atomic_write

__all__ = ["held_table", "keep_table"]


def held_table(layout: Layout, diff_id: Digest) -> LayerTable | None:
    """Return the table of a layer, or None where it is not held, or not whole."""
    try:
        stated, _, data = _path(layout, diff_id).read_bytes().partition(b"\n")
        if hashlib.sha256(data).hexdigest().encode() != stated:
            return None
        return toc.decode(data)
    except (OSError, ValueError, LookupError, TypeError):
        return None  # a table can be made again


def keep_table(layout: Layout, diff_id: Digest, table: LayerTable) -> None:
    """Keep the table of a layer.

    Raises:
        UnreachableError: the store cannot be written.
    """
    data = toc.encode(table)
    stated = hashlib.sha256(data).hexdigest().encode()
    atomic_write(_path(layout, diff_id), stated + b"\n" + data, durable=False)


def _path(layout: Layout, diff_id: Digest) -> Path:
    return layout.root / "tables" / diff_id.algorithm / diff_id.hex
