"""One function a verb: reads the project, the lock and the store, and wires them to pure code.

Nothing is written before everything has been checked; the store is filled before the lock is
replaced, so that a lock never names what was not made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import releases, unchanged
from .errors import CheckFailedError, ComposeError, Fault, InputError, UnreachableError
from .lock import Lock, dump
from .oci.archive import Content, write_archive
from .oci.digest import Digest
from .oci.image import Image
from .oci.layout import Layout, atomic_write, reading
from .oci.manifest import Descriptor
from .oci.mediatype import is_foreign
from .places import lock_path
from .plan import Plan
from .progress import transfer, watched
from .project import Project
from .release import Provenance, Release, release_of
from .resolve import Choice, Resolved, resolve, stale
from .sources import open_source

if TYPE_CHECKING:
    from .daemons import Loaded
    from .releases import Request

__all__ = [
    "answer",
    "build",
    "check",
    "content_of",
    "default_tag",
    "described",
    "fill",
    "load",
    "lock",
    "release",
]


def lock(project: Project, layout: Layout, images: Sequence[str], choice: Choice) -> list[Resolved]:
    """Resolve images and write the locks that changed.

    Raises:
        ComposeError: faults of any of the images; then no lock is written.
    """
    resolved = _resolve_all(project, layout, images, choice)
    for one in resolved:
        if not one.fresh:
            atomic_write(project.root / lock_path(one.lock.image), dump(one.lock))
    return resolved


def _resolve_all(
    project: Project, layout: Layout, images: Sequence[str], choice: Choice
) -> list[Resolved]:
    """Resolve every image, so that the faults of one do not hide those of the next."""
    resolved: list[Resolved] = []
    errors: list[ComposeError] = []
    for image in images:
        try:
            resolved.append(resolve(project, layout, image, choice))
        except ComposeError as error:
            errors.append(error)
    if errors:
        faults = dict.fromkeys(fault for error in errors for fault in error.faults)
        raise type(errors[0])(*faults)
    return resolved


def check(
    project: Project,
    layout: Layout,
    images: Sequence[str],
    *,
    against: str | None,
    reverts: Sequence[str],
) -> None:
    """Check that every lock says what the project's files say now, and writes nothing.

    against: a git revision; a module that is gone or went back to an older content since then
    is a fault, unless it is retired, or named in `reverts`.

    Raises:
        CheckFailedError: a lock is missing or stale, or a module was lost.
    """
    from . import history

    faults: list[Fault] = []
    for one in _resolve_all(project, layout, images, Choice()):
        if not one.fresh:
            faults.append(stale(one.lock.image, one.differences))
        if against is not None:
            faults += history.faults(
                project.root,
                against,
                lock_path(one.lock.image),
                one.lock,
                retired=one.definition.retired,
                reverts=reverts,
            )
    if faults:
        raise CheckFailedError(*faults)


def build(
    project: Project,
    layout: Layout,
    image: str,
    choice: Choice,
    *,
    output: Path | None = None,
    request: Request | None = None,
) -> Resolved:
    """Make an image: fill the store, write the lock if it changed, and the archive if asked for.

    request: also record a release.

    Raises:
        CheckFailedError: the lock is missing or stale under `choice.locked`; or another release
            has the name.
        ComposeError: any fault of the project, the base or the store.
    """
    layout.sweep()
    origin = _origin(project, image, request) if request is not None else None
    resolved = resolve(project, layout, image, choice)
    made = _release(resolved, request.name, origin) if request and origin else None
    if made is not None:
        releases.clash(project.root, made)  # before anything is written
    fill(layout, resolved.plan, image)
    if not resolved.fresh:
        atomic_write(project.root / lock_path(image), dump(resolved.lock))
    _remember(project, layout, resolved, choice)
    if made is not None:
        _record(project, layout, resolved.plan, made)
    if output is not None:
        images = [one.image for one in resolved.plan.platforms]
        index = resolved.plan.index if len(images) == len(resolved.lock.platforms) else None
        content = content_of(project.root, layout, resolved.lock)
        with transfer(f"write {output}", _size(images)) as advance:
            write_archive(output, images, index, image, lambda one: watched(content(one), advance))
    return resolved


def release(project: Project, layout: Layout, image: str, request: Request) -> tuple[Release, bool]:
    """Record a release of an image that has been made; and tell whether it was there already.

    Raises:
        InputError: files of the project are not those of a commit, and that is not allowed.
        CheckFailedError: the lock is missing or stale, or another release has the name.
        UnreachableError: the store does not hold what was made.
        ComposeError: any fault of the project, the base or the store.
    """
    origin = _origin(project, image, request)
    resolved = resolve(project, layout, image, Choice(locked=True))
    made = _release(resolved, request.name, origin)
    if releases.clash(project.root, made):
        return made, True
    if missing := [one for one in _own_blobs(resolved) if not layout.has(one.digest, one.size)]:
        raise UnreachableError.of(
            f"the store does not hold what image {image} is made of",
            where=str(layout.root),
            found=f"{len(missing)} blobs are missing, such as {missing[0].digest}",
            fix=f"make it first: `compose build {image} --locked`",
        )
    return made, _record(project, layout, resolved.plan, made)


def _record(project: Project, layout: Layout, plan: Plan, made: Release) -> bool:
    """Write a release; in the store it is IMAGE:NAME. Tell whether it was there already."""
    there = releases.write(project.root, made)
    _tag(layout, plan, f"{made.image}:{made.name}")
    return there


def _origin(project: Project, image: str, request: Request) -> Provenance:
    return releases.provenance(
        project.root,
        request,
        image=image,
        outputs=[deploy.file for deploy in project.spec.deploy.values()],
        retired=project.retired(image),
    )


def _release(resolved: Resolved, name: str, origin: Provenance) -> Release:
    diff_ids = {str(one.platform): one.image.config.diff_ids for one in resolved.plan.platforms}
    return release_of(name, resolved.lock, diff_ids, origin)


def _own_blobs(resolved: Resolved) -> Iterator[Descriptor]:
    """Yield what the store holds of an image that was built."""
    for one in resolved.plan.platforms:
        manifest = one.image.manifest
        # Layers that came with an image are where that image is.
        yield from manifest.layers[len(manifest.layers) - len(one.layers) - one.base.own :]
        yield from (manifest.config, manifest.descriptor())
    if resolved.plan.index is not None:
        yield resolved.plan.index.descriptor()


def _size(images: Iterable[Image]) -> int:
    layers = (layer for image in images for layer in image.manifest.layers)
    return sum({one.digest: one.size for one in layers if not is_foreign(one.media_type)}.values())


def content_of(root: Path, layout: Layout, lock: Lock) -> Content:
    """Return what gives a blob of an image: the store, or where its base is."""
    spelled = lock.base.reference or lock.base.image

    def chunks(descriptor: Descriptor) -> Iterable[bytes]:
        if layout.has(descriptor.digest, descriptor.size) or not spelled:
            return reading(layout.path(descriptor.digest))()
        return open_source(spelled, root).chunks(descriptor)

    return chunks


def load(
    project: Project, layout: Layout, image: str, choice: Choice, *, tag: str | None
) -> tuple[Resolved, str, Loaded]:
    """Build an image, load it into the Docker daemon, and return the name it has there.

    Raises:
        InputError: the image has several platforms, and none was chosen.
        ComposeError: as of `build`, and of the daemon.
    """
    from .daemons import load_image

    resolved = build(project, layout, image, choice)
    if len(resolved.plan.platforms) > 1:
        raise InputError.of(
            f"image {image} has several platforms",
            found=", ".join(str(one.platform) for one in resolved.plan.platforms),
            fix="choose one: --platform",
        )
    repository = resolved.definition.repository or image
    name = f"{repository}:{tag or default_tag(resolved)}"
    content = content_of(project.root, layout, resolved.lock)
    return resolved, name, load_image(resolved.plan.platforms[0].image, [name], content)


def default_tag(resolved: Resolved) -> str:
    """Return the tag of what has no release."""
    return f"inputs-{Digest.parse(resolved.lock.inputs).short}"


def answer(resolved: Resolved) -> dict[str, Any]:
    """Return what `build --json` prints."""
    planned = [str(one.platform) for one in resolved.plan.platforms]
    return described(resolved.lock, planned)


def described(lock: Lock, platforms: Collection[str]) -> dict[str, Any]:
    """Return what `--json` prints of an image, of some of its platforms."""
    return {
        "image": lock.image,
        "digest": lock.digest,
        "inputs": lock.inputs,
        "platforms": [
            {
                "platform": one.platform,
                "manifest": one.manifest,
                "config": one.config,
                "layers": [layer.model_dump() for layer in one.layers],
            }
            for one in lock.platforms
            if one.platform in platforms
        ],
    }


def fill(layout: Layout, made: Plan, name: str) -> None:
    """Put what is ours of an image into the store, under a name."""
    for one in made.platforms:
        for layer in one.layers:
            layout.put(layer.blob)
        layout.put(one.image.config.raw)
        layout.put(one.image.manifest.raw)
    if made.index is not None:
        layout.put(made.index.raw)
    _tag(layout, made, name)


def _tag(layout: Layout, made: Plan, name: str) -> None:
    """Name an image in the store, so that other tools find it, and leave its blobs alone."""
    top = made.index or made.platforms[0].image.manifest
    if not any(one.base.partial for one in made.platforms):
        layout.tag(name, top.descriptor())


def _remember(project: Project, layout: Layout, resolved: Resolved, choice: Choice) -> None:
    """Record the build for the no-change path."""
    image = resolved.lock.image
    inputs = dict(resolved.definition.inputs)
    inputs[lock_path(image)] = hashlib.sha256(dump(resolved.lock)).hexdigest()
    blobs = {str(one.digest): one.size for one in _own_blobs(resolved)}
    question = unchanged.Question(project.root, image, ",".join(choice.platforms))
    path = unchanged.record_path(layout.root, question)
    atomic_write(path, unchanged.record(inputs, blobs, answer(resolved)), durable=False)
