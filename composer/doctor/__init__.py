"""What this machine and a registry can do for `compose`, and what to do about the rest.

Nothing is changed on the machine. A registry is written to only where that is asked for.
"""

from .finding import Finding, Level
from .machine import machine
from .registry import registry

__all__ = ["Finding", "Level", "machine", "registry"]
