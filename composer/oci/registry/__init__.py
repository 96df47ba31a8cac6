"""Registries as sources and destinations of images (OCI distribution-spec 1.1).

`Registries` is what one run shares: connections, tokens, settings. `Repository` is both ports.
urllib3 is imported with the first request, not before.
"""

from .delivery import Delivered, Parcel, deliver
from .registries import Registries, Settings
from .repository import Repository

__all__ = ["Delivered", "Parcel", "Registries", "Repository", "Settings", "deliver"]
