"""The digest does not depend on the host: other user, umask, locale, clock zone, hash seed,
directory order, interpreter and store; with the committed lock and without any.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from composer.lock import load
from tests.support.commands import ROOT
from tests.support.real import copy_project

pytestmark = pytest.mark.real

IMAGE = "glm53-async"
NOBODY = 65534
# Every minor version that we promise, wherever it is installed.
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def _interpreters() -> dict[str, Path]:
    """Return one real interpreter a version: on PATH, of the system, or of pyenv."""
    found: dict[str, Path] = {f"{sys.version_info[0]}.{sys.version_info[1]}": Path(sys.executable)}
    for version in VERSIONS:
        candidates = [
            *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")),
            Path(f"/usr/bin/python{version}"),
            Path(f"/usr/local/bin/python{version}"),
            *([Path(path)] if (path := shutil.which(f"python{version}")) else []),
        ]
        for candidate in candidates:
            if version not in found and candidate.exists() and _works(candidate):
                found[version] = candidate
    return found


def _works(python: Path) -> bool:
    probe = [str(python), "-c", "import venv, ensurepip"]
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


def _system_python() -> Path:
    """Return an interpreter that any user may run."""
    for version in VERSIONS:
        path = Path(f"/usr/bin/python{version}")
        if path.exists() and _works(path):
            return path
    pytest.skip("no Python of the system with venv, for a run as another user")


@dataclass(frozen=True, slots=True)
class Host:
    """A way to run `compose`: what of the surroundings is not as usual."""

    python: Path
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    user: int | None = None
    lock: bool = True

    def digest(self) -> str:
        """Install the project into a fresh virtual environment here, build, return the digest."""
        self.folder.mkdir(parents=True)
        home = self.folder / "home"
        home.mkdir()
        project = copy_project(self.folder / "project")
        if not self.lock:
            shutil.rmtree(project / "lock")
        # The installer writes next to what it installs; the checkout stays as it is.
        source = self.folder / "source"
        ignored = shutil.ignore_patterns("__pycache__", ".venv", ".git", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, source, ignore=ignored)
        if self.user is not None:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, self.user, self.user, follow_symlinks=False)
        self._run([str(self.python), "-m", "venv", "venv"], self.folder)
        pip = ["venv/bin/python", "-m", "pip", "install", "-q", "--no-compile", str(source)]
        self._run(pip, self.folder)
        flags = ["--locked"] if self.lock else []
        command = [str(self.folder / "venv/bin/compose"), "build", IMAGE, *flags]
        return self._run(command, project).rpartition("\n")[2]

    def _run(self, command: list[str], cwd: Path) -> str:
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "COMPOSE_STORE": str(self.folder / "some store"),
            **self.env,
        }
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            umask=self.umask,
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user is not None else None,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.rstrip("\n")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that any user can reach, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="compose-host-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path / "host"
    shutil.rmtree(path)


def _locked() -> str:
    return load((ROOT / f"lock/{IMAGE}.lock").read_bytes(), IMAGE).digest


@pytest.mark.parametrize("version", sorted(_interpreters()))
def test_every_interpreter_gives_the_locked_digest(version: str, folder: Path) -> None:
    seed = {"PYTHONHASHSEED": version[2:], "TZ": "Pacific/Chatham", "LC_ALL": "C"}
    host = Host(_interpreters()[version], folder, env=seed, lock=version != "3.12")
    assert host.digest() == _locked()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_gives_the_locked_digest(folder: Path) -> None:
    env = {
        "TZ": "Asia/Kathmandu",
        "LANG": "tr_TR.UTF-8",
        "PYTHONHASHSEED": "4242",
        "PYTHONUTF8": "0",
        "SOURCE_DATE_EPOCH": "1234567890",
    }
    host = Host(_system_python(), folder, env=env, umask=0o077, user=NOBODY)
    assert host.digest() == _locked()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second kind of file system")
def test_directory_order_does_not_matter(tmp_path: Path) -> None:
    """A tmpfs lists a directory backwards, the newest name first."""
    shared = Path(tempfile.mkdtemp(prefix="compose-order-", dir="/dev/shm"))
    try:
        store = {"COMPOSE_STORE": str(tmp_path / "store")}
        host = Host(Path(sys.executable), shared / "host", env=store, lock=False)
        assert host.digest() == _locked()
    finally:
        shutil.rmtree(shared)
