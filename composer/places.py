"""Where things are: the project, its locks and releases, the store."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import InputError

__all__ = [
    "FILE",
    "PINS",
    "PUSHES",
    "RELEASES",
    "find_root",
    "lock_path",
    "pins_path",
    "release_path",
    "store_root",
]

FILE = "images.toml"
RELEASES = "lock/releases"
PUSHES = "lock/pushes.toml"
PINS = "lock/pins"


def find_root(start: Path) -> Path:
    """Return the nearest directory at or above `start` that has an `images.toml`.

    Raises:
        InputError: there is none.
    """
    for directory in (start, *start.parents):
        if (directory / FILE).is_file():
            return directory
    raise InputError.of(
        f"no {FILE} here or in a directory above",
        where=str(start),
        fix="go to the project, or name it: compose --project DIR ...",
    )


def lock_path(image: str) -> str:
    """Return where an image's lock lies below the project's root."""
    return f"lock/{image}.lock"


def release_path(name: str) -> str:
    """Return where a release lies below the project's root."""
    return f"{RELEASES}/{name}.toml"


def pins_path(deploy: str) -> str:
    """Return where the pins of a deploy file lie below the project's root."""
    return f"{PINS}/{deploy}.toml"


def store_root() -> Path:
    """Return the store's directory: COMPOSE_STORE, or `compose` in the user's cache directory."""
    if chosen := os.environ.get("COMPOSE_STORE"):
        return Path(chosen).absolute()
    from platformdirs import user_cache_path  # noqa: PLC0415 - only where nothing is chosen

    return user_cache_path("compose", appauthor=False)
