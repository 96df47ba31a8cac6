"""What these tests share: a simulator, and clients that never really wait."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from composer.oci.reference import Reference
from composer.oci.registry import Registries, Repository, Settings
from composer.oci.registry.backoff import Clock, Policy
from tests.support.registry import Simulator


@dataclass
class FakeTime:
    """A clock that `sleep` moves, and that remembers what was slept."""

    now: float = 1_000.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def clock(self) -> Clock:
        return Clock(
            monotonic=lambda: self.now,
            wall=lambda: 1_700_000_000.0 + self.now,
            sleep=self.sleep,
            chance=lambda: 0.5,
        )


@dataclass
class Client:
    """Repositories of one registry, as one process would see them."""

    netloc: str
    time: FakeTime
    registries: Registries

    @classmethod
    def of(cls, netloc: str, policy: Policy | None = None, **settings: object) -> Client:
        fake = FakeTime()
        made = Settings(**{"certs": (), **settings})  # type: ignore[arg-type]
        return cls(netloc, fake, Registries(made, fake.clock(), policy or Policy()))

    def reference(self, text: str) -> Reference:
        return Reference.parse(f"{self.netloc}/{text}")

    def source(self, text: str) -> Repository:
        return self.registries.source(self.reference(text))

    def destination(self, text: str) -> Repository:
        return self.registries.destination(self.reference(text))


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator().running() as simulator:
        yield simulator


@pytest.fixture
def client(sim: Simulator) -> Client:
    return Client.of(sim.netloc)


@pytest.fixture
def login(sim: Simulator, tmp_path: Path) -> Path:
    """A file with the simulator's credentials."""
    pair = base64.b64encode(":".join(sim.user).encode()).decode()
    path = tmp_path / "auth.json"
    path.write_text(json.dumps({"auths": {sim.netloc: {"auth": pair}}}))
    return path
