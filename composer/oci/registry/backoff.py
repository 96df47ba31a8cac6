"""How often, how long and when a request is tried again.

Exponential steps with full jitter, a server's own `Retry-After` before ours, everything bounded.
Clock, sleep and chance are values that are handed in.
Sources: RFC 9110 section 10.2.3 (`Retry-After`); distribution-spec "Error Codes" (429).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Clock", "Patience", "Policy", "retry_after"]


@dataclass(frozen=True, slots=True)
class Clock:
    """Time in seconds: `monotonic` for spans, `wall` since the epoch; `chance` in [0, 1)."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds: `attempts` in all, `unconnected` of them where no connection came about; seconds."""

    attempts: int = 6
    unconnected: int = 3
    first: float = 0.25
    longest: float = 10.0
    total: float = 120.0


@dataclass(slots=True)
class Patience:
    """What is left of the patience with one operation."""

    policy: Policy
    clock: Clock
    failures: int = 0
    _start: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.clock.monotonic()

    def wait(self, asked: float | None = None, *, unconnected: bool = False) -> bool:
        """Sleep before another attempt; False, at once, where there is to be none.

        asked: seconds that the server wants us to wait, None where it does not say.
        """
        self.failures += 1
        if self.failures >= (self.policy.unconnected if unconnected else self.policy.attempts):
            return False
        delay = self._delay(asked)
        if self.elapsed + delay > self.policy.total:
            return False
        self.clock.sleep(delay)
        return True

    def _delay(self, asked: float | None) -> float:
        step = min(self.policy.longest, self.policy.first * 2.0 ** (self.failures - 1))
        jitter = step * self.clock.chance()
        # Every client of a busy registry is told the same second: spread out, after it.
        return jitter if asked is None else asked + min(1.0, jitter)

    @property
    def elapsed(self) -> float:
        """Seconds since the operation began."""
        return self.clock.monotonic() - self._start

    def progressed(self) -> None:
        """Start counting anew: the operation got further than it was."""
        self.failures = 0
        self._start = self.clock.monotonic()


def retry_after(header: str | None, now: float) -> float | None:
    """Return the seconds that a `Retry-After` asks for, from `now` (seconds since the epoch)."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - rare, and slow to import

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None
