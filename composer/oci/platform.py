"""Platforms: `os/architecture[/variant]` (image-spec, image-index.md, "platform")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Platform"]

_PART = re.compile(r"[a-z0-9._-]+\Z")


@dataclass(frozen=True, slots=True, order=True)
class Platform:
    """What an image runs on. `variant` is empty where the architecture has none."""

    os: str
    architecture: str
    variant: str = ""

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Parse `linux/amd64` or `linux/arm64/v8`.

        `v8` of arm64 is that architecture's only variant and means the same as none
        (containerd's platform normalisation).

        Raises:
            ValueError: `text` is not a platform.
        """
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(_PART.match(part) for part in parts):
            raise ValueError(f"{text!r} is not a platform, such as linux/amd64 or linux/arm64")
        return cls(*parts).normalised()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Platform:
        """Read `os`, `architecture` and `variant` of a config or a descriptor's platform."""
        return cls(
            str(document.get("os", "")),
            str(document.get("architecture", "")),
            str(document.get("variant", "")),
        ).normalised()

    def normalised(self) -> Platform:
        """Return the platform without a variant that says nothing."""
        if (self.architecture, self.variant) == ("arm64", "v8"):
            return Platform(self.os, self.architecture)
        return self

    def document(self) -> dict[str, str]:
        """Return the JSON object of an index's descriptor."""
        pairs = {"architecture": self.architecture, "os": self.os, "variant": self.variant}
        return {key: value for key, value in pairs.items() if value}

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)
