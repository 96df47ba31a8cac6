"""Modules that were lost, or put back to an older content, since an earlier commit.

A merge that undoes an earlier one leaves no trace in a file listing; the locks of the past tell.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import gitrepo
from .errors import ComposeError, Fault
from .lock import Lock, load

__all__ = ["faults"]


def faults(
    root: Path,
    revision: str,
    path: str,
    now: Lock,
    *,
    retired: Sequence[str],
    reverts: Sequence[str],
) -> Iterator[Fault]:
    """Yield a fault for each module that `now` lost or put back since `revision`.

    path: the lock's path below `root`. retired, reverts: modules that are so on purpose.

    Raises:
        InputError: not a git repository, or no such revision.
        IntegrityError: the lock at `revision` cannot be read.
    """
    commit = gitrepo.commit_of(root, revision)
    if path not in gitrepo.files_at(root, commit, posixpath.dirname(path)):
        return  # a new image has no past
    before = load(gitrepo.read_at(root, commit, path), f"{revision}:{path}")
    contents = {module.name: module.content for module in now.modules}
    for module in before.modules:
        if module.name not in contents and module.name not in retired:
            yield Fault(
                what=f"module {module.name} is LOST: image {now.image} had it at {revision}",
                where=path,
                fix=f"put it back, or name it in 'retired' of [images.{now.image}]",
            )
    changed = {
        module.name: contents[module.name]
        for module in before.modules
        if contents.get(module.name) not in (None, module.content) and module.name not in reverts
    }
    if changed:
        yield from _put_back(root, revision, path, now.image, changed)


def _put_back(
    root: Path, revision: str, path: str, image: str, changed: dict[str, str]
) -> Iterator[Fault]:
    for commit, raw in gitrepo.versions(root, gitrepo.commit_of(root, revision), path):
        try:
            old = load(raw, f"{commit[:12]}:{path}")
        except ComposeError:
            continue  # a version of some other format
        for module in old.modules:
            if changed.get(module.name) == module.content:
                del changed[module.name]
                yield Fault(
                    what=f"module {module.name} of image {image} went back to an older content",
                    where=path,
                    expected=f"what {revision} has, or something new",
                    found=f"what commit {commit[:12]} had",
                    fix=f"merge again, or say that it is meant: --allow-revert {module.name}",
                )
        if not changed:
            return
