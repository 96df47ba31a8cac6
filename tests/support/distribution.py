"""The real registry of the distribution project, from Debian's package `docker-registry`."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["running_registry"]

PROGRAM = "docker-registry"
_STARTUP = 15.0  # seconds


@contextlib.contextmanager
def running_registry(directory: Path, htpasswd: str = "") -> Iterator[str]:
    """Run a registry over `directory`; yields its `host:port`. htpasswd: a bcrypt file's text."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed (apt-get install docker-registry)")
    netloc = f"127.0.0.1:{_free_port()}"
    config = directory / "config.yml"
    config.write_text(json.dumps(_config(directory, netloc, htpasswd)))  # JSON is YAML
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, "serve", str(config)], stdout=log, stderr=log)
        try:
            _await(netloc, process, directory / "log")
            yield netloc
        finally:
            process.terminate()
            process.wait(10)


def _config(directory: Path, netloc: str, htpasswd: str) -> dict[str, object]:
    config: dict[str, object] = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(directory / "data")}},
        "http": {"addr": netloc},
    }
    if htpasswd:
        (directory / "htpasswd").write_text(htpasswd)
        config["auth"] = {"htpasswd": {"realm": "real", "path": str(directory / "htpasswd")}}
    return config


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await(netloc: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, _, port = netloc.partition(":")
    end = time.monotonic() + _STARTUP
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.02)
    pytest.fail(f"{PROGRAM} did not start: {log.read_text()}")
