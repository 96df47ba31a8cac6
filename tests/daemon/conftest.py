"""A Docker daemon of the tests' own, with an image in it."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer.oci.daemon import Daemon
from composer.oci.dockerhost import Endpoint

BUSYBOX = Path("/bin/busybox")
GREETING = b"good morning\n"
# cap_net_raw=ep as the kernel keeps it.
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")


def _cannot() -> str:
    if os.geteuid() != 0:
        return "a Docker daemon needs root"
    missing = [one for one in ("dockerd", "containerd", "runc") if shutil.which(one) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (apt-get install docker.io)"
    return ""


@pytest.fixture(scope="session")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a dockerd that is stopped after the tests."""
    if reason := _cannot():
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("dockerd")
    path = root / "docker.sock"
    command = ["dockerd", "--data-root", root / "data", "--exec-root", root / "exec"]
    command += ["--host", f"unix://{path}", "--pidfile", root / "pid", "--storage-driver", "vfs"]
    command += ["--bridge", "none", "--iptables=false", "--ip6tables=false"]
    with (root / "log").open("wb") as log:
        daemon = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
    try:
        _wait(daemon, path, root / "log")
        yield path
    finally:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _wait(daemon: subprocess.Popen[bytes], path: Path, log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and daemon.poll() is None:
        if b"API listen on" in log.read_bytes():
            return
        time.sleep(0.05)
    pytest.skip(f"dockerd does not run here: {log.read_text()[-500:]}")


@pytest.fixture(scope="session")
def endpoint(socket: Path) -> Endpoint:
    """Where the daemon is."""
    return Endpoint(f"unix://{socket}", "the tests")


@pytest.fixture(scope="session")
def daemon(endpoint: Endpoint) -> Iterator[Daemon]:
    """The daemon, with the image `tiny:v1` in it."""
    made = Daemon.connect(endpoint)
    made.api.import_image_from_data(_root(), repository="tiny", tag="v1")
    yield made
    made.close()


def _root() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind in (("etc", tarfile.DIRTYPE), ("opt", tarfile.DIRTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.mtime = kind, 0o755, 1000
            archive.addfile(info)
        busybox = BUSYBOX.read_bytes() if BUSYBOX.exists() else b"no busybox here"
        files = {"opt/busybox": busybox, "opt/greeting": GREETING, "opt/empty": b""}
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(content), 0o750, 1234
            info.uid, info.gid = 1000, 100
            if name == "opt/greeting":
                value = CAPABILITY.decode("utf-8", "surrogateescape")
                info.pax_headers = {"SCHILY.xattr.security.capability": value}
            archive.addfile(info, io.BytesIO(content))
        for name, target, kind in (
            ("opt/link", "greeting", tarfile.SYMTYPE),
            ("bin", "opt", tarfile.SYMTYPE),
            ("opt/hard", "opt/busybox", tarfile.LNKTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            # A hard link's header is applied to the file again, and changes or strips as it does.
            info.mode, info.mtime, info.uid, info.gid = 0o750, 1234, 1000, 100
            archive.addfile(info)
    return out.getvalue()
