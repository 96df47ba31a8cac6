"""What a git repository said at other commits: the locks of the past."""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .errors import InputError, UnreachableError

__all__ = ["commit_of", "files_at", "read_at", "versions"]


# What a git hook sets for its own repository must not decide which one is read.
_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


def _git(root: Path, *arguments: str) -> bytes:
    env = {name: value for name, value in os.environ.items() if name not in _REPOSITORY}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], env=env, capture_output=True, check=False
        )
    except OSError as error:
        raise UnreachableError.of("git cannot be run", found=str(error)) from error
    if done.returncode:
        raise InputError.of(
            f"git {arguments[0]} failed", found=done.stderr.decode(errors="replace").strip()
        )
    return done.stdout


def commit_of(root: Path, revision: str) -> str:
    """Return the commit that `revision` names.

    Raises:
        InputError: not a repository, or no such revision.
    """
    try:
        # In two steps: what follows `:/text` would count as more text.
        named = _git(root, "rev-parse", "--verify", "--end-of-options", revision).decode().strip()
        commit = _git(root, "rev-parse", "--verify", f"{named}^{{commit}}")
    except InputError as error:
        raise InputError.of(
            f"git does not know the revision {revision!r}",
            where=str(root),
            found=error.faults[0].found.rpartition("\n")[2],
            fix="name a commit, branch or tag that is here; a shallow clone has to fetch it first",
        ) from error
    return commit.decode().strip()


def files_at(root: Path, commit: str, folder: str) -> list[str]:
    """Return the files directly in `folder`, relative to `root`, as `commit` had them."""
    listing = _git(root, "ls-tree", "-z", "--name-only", commit, f"{folder}/")
    return [name for name in listing.decode().split("\0") if name]


def read_at(root: Path, commit: str, path: str) -> bytes:
    """Return a file as `commit` had it; `path` relative to `root`."""
    return _git(root, "show", f"{commit}:./{path}")


def versions(root: Path, commit: str, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield (commit, content) of each version of a file up to `commit`, the newest first."""
    log = _git(root, "log", "--full-history", "--format=%H", commit, "--", path)
    for one in log.decode().split():
        if path in files_at(root, one, posixpath.dirname(path)):  # not where it was deleted
            yield one, read_at(root, one, path)
