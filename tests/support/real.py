"""The project's own images, from the real wheel: one store for all tests of a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from .commands import ROOT, compose
from .images import own_files

__all__ = ["PACKAGES", "RealProject", "copy_project"]

PACKAGES = "usr/local/lib/python3.12/dist-packages"
_PARTS = ("images.toml", "modules", "lock", "deploy")


def copy_project(to: Path) -> Path:
    """Copy the project's own files to a new directory."""
    to.mkdir(parents=True)
    for name in _PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, to / name)
    return to


@dataclass(frozen=True, slots=True)
class RealProject:
    """A copy of the project below `folder`, and the store it is built into."""

    folder: Path

    @property
    def root(self) -> Path:
        """Where images.toml is."""
        return self.folder / "project"

    @property
    def store(self) -> Path:
        """The store."""
        return self.folder / "store"

    def build(self, image: str, *flags: str) -> Any:
        """Build an image and return what `--json` prints; one process at a time."""
        with FileLock(f"{self.folder}.lock"):
            if not self.root.exists():
                copy_project(self.root)
            env = {"COMPOSE_STORE": str(self.store)}
            return compose("build", image, "--json", *flags, cwd=self.root, env=env).json

    def files(self, modules: Iterable[str]) -> dict[str, bytes]:
        """Return the files that an image of these modules has of them, below the package root."""
        chosen = sorted(modules)
        image = "-".join(["with", *chosen]).replace("_", "-")
        with FileLock(f"{self.folder}.images.lock"):
            if not self.root.exists():
                copy_project(self.root)
            document = self.root / "images.toml"
            entry = f'\n[images.{image}]\nbase = "vllm-0.28"\nmodules = {chosen}\n'
            if entry not in document.read_text():
                document.write_text(document.read_text() + entry)
        prefix = f"{PACKAGES}/"
        return {
            path.removeprefix(prefix): data
            for path, data in own_files(self.store, self.build(image)).items()
            if path.startswith(prefix)
        }
