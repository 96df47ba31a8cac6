"""What a git repository says: files at other commits, and what differs from the last one."""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .errors import InputError, UnreachableError

__all__ = ["blobs_at", "changed", "commit_of", "dates", "files_at", "read_at", "versions"]


# What a git hook sets for its own repository must not decide which one is read.
_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
# Reading takes no lock of the index, and says nothing of signatures.
_SETTINGS = ("--no-optional-locks", "-c", "log.showSignature=false")


def _git(root: Path, *arguments: str, given: bytes = b"") -> bytes:
    env = {name: value for name, value in os.environ.items() if name not in _REPOSITORY}
    try:
        done = subprocess.run(
            ["git", *_SETTINGS, "-C", str(root), *arguments],
            env=env,
            input=given,
            capture_output=True,
            check=False,
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


def blobs_at(root: Path, commit: str, paths: Iterable[str]) -> Mapping[str, bytes]:
    """Return those of the files, relative to `root`, that are there at `commit`, as stored.

    Where the commit itself is not there, as in a shallow clone, nothing is.
    """
    asked = sorted({path for path in paths if "\n" not in path})
    names = "".join(f"{commit}:./{path}\n" for path in asked)
    answer = _git(root, "cat-file", "--batch", given=names.encode())
    found: dict[str, bytes] = {}
    for path in asked:
        head, _, rest = answer.partition(b"\n")
        kind, _, size = head.rpartition(b" ")
        if not size.isdigit():  # `NAME missing`
            answer = rest
            continue
        length = int(size)
        if kind.endswith(b" blob"):
            found[path] = rest[:length]
        answer = rest[length + 1 :]
    return found


def changed(root: Path, excluded: Iterable[str]) -> list[str]:
    """Return the files below `root` that are not as the last commit has them, untracked ones too.

    excluded: files and folders, relative to `root`, that may differ. What git ignores is left out.
    """
    leave = [f":(exclude,literal){path}" for path in excluded]
    status = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"]
    listing = _git(root, *status, "--", ".", *leave)
    prefix = _git(root, "rev-parse", "--show-prefix").decode().removesuffix("\n")
    entries = [one[3:] for one in listing.decode(errors="replace").split("\0") if one]
    return sorted(path.removeprefix(prefix) for path in entries)


def dates(root: Path, commits: Iterable[str]) -> Mapping[str, int]:
    """Return when commits were made, in seconds since 1970; unknown ones are left out."""
    asked = sorted(set(commits))
    if not asked:
        return {}
    log = _git(root, "log", "--no-walk", "--ignore-missing", "--format=%H %ct", *asked, "--")
    pairs = (line.split() for line in log.decode().splitlines())
    return {commit: int(seconds) for commit, seconds in pairs}
