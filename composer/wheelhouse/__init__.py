"""Wheels from package indexes: resolved once through pip, pinned by digest, kept in the store."""

from ..wheel.tags import WheelTarget
from ..wheelpin import WheelPin
from .house import fetch, resolve

__all__ = ["WheelPin", "WheelTarget", "fetch", "resolve"]
