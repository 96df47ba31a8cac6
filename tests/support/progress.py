"""A listener to transfers that remembers what it was told."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Heard", "Listener"]


@dataclass
class Heard:
    """One transfer. `whole` is None while it lasts."""

    label: str
    total: int | None
    moved: int = 0
    whole: bool | None = None

    def advance(self, count: int) -> None:
        self.moved += count

    def finish(self, *, whole: bool) -> None:
        assert self.whole is None, "a transfer ends once"
        self.whole = whole


@dataclass
class Listener:
    """Every transfer, in the order in which they began."""

    heard: list[Heard] = field(default_factory=list)

    def begin(self, label: str, total: int | None) -> Heard:
        self.heard.append(Heard(label, total))
        return self.heard[-1]
