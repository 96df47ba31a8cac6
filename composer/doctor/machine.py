"""This machine: Python, the programs that are run, the store, the Docker daemon."""

from __future__ import annotations

import contextlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import ComposeError, UnreachableError
from ..oci.daemon import Daemon
from ..oci.dockerhost import Endpoint, endpoint
from ..text import size
from .finding import Finding, Level

__all__ = ["file_system", "free_space", "machine", "mounted_as"]

_ABOUT = "machine"
_PYTHON = (3, 11)
_ROOM = 4 * 1024**3  # bytes: a base of vLLM's wheel and its download, twice
_TIMEOUT = 60.0  # seconds
# Where locks and renames are as good as another machine makes them.
_REMOTE = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gpfs", "lustre",
    "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
}  # fmt: skip
_MEMORY = {"ramfs", "tmpfs"}
_ELSEWHERE = "set COMPOSE_STORE to a directory on a local disk"
_PIP = f"{sys.executable} -m ensurepip, or apt-get install python3-venv and a new environment"


def machine(environ: Mapping[str, str], home: Path, store: Path) -> Iterator[Finding]:
    """Look at this machine, for the user of `environ` and `home`."""
    yield _python()
    # As `wheelhouse` runs it.
    yield _program("pip", [sys.executable, "-P", "-m", "pip", "--version"], _PIP)
    yield _program("git", ["git", "--version"], "apt-get install git")
    yield from _store(store)
    yield from _docker(environ, home)


def _python() -> Finding:
    found = f"{platform.python_version()}, {sys.executable}"
    level = Level.OK if sys.version_info >= _PYTHON else Level.FAIL
    fix = "" if level is Level.OK else f"use Python {_PYTHON[0]}.{_PYTHON[1]} or later"
    return Finding(_ABOUT, "python", level, found, fix)


def _program(name: str, command: Sequence[str], fix: str) -> Finding:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return Finding(_ABOUT, name, Level.FAIL, f"{command[0]} cannot be run: {reason}", fix)
    said = (done.stdout or done.stderr).strip().partition("\n")[0]
    if done.returncode:
        return Finding(_ABOUT, name, Level.FAIL, said or f"exit code {done.returncode}", fix)
    return Finding(_ABOUT, name, Level.OK, _version(said))


def _version(said: str) -> str:
    """Return `24.0, /usr/lib/python3/dist-packages/pip` of what a program says of itself."""
    match = re.match(r"\S+ (?:version )?(\S+)(?: from (.*?))?(?: \(.*\))?\Z", said)
    return ", ".join(filter(None, match.groups())) if match is not None else said


def _store(store: Path) -> Iterator[Finding]:
    """Look at where the store is, or at the directory that it would be made in."""
    there = next((one for one in (store, *store.parents) if one.exists()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
        free = shutil.disk_usage(there).free
    except OSError as error:
        found = f"{store} cannot be written: {error.strerror or error}"
        yield Finding(_ABOUT, "store", Level.FAIL, found, f"own {there}, or {_ELSEWHERE}")
        return
    made = "" if there == store else ", which the first build makes"
    yield Finding(_ABOUT, "store", Level.OK, f"{store}{made}")
    yield free_space(free)
    mounts = ""
    with contextlib.suppress(OSError):
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    yield file_system(mounted_as(there.resolve(), mounts))


def free_space(free: int) -> Finding:
    """Judge the bytes that are free where the store is."""
    if free >= _ROOM:
        return Finding(_ABOUT, "free space", Level.OK, size(free))
    found = f"{size(free)}; a base of vLLM's wheel needs about {size(_ROOM)} while it is made"
    return Finding(_ABOUT, "free space", Level.WARN, found, f"make room, or {_ELSEWHERE}")


def mounted_as(path: Path, mountinfo: str) -> str:
    """Return the kind of file system that `path`, resolved, is on; empty where that is not told.

    Source: proc_pid_mountinfo(5).
    """
    kind, longest = "", -1
    for line in mountinfo.splitlines():
        mount, _, rest = line.partition(" - ")
        fields = mount.split(" ")
        if len(fields) < 5 or not rest:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        # Of two on one point the later one is on top.
        if path.is_relative_to(point) and len(point) >= longest:
            kind, longest = rest.split(" ")[0], len(point)
    return kind


def file_system(kind: str) -> Finding:
    """Judge the kind of file system that the store is on."""
    name = "file system"
    if kind in _REMOTE:
        found = f"{kind}: locks and renames are as good as its server makes them"
        return Finding(_ABOUT, name, Level.WARN, found, _ELSEWHERE)
    if kind in _MEMORY:
        found = f"{kind}: the store takes memory, and is gone with the next start"
        return Finding(_ABOUT, name, Level.WARN, found, _ELSEWHERE)
    return Finding(_ABOUT, name, Level.OK, kind or "not known")


def _docker(environ: Mapping[str, str], home: Path) -> Iterator[Finding]:
    """Look at the daemon that the docker command would talk to. Only some verbs need one."""
    try:
        where = endpoint(environ, home)
    except ComposeError as error:
        yield Finding.of(_ABOUT, "docker context", Level.WARN, error)
        return
    yield Finding(_ABOUT, "docker context", Level.OK, f"{where.said_by}: {where.host}")
    try:
        daemon = Daemon.connect(where)
    except UnreachableError as error:
        fault = error.faults[0]
        fix = f"{fault.fix}; only `load` and docker-daemon: bases need it"
        yield Finding(_ABOUT, "docker daemon", Level.WARN, f"not reached: {fault.found}", fix)
        return
    with contextlib.closing(daemon):
        yield _daemon(daemon, where)
    kind = "containerd, snapshotter" if daemon.is_containerd else "graph driver"
    yield Finding(_ABOUT, "docker images", Level.OK, f"{kind} {daemon.driver}, {daemon.root}")


def _daemon(daemon: Daemon, where: Endpoint) -> Finding:
    try:
        said = daemon.version()
    except UnreachableError as error:
        return Finding.of(_ABOUT, "docker daemon", Level.WARN, error)
    parts = [said.get("Version"), f"{said.get('Os')}/{said.get('Arch')}"]
    parts.append(f"API {said.get('ApiVersion')}")
    return Finding(_ABOUT, "docker daemon", Level.OK, ", ".join(map(str, parts)))
