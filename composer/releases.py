"""The releases of a project on disk, and what git says of the tree they are made from."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import gitrepo
from .errors import CheckFailedError, ComposeError, Fault, InputError
from .lock import Lock, LockedLayer, read_lock
from .oci.digest import Digest
from .oci.layout import Layout, atomic_write, exclusive
from .oci.manifest import Manifest
from .places import RELEASES, release_path
from .release import Provenance, Release, check_name, dump_release, load_release, tips
from .tomlfile import read_bytes

__all__ = [
    "Listed",
    "Request",
    "clash",
    "listing",
    "lost",
    "missing",
    "names",
    "provenance",
    "read",
    "read_all",
    "remake",
    "write",
]


@dataclass(frozen=True, slots=True)
class Request:
    """A release that somebody asks for. allow_dirty: the commit need not have the files used."""

    name: str
    note: str = ""
    allow_dirty: bool = False


def names(root: Path) -> list[str]:
    """Return the names of all releases, sorted."""
    return sorted(path.stem for path in (root / RELEASES).glob("*.toml"))


def read(root: Path, name: str) -> Release | None:
    """Return a release, or None where there is none.

    Raises:
        InputError: it cannot be read.
        IntegrityError: it was damaged, or changed by hand.
    """
    shown = release_path(name)
    raw = read_bytes(root, shown)
    return load_release(raw, shown, name) if raw is not None else None


def read_all(root: Path) -> list[Release]:
    """Return all releases, by name.

    Raises:
        IntegrityError: any of them was damaged, or changed by hand.
    """
    found = (read(root, name) for name in names(root))
    return [one for one in found if one is not None]


@dataclass(frozen=True, slots=True)
class Listed:
    """A release in a list.

    size: of our own layers, in bytes, those that platforms share once. date: of its commit, in
    seconds since 1970, where git knows it. held: the store has what is ours.
    """

    release: Release
    size: int
    date: int | None
    held: bool


def listing(root: Path, layout: Layout) -> list[Listed]:
    """Return all releases, the newest first; those of no known date last.

    Raises:
        IntegrityError: any of them was damaged, or changed by hand.
    """
    found = read_all(root)
    dates: Mapping[str, int] = {}
    with contextlib.suppress(ComposeError):  # no git here, or no repository
        dates = gitrepo.dates(root, filter(None, (one.provenance.commit for one in found)))
    listed = [
        Listed(
            one,
            sum({layer.digest: layer.size for layer in _layers(one)}.values()),
            dates.get(one.provenance.commit),
            not missing(layout, one),
        )
        for one in found
    ]
    return sorted(listed, key=lambda one: (-(one.date or 0), one.release.name))


def missing(layout: Layout, release: Release) -> list[Digest]:
    """Return what the store does not hold of what a build leaves there; layers of a base are not.

    Sizes are looked at, and no content but that of manifests.

    Raises:
        IntegrityError: a manifest is damaged in the store.
    """
    gone = [] if layout.has(top := Digest.parse(release.result.digest)) else [top]
    for one in release.lock.platforms:
        digest = Digest.parse(one.manifest)
        if not layout.has(digest, one.manifest_size):
            gone.append(digest)
            continue
        try:
            manifest = Manifest.parse(layout.read(digest))
        except ValueError as error:
            raise layout.damaged(digest, str(error)) from error
        ours = (*manifest.layers[one.base_layers :], manifest.config)
        gone += [blob.digest for blob in ours if not layout.has(blob.digest, blob.size)]
    return list(dict.fromkeys(gone))


def remake(root: Path, release: Release) -> str:
    """Say how what a release is made of can be had again."""
    build = f"compose build {release.image} --locked"
    with contextlib.suppress(ComposeError):
        lock = read_lock(root, release.image)
        if lock is not None and lock.digest == release.result.digest:
            return f"make it: `{build}`"
    commit = release.provenance.commit
    if not commit or release.provenance.dirty:
        return "push it from a machine whose store holds it: `compose releases` says"
    return f"make it from its commit: `git worktree add ../again {commit[:12]}`, there `{build}`"


def _layers(release: Release) -> Iterator[LockedLayer]:
    return (layer for one in release.lock.platforms for layer in one.layers)


def lost(root: Path, now: Lock, retired: Iterable[str]) -> Iterator[Fault]:
    """Yield a fault for each module that the image's last release has and `now` has not.

    Raises:
        IntegrityError: a release was damaged.
    """
    excused = {module.name for module in now.modules} | set(retired)
    seen: set[str] = set()
    for release in tips(read_all(root), now.image):
        for module in release.lock.modules:
            if module.name not in excused | seen:
                seen.add(module.name)
                yield Fault(
                    what=f"module {module.name} is LOST: release {release.name} of image"
                    f" {now.image} has it",
                    where=release_path(release.name),
                    fix=f"put it back, or name it in 'retired' of [images.{now.image}]",
                )


def provenance(
    root: Path, request: Request, *, image: str, outputs: Iterable[str], retired: Iterable[str]
) -> Provenance:
    """Return where a release would come from.

    outputs: files that compose itself writes, below `root`, which may differ from the commit's
    as lock/ may.

    Raises:
        InputError: files differ from the commit's, or there is no commit, and that is not allowed;
            or no release can have that name.
    """
    check_name(request.name)
    commit, dirty = _commit(root, request), False
    if commit and (files := gitrepo.changed(root, ["lock", *_inside(outputs)])):
        if not request.allow_dirty:
            raise InputError(_dirty(root, files))
        dirty = True
    return Provenance(
        commit=commit,
        dirty=dirty,
        parents=tuple(one.name for one in tips(read_all(root), image)),
        retired=tuple(sorted(set(retired))),
        note=request.note,
    )


def _commit(root: Path, request: Request) -> str:
    try:
        return gitrepo.commit_of(root, "HEAD")
    except ComposeError as error:
        if request.allow_dirty:
            return ""
        raise InputError.of(
            "a release names the commit that it was made from, and there is none",
            where=str(root),
            found=error.faults[0].found,
            fix="commit the project first; or, without its history: --allow-dirty",
        ) from error


def _inside(paths: Iterable[str]) -> list[str]:
    """Leave out what git would refuse to look for: paths that leave the project."""
    cleaned = (posixpath.normpath(path) for path in paths)
    return [path for path in cleaned if not path.startswith(("/", "../"))]


def _dirty(root: Path, files: list[str]) -> Fault:
    more = len(files) - 10
    return Fault(
        what="files of the project are not those of the last commit",
        where=str(root),
        context=(*files[:10], *([f"and {more} more"] if more > 0 else [])),
        fix="commit them; or record a release that no commit tells all of: --allow-dirty",
    )


def clash(root: Path, release: Release) -> bool:
    """Tell whether the release is there already.

    Raises:
        CheckFailedError: another one has its name.
    """
    there = read(root, release.name)
    if there is None:
        return False
    if there.digest == release.digest:
        return True
    raise CheckFailedError.of(
        f"release {release.name} is another one, and a release never changes",
        where=release_path(release.name),
        expected=f"image {there.image} {there.result.digest}",
        found=f"image {release.image} {release.result.digest}",
        fix=f"choose a new name; `compose diff {release.name} image:{release.image}` shows what"
        " has changed",
    )


def write(root: Path, release: Release) -> bool:
    """Write a release unless it is there already, and tell whether it was.

    Raises:
        CheckFailedError: another one has its name.
        UnreachableError: the directory cannot be written.
    """
    path = root / release_path(release.name)
    with exclusive(path.parent):
        if clash(root, release):
            return True
        atomic_write(path, dump_release(release))
    return False
