"""Platforms: `os/architecture[/variant]` (image-spec, image-index.md, "platform")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Platform"]

_PART = re.compile(r"[a-z0-9._-]+\Z")
# A variant that means the same as none (containerd's platform normalisation).
_DEFAULT_VARIANT = {"amd64": "v1", "arm": "v7", "arm64": "v8"}


@dataclass(frozen=True, slots=True, order=True)
class Platform:
    """What an image runs on. `variant` is empty where the architecture has none."""

    os: str
    architecture: str
    variant: str = ""

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Parse `linux/amd64` or `linux/arm64/v8`.

        An architecture's default variant is left out: `linux/arm64/v8` is `linux/arm64`.

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
        # config.md: "Any OPTIONAL field MAY also be set to null, … equivalent to being absent."
        os, architecture, variant = (
            str(document.get(key) or "") for key in ("os", "architecture", "variant")
        )
        return cls(os, architecture, variant).normalised()

    def normalised(self) -> Platform:
        """Return the platform without a variant that says nothing."""
        if self.variant and self.variant == _DEFAULT_VARIANT.get(self.architecture):
            return Platform(self.os, self.architecture)
        return self

    def document(self) -> dict[str, str]:
        """Return the JSON object of an index's descriptor."""
        pairs = {"architecture": self.architecture, "os": self.os, "variant": self.variant}
        return {key: value for key, value in pairs.items() if value}

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)
