"""`compose push`: an image that is built, or a release as the store holds it, to a registry.

What was pushed where is kept in lock/pushes.toml. A release is never built again to be pushed:
its bytes are those that were made once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from . import pushes, releases
from .daemonbase import PREFIX
from .errors import InputError, UnreachableError
from .oci.digest import Digest
from .oci.layout import Layout
from .oci.reference import Reference
from .places import PUSHES
from .project import Project
from .publish import Published, publish, shipment_of_plan, shipment_of_release
from .release import Release, is_name
from .resolve import Choice, Resolved, resolve
from .text import nearest
from .workflow import answer, build, content_of, default_tag, described, fill

__all__ = ["Delivery", "Pushed", "push", "push_release"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where to push to. tag: None for the default; to: instead of the image's repository.

    copy_base: also send layers of the base. export_base: of a base that only the Docker daemon
    has, take them out of `docker save`.
    """

    tag: str | None = None
    to: str | None = None
    copy_base: bool = False
    export_base: bool = False


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did, and what `--json` prints of what was pushed."""

    published: Published
    document: dict[str, Any]
    remarks: tuple[str, ...]


def push(project: Project, layout: Layout, name: str, choice: Choice, delivery: Delivery) -> Pushed:
    """Push the image or the release that `name` means.

    Raises:
        InputError: nothing is called so, or there is no repository, or the registry lacks layers
            of the base.
        ComposeError: as of `build`, of the store, and of the registry.
    """
    if (release := _released(project, name)) is None:
        return _push_image(project, layout, name.removeprefix("image:"), choice, delivery)
    published = push_release(project, layout, release, delivery)
    planned = [one.platform for one in release.lock.platforms]
    document = {"release": release.name, **described(release.lock, planned)}
    return Pushed(published, document, _remarks(published.remark))


def _remarks(*remarks: str) -> tuple[str, ...]:
    return tuple(filter(None, remarks))


def _released(project: Project, name: str) -> Release | None:
    """Return the release that a name to push means; None where it means an image.

    `release:NAME` and `image:NAME` say which.

    Raises:
        InputError: nothing is called so, or both are.
        IntegrityError: the release was damaged.
    """
    kind, colon, rest = name.partition(":")
    plain = rest if colon else name
    release = None
    if kind != "image" or not colon:
        release = releases.read(project.root, plain) if is_name(plain) else None
    is_image = plain in project.spec.images and (kind == "image" or not colon)
    if release is not None and is_image:
        raise InputError.of(
            f"{name!r} is an image and a release",
            fix=f"say which: image:{name} or release:{name}",
        )
    if release is None and not is_image:
        known = [*project.images, *releases.names(project.root)]
        raise InputError.of(f"there is no image and no release {name!r}", fix=nearest(plain, known))
    return release


def _push_image(
    project: Project, layout: Layout, image: str, choice: Choice, delivery: Delivery
) -> Pushed:
    """Build an image and push it; the tag is `inputs-…` unless one is given."""
    target = _target(image, project.repository(image), delivery.to)
    resolved = build(project, layout, image, choice)
    if delivery.export_base and resolved.plan.platforms[0].base.partial:
        return _push_exported(project, layout, resolved, target.with_tag(delivery.tag))
    named = target.with_tag(delivery.tag or default_tag(resolved))
    content = content_of(project.root, layout, resolved.lock) if delivery.copy_base else None
    published = publish(shipment_of_plan(resolved.plan), layout, named, copy_from=content)
    remark = _recorded(project, published)
    return Pushed(published, answer(resolved), _remarks(*resolved.remarks, remark))


def push_release(
    project: Project, layout: Layout, release: Release, delivery: Delivery
) -> Published:
    """Push a release out of the store, byte for byte; the tag is its name unless one is given.

    Raises:
        InputError: its image has no repository, or the registry lacks layers of the base.
        UnreachableError: the store does not hold it. IntegrityError: it is damaged there.
        ComposeError: as of the registry.
    """
    repository = project.repository(release.image)
    if repository is None and (known := pushes.references(project.root, release.result.digest)):
        repository = known[0].repository
    target = _target(release.image, repository, delivery.to)
    if missing := releases.missing(layout, release):
        raise UnreachableError.of(
            f"the store does not hold what release {release.name} is made of",
            where=str(layout.root),
            found=f"{len(missing)} blobs are missing, such as {missing[0]}",
            fix=releases.remake(project.root, release),
        )
    named = target.with_tag(delivery.tag or release.name)
    content = content_of(project.root, layout, release.lock) if delivery.copy_base else None
    published = publish(shipment_of_release(release, layout), layout, named, copy_from=content)
    return replace(published, remark=_recorded(project, published))


def _recorded(project: Project, published: Published) -> str:
    """Note where a digest is now; and say so where that cannot be written."""
    reference = published.reference
    assert reference.digest is not None
    try:
        pushes.record(project.root, reference.digest, reference)
    except UnreachableError as error:  # a checkout that is read-only; the push is done
        return f"{PUSHES} was not written: {error.faults[0].found}"
    return ""


def _push_exported(
    project: Project, layout: Layout, resolved: Resolved, target: Reference
) -> Pushed:
    """Push what an image becomes on its exported base: the same layers, with blobs of their own."""
    from .daemons import save_image

    definition = resolved.definition
    path = layout.root / "ingest" / f"base-{Digest.parse(resolved.lock.base.digest).hex}.tar"
    try:
        save_image((definition.base.image or "").removeprefix(PREFIX), path)
        exported = resolve(
            project.on(definition.base_name, f"archive:{path}"), layout, definition.name, Choice()
        )
        fill(layout, exported.plan, definition.name)
        named = target.with_tag(target.tag or default_tag(exported))
        content = content_of(project.root, layout, exported.lock)
        published = publish(shipment_of_plan(exported.plan), layout, named, copy_from=content)
    finally:
        path.unlink(missing_ok=True)
    other = "the base was exported: what was pushed is another digest than the lock's"
    remark = _recorded(project, published)
    return Pushed(published, answer(exported), _remarks(*exported.remarks, remark, other))


def _target(image: str, repository: str | None, to: str | None) -> Reference:
    text = to or repository
    if text is None:
        raise InputError.of(
            f"image {image} has no repository to push to",
            fix=f"give it one: repository = ... in [images.{image}], or --to",
        )
    try:
        target = Reference.parse(text)
    except ValueError as error:
        raise InputError.of(str(error), where="--to") from error
    if target.tag is not None or target.digest is not None:
        raise InputError.of(
            "a repository has no tag and no digest",
            where=f"--to {text}",
            fix=f"--to {target.repository} --tag TAG",
        )
    return target
