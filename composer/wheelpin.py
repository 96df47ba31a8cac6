"""A wheel found once and for all: by file name, digest and size."""

from __future__ import annotations

from dataclasses import dataclass

from .oci.digest import Digest

__all__ = ["WheelPin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelPin:
    """One wheel. requirement: as written; size: in bytes."""

    requirement: str
    name: str
    version: str
    filename: str
    digest: Digest
    size: int
