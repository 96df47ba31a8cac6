"""Wheels: read and checked, and as an installer would leave them in a layer."""

from .install import Stat, members
from .read import Wheel, WheelFile, read_wheel
from .scheme import Scheme

__all__ = ["Scheme", "Stat", "Wheel", "WheelFile", "members", "read_wheel"]
