"""A layer's file table as bytes, to be kept: canonical JSON, addressed by its digest."""

from __future__ import annotations

import json
from typing import Any

from .filetree import Entry, LayerTable
from .manifest import canonical_json

__all__ = ["decode", "encode"]

_VERSION = 1


def encode(table: LayerTable) -> bytes:
    """Serialise a table: the same table gives the same bytes."""
    return canonical_json(
        {
            "version": _VERSION,
            "entries": [[path, *table.entries[path]] for path in sorted(table.entries)],
            "whiteouts": sorted(table.whiteouts),
            "opaque": sorted(table.opaque),
        }
    )


def decode(data: bytes) -> LayerTable:
    """Read a table back.

    Raises:
        ValueError: not a table of this version.
    """
    document: dict[str, Any] = json.loads(data)
    if document.get("version") != _VERSION:
        raise ValueError(f"a file table of version {document.get('version')}, not {_VERSION}")
    return LayerTable(
        {path: _entry(fields) for path, *fields in document["entries"]},
        frozenset(document["whiteouts"]),
        frozenset(document["opaque"]),
    )


def _entry(fields: list[Any]) -> Entry:
    if fields[8]:
        fields[8] = tuple((key, value) for key, value in fields[8])
    else:
        fields[8] = ()
    return Entry._make(fields)
