"""The project's own images, built once from the real wheel for all tests that look at them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.support.commands import ROOT, compose

__all__ = ["Built"]

PROJECT = ("images.toml", "modules", "lock")


@dataclass(frozen=True, slots=True)
class Built:
    """A copy of the project, the store it was built into, and what the builds printed."""

    root: Path
    store: Path
    answers: dict[str, Any]


def copy_project(to: Path) -> Path:
    """Copy the project's own files to a new directory."""
    to.mkdir(parents=True)
    for name in PROJECT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, to / name)
    return to


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build both images as their locks say; shared between the workers of one run."""
    shared = tmp_path_factory.getbasetemp().parent / "compose-real"
    root, store = shared / "project", shared / "store"
    with FileLock(f"{shared}.lock"):
        if not root.exists():
            copy_project(root)
        answers = {
            image: compose(
                "build", image, "--locked", "--json", cwd=root, env={"COMPOSE_STORE": str(store)}
            ).json
            for image in ("glm53", "glm53-async")
        }
    return Built(root, store, answers)
