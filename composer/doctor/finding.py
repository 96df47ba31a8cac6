"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Self

from ..errors import ComposeError

__all__ = ["Finding", "Level"]


class Level(Enum):
    """FAIL: `compose` needs it. WARN: some of its verbs do, or it costs something."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of `name`, and what to do where that is not as it should be.

    about: the machine, or which registry.
    """

    about: str
    name: str
    level: Level
    found: str
    fix: str = ""

    @classmethod
    def of(cls, about: str, name: str, level: Level, error: ComposeError) -> Self:
        """Return what an error says as a finding."""
        fault = error.faults[0]
        found = ": ".join(part for part in (fault.what, fault.where, fault.found) if part)
        return cls(about, name, level, found, fault.fix)

    def document(self) -> dict[str, str]:
        """Return it as JSON has it."""
        return {
            "about": self.about,
            "name": self.name,
            "level": self.level.value,
            "found": self.found,
            "fix": self.fix,
        }
