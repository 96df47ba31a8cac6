"""What a git repository said at other commits: the locks of the past."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from .errors import InputError, UnreachableError

__all__ = ["files_at", "read_at", "versions"]


def _git(root: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, check=False
        )
    except OSError as error:
        raise UnreachableError.of("git cannot be run", found=str(error)) from error
    if done.returncode:
        raise InputError.of(
            f"git {arguments[0]} failed", found=done.stderr.decode(errors="replace").strip()
        )
    return done.stdout


def files_at(root: Path, revision: str, folder: str) -> list[str]:
    """Return the files directly in `folder`, relative to `root`, as `revision` had them.

    Raises:
        InputError: not a repository, or no such revision.
    """
    commit = _git(root, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    listing = _git(root, "ls-tree", "-z", "--name-only", commit.decode().strip(), f"{folder}/")
    return [name for name in listing.decode().split("\0") if name]


def read_at(root: Path, revision: str, path: str) -> bytes:
    """Return a file as `revision` had it; `path` relative to `root`."""
    return _git(root, "show", f"{revision}:./{path}")


def versions(root: Path, revision: str, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield (commit, content) of each version of a file up to `revision`, the newest first."""
    log = _git(root, "log", "--format=%H", "--diff-filter=AM", revision, "--", path)
    for commit in log.decode().split():
        yield commit, read_at(root, commit, path)
