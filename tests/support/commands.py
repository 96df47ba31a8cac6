"""Running `compose` and other programs as a person would: as whole processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Done:
    """What a process left behind."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line of stdout."""
        return self.out.rstrip("\n").rpartition("\n")[2]

    @property
    def json(self) -> Any:
        """Stdout as one JSON value."""
        return json.loads(self.out)


def compose(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, ok: bool = True
) -> Done:
    """Run `compose` in `cwd` with this interpreter and the environment of the tests."""
    command = [sys.executable, "-m", "composer", *arguments]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return run(command, cwd=cwd, env=surroundings, ok=ok)


def run(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, ok: bool = True
) -> Done:
    """Run a program; with `ok`, its failure is the test's."""
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=600
    )
    assert not ok or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return Done(done.returncode, done.stdout, done.stderr)


def tool(name: str) -> str:
    """Return the path of a program the test compares with; skip where it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path
