"""What a comparison runs against: a registry, a Docker daemon, and a proxy that counts bytes.

Each lives in a directory of its own, is stopped by its process and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["CountingProxy", "docker_daemon", "registry", "unmount_below"]

_STARTUP = 60.0  # seconds


@contextlib.contextmanager
def registry(directory: Path) -> Iterator[str]:
    """Run distribution's registry over `directory`; yields its `host:port`."""
    netloc = f"127.0.0.1:{_free_port()}"
    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(directory / "data")},
            "delete": {"enabled": True},
        },
        "http": {"addr": netloc},
    }
    path = directory / "config.yml"
    path.write_text(json.dumps(config))  # JSON is YAML
    with _running(["docker-registry", "serve", str(path)], directory / "log"):
        host, _, port = netloc.partition(":")
        _wait(lambda: _answers(host, int(port)), directory / "log")
        yield netloc


@contextlib.contextmanager
def docker_daemon(directory: Path) -> Iterator[str]:
    """Run a dockerd of our own; yields the DOCKER_HOST to reach it."""
    directory.mkdir(parents=True, exist_ok=True)
    sock = directory / "docker.sock"
    driver = "overlay2" if _overlay_works(directory) else "vfs"
    command = ["dockerd", "--data-root", str(directory / "data"), "--storage-driver", driver]
    command += ["--exec-root", str(directory / "exec"), "--pidfile", str(directory / "pid")]
    command += ["--host", f"unix://{sock}", "--bridge", "none"]
    command += ["--iptables=false", "--ip6tables=false"]
    log = directory / "log"
    with _running(command, log):
        _wait(lambda: "API listen on" in log.read_text(errors="replace"), log)
        yield f"unix://{sock}"


@contextlib.contextmanager
def _running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(ready: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + _STARTUP
    while time.monotonic() < end:
        if ready():
            return
        time.sleep(0.05)
    raise SystemExit(f"it did not start; its log ends with\n{log.read_text()[-2000:]}")


def _answers(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
        return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def unmount_below(directory: Path) -> None:
    """Unmount what tools have left mounted in a directory."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed(mounts):
        if place.startswith(f"{directory}/"):
            subprocess.run(["umount", "-l", place], check=False)


def _overlay_works(directory: Path) -> bool:
    """Tell whether overlay file systems can be mounted over `directory`."""
    parts = {name: directory / f"try-{name}" for name in ("lower", "upper", "work", "all")}
    for path in parts.values():
        path.mkdir(exist_ok=True)
    options = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
    command = ["mount", "-t", "overlay", "overlay", "-o", options, str(parts["all"])]
    works = subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    if works:
        subprocess.run(["umount", str(parts["all"])], check=True)
    for path in parts.values():
        shutil.rmtree(path)
    return works


class CountingProxy:
    """Forwards TCP connections to `netloc`; `moved` counts the bytes of both directions."""

    def __init__(self, netloc: str) -> None:
        host, _, port = netloc.partition(":")
        self._target = (host, int(port))
        self._lock = threading.Lock()
        self.moved = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.netloc = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no further connection."""
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                with self._lock:
                    self.moved += len(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
