"""Running `compose` and other programs as a person would: as whole processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import threading
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


def compose_on_terminal(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, ok: bool = True
) -> Done:
    """Run `compose` with a terminal of 80 columns as its stderr, and stdout in a pipe."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    said: list[bytes] = []

    def listen() -> None:
        with contextlib.suppress(OSError):  # how Linux says that nobody writes any more
            while data := os.read(ours, 65536):
                said.append(data)

    listener = threading.Thread(target=listen)
    listener.start()
    command = [sys.executable, "-m", "composer", *arguments]
    surroundings = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT), **(env or {})}
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=surroundings,
            stdout=subprocess.PIPE,
            stderr=theirs,
            check=False,
            timeout=600,
        )
    finally:
        os.close(theirs)
        listener.join()
        os.close(ours)
    shown = b"".join(said).decode()
    assert not ok or done.returncode == 0, f"{command}\n{done.stdout!r}\n{shown}"
    return Done(done.returncode, done.stdout.decode(), shown)


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
