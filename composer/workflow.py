"""One function a verb: reads the project, the lock and the store, and wires them to pure code.

Nothing is written before everything has been checked; the store is filled before the lock is
replaced, so that a lock never names what was not made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import fingerprint, unchanged
from .base import WheelBase, glibc_of, wheel_target
from .errors import CheckFailedError, Fault, InputError, IntegrityError
from .lock import Lock, LockedBase, LockedWheel, differences, dump, load, lock_of
from .oci.archive import write_archive
from .oci.digest import Digest
from .oci.image import index_of
from .oci.layout import Layout, atomic_write
from .oci.platform import Platform
from .places import lock_path
from .plan import Plan, plan, settings
from .project import ImageDefinition, Project
from .wheelpin import WheelPin

__all__ = ["Choice", "Resolved", "answer", "build", "check", "lock", "read_lock"]


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line chose.

    platforms: materialise these only. epoch: seconds; None keeps what the lock records.
    """

    locked: bool = False
    upgrade_base: bool = False
    platforms: tuple[str, ...] = ()
    epoch: int | None = None
    forget_epoch: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """An image resolved: its new lock, the old one, and the plan of what was asked for."""

    lock: Lock
    old: Lock | None
    plan: Plan
    definition: ImageDefinition = field(repr=False)

    @property
    def fresh(self) -> bool:
        """The lock on disk says just this."""
        return self.old is not None and dump(self.old) == dump(self.lock)

    @property
    def remarks(self) -> list[str]:
        """What a person should know of the files, on whatever platform."""
        texts = [text for one in self.plan.platforms for text in one.overlay.remarks]
        return list(dict.fromkeys(texts))

    @property
    def differences(self) -> list[str]:
        """What the new lock has that the old one had not."""
        return list(differences(self.old, self.lock))


def read_lock(root: Path, image: str) -> Lock | None:
    """Return an image's lock, or None where there is none.

    Raises:
        IntegrityError: it is damaged.
    """
    shown = lock_path(image)
    try:
        raw = (root / shown).read_bytes()
    except FileNotFoundError:
        return None
    return load(raw, shown)


def lock(project: Project, layout: Layout, images: Sequence[str], choice: Choice) -> list[Resolved]:
    """Resolve images and write the locks that changed.

    Raises:
        ComposeError: faults of any of the images; then no lock is written.
    """
    resolved = [_resolve(project, layout, image, choice) for image in images]
    for one in resolved:
        if not one.fresh:
            atomic_write(project.root / lock_path(one.lock.image), dump(one.lock))
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
    for image in images:
        one = _resolve(project, layout, image, Choice())
        if not one.fresh:
            faults.append(_stale(one.lock.image, one.differences))
        if against is not None:
            faults += history.faults(
                project.root,
                against,
                lock_path(image),
                one.lock,
                retired=one.definition.retired,
                reverts=reverts,
            )
    if faults:
        raise CheckFailedError(*faults)


def build(
    project: Project, layout: Layout, image: str, choice: Choice, *, output: Path | None = None
) -> Resolved:
    """Make an image: fill the store, write the lock if it changed, and the archive if asked for.

    Raises:
        CheckFailedError: the lock is missing or stale under `choice.locked`.
        ComposeError: any fault of the project, the base or the store.
    """
    layout.sweep()
    resolved = _resolve(project, layout, image, choice)
    _store(layout, resolved.plan, image)
    if not resolved.fresh:
        atomic_write(project.root / lock_path(image), dump(resolved.lock))
    _remember(project, layout, resolved, choice)
    if output is not None:
        images = [one.image for one in resolved.plan.platforms]
        index = resolved.plan.index if len(images) == len(resolved.lock.platforms) else None
        write_archive(output, layout, images, index, image)
    return resolved


def answer(resolved: Resolved) -> dict[str, Any]:
    """Return what `build --json` prints."""
    planned = {str(one.platform) for one in resolved.plan.platforms}
    return {
        "image": resolved.lock.image,
        "digest": resolved.lock.digest,
        "inputs": resolved.lock.inputs,
        "platforms": [
            {
                "platform": one.platform,
                "manifest": one.manifest,
                "config": one.config,
                "layers": [layer.model_dump() for layer in one.layers],
            }
            for one in resolved.lock.platforms
            if one.platform in planned
        ],
    }


def _stale(image: str, reasons: Sequence[str]) -> Fault:
    missing = list(reasons) == ["new lock"]
    return Fault(
        what=f"the lock of {image} is {'missing' if missing else 'stale'}",
        where=lock_path(image),
        context=() if missing else tuple(reasons),
        fix=f"run `compose lock {image}` and commit the result",
    )


def _resolve(project: Project, layout: Layout, image: str, choice: Choice) -> Resolved:
    definition = project.image(image)
    old = read_lock(project.root, image)
    if choice.locked and old is None:
        raise CheckFailedError(_stale(image, ["new lock"]))
    platforms = _platforms(definition, choice)
    base = _Base(project, layout, definition, old, choice)
    source = base.source()
    same = old is not None and old.source == str(source)
    # Platforms that are not asked for keep their record, as long as nothing has changed.
    chosen = [one for one in platforms if not choice.platforms or one in choice.platforms]
    kept = {
        one.platform: one
        for one in (old.platforms if old is not None and same else ())
        if one.platform not in chosen
    }
    loaded = [one.load() for one in base.platforms() if str(one.platform) not in kept]
    names = [module.name for module in definition.modules]
    epoch = base.epoch
    made = plan(
        definition,
        loaded,
        epoch=epoch,
        others={name: one.inputs(_epoch(old), names) for name, one in kept.items()},
        single=len(platforms) == 1,
    )
    if kept and old is not None:
        top = Digest.parse(old.digest)
        base_digest = Digest.parse(old.base.digest)
    else:
        top = made.digest
        images = [one.image for one in loaded]
        base_digest = images[0].manifest.digest if len(images) == 1 else index_of(images).digest
    new = lock_of(
        made,
        base=base.record(base_digest, made.epoch),
        source=source,
        kept=kept,
        digest=top,
    )
    resolved = Resolved(new, old, made, definition)
    if same and old is not None:
        _check_reproduced(old, new)
    if choice.locked and not resolved.fresh:
        raise CheckFailedError(_stale(image, resolved.differences))
    return _narrowed(resolved, chosen)


def _epoch(old: Lock | None) -> int:
    return old.base.epoch if old is not None else 0


def _narrowed(resolved: Resolved, chosen: Sequence[str]) -> Resolved:
    """Keep of the plan what is to be materialised."""
    wanted = tuple(one for one in resolved.plan.platforms if str(one.platform) in chosen)
    made = resolved.plan
    narrowed = Plan(made.definition, wanted, made.inputs, made.index, made.epoch)
    return Resolved(resolved.lock, resolved.old, narrowed, resolved.definition)


def _platforms(definition: ImageDefinition, choice: Choice) -> list[str]:
    platforms = sorted(definition.base.platforms)
    unknown = [one for one in choice.platforms if one not in platforms]
    if unknown:
        raise InputError.of(
            f"image {definition.name} has no platform {', '.join(unknown)}",
            expected=" or ".join(platforms),
            fix=f"add it to the platforms of [bases.{definition.base_name}]",
        )
    return platforms


def _check_reproduced(old: Lock, new: Lock) -> None:
    """Equal inputs must give equal results: promise 1 of the format."""
    if old.digest == new.digest and old.platforms == new.platforms:
        return
    faults = [
        Fault(
            what=f"image {new.image}: the same inputs gave another result",
            where=f"{lock_path(new.image)} {after.platform}",
            expected=f"manifest {before.manifest}, base {before.base}",
            found=f"manifest {after.manifest}, base {after.base}",
            fix="the lock was edited by hand or this is a fault of compose; `git log -p` the lock",
        )
        for before, after in zip(old.platforms, new.platforms, strict=True)
        if before != after
    ]
    raise IntegrityError(
        *faults
        or [
            Fault(
                what=f"image {new.image}: the lock's digest is not that of its platforms",
                where=lock_path(new.image),
                expected=old.digest,
                found=new.digest,
                fix="the lock was edited by hand; restore it: `git checkout -- lock/`",
            )
        ]
    )


class _Base:
    """The base of an image as this run pins it."""

    def __init__(
        self,
        project: Project,
        layout: Layout,
        definition: ImageDefinition,
        old: Lock | None,
        choice: Choice,
    ) -> None:
        self.layout = layout
        self.definition = definition
        self.spec = definition.base
        self.where = project.file.at(("bases", definition.base_name))
        if self.spec.image is not None:
            raise InputError.of(
                "this version takes bases made of wheels only",
                where=project.file.at(("bases", definition.base_name, "image")),
                found=self.spec.image,
                fix="leave out 'image', or wait for the next version",
            )
        recorded = old.base.source_date_epoch if old is not None else None
        self.epoch = None if choice.forget_epoch else choice.epoch
        if self.epoch is None and not choice.forget_epoch:
            self.epoch = recorded
        self.pins = {
            name: self._pins(name, self._recorded(old, choice))
            for name in sorted(self.spec.platforms)
        }

    def _recorded(self, old: Lock | None, choice: Choice) -> Sequence[LockedWheel]:
        """Return the recorded wheels that may still be used."""
        if old is None or choice.upgrade_base:
            return ()
        if (old.base.python, old.base.glibc) == (self.spec.python, glibc_of(self.spec)):
            return old.base.wheels
        return [
            one
            for one in old.base.wheels
            if wheel_target(self.spec, Platform.parse(one.platform), self.where).accepts(
                one.filename
            )
        ]

    def _pins(self, platform: str, recorded: Sequence[LockedWheel]) -> tuple[WheelPin, ...]:
        """Keep the pins that still answer to a requirement; resolve the rest."""
        known = {
            one.requirement: WheelPin(
                requirement=one.requirement,
                name=one.name,
                version=one.version,
                filename=one.filename,
                digest=Digest.parse(one.digest),
                size=one.size,
            )
            for one in recorded
            if one.platform == platform
        }
        missing = [one for one in self.spec.wheels if one not in known]
        if missing:
            from . import wheelhouse

            target = wheel_target(self.spec, Platform.parse(platform), self.where)
            found = wheelhouse.resolve(missing, target, self.layout)
            known.update({pin.requirement: pin for pin in found})
        return tuple(known[one] for one in self.spec.wheels)

    def source(self) -> Digest:
        """Return the digest of all that the lock is resolved from."""
        return fingerprint.source(
            base=self.spec,
            pins=[
                (platform, str(pin.digest)) for platform, pins in self.pins.items() for pin in pins
            ],
            epoch=self.epoch,
            modules=self.definition.modules,
            knobs=self.definition.knobs,
            config=settings(self.definition),
        )

    def platforms(self) -> list[WheelBase]:
        """Return the base on each platform, in order."""
        return [
            WheelBase(self.spec, Platform.parse(name), pins, self.layout, self.where)
            for name, pins in self.pins.items()
        ]

    def record(self, digest: Digest, epoch: int) -> LockedBase:
        """Return what the lock says of the base."""
        return LockedBase(
            name=self.definition.base_name,
            digest=str(digest),
            epoch=epoch,
            source_date_epoch=self.epoch,
            python=self.spec.python or "",
            glibc=glibc_of(self.spec),
            wheels=tuple(
                LockedWheel(
                    platform=platform,
                    requirement=pin.requirement,
                    name=pin.name,
                    version=str(pin.version),
                    filename=pin.filename,
                    digest=str(pin.digest),
                    size=pin.size,
                )
                for platform, pins in self.pins.items()
                for pin in pins
            ),
        )


def _store(layout: Layout, made: Plan, name: str) -> None:
    for one in made.platforms:
        for layer in one.layers:
            layout.put(layer.blob)
        layout.put(one.image.config.raw)
        layout.put(one.image.manifest.raw)
    if made.index is not None:
        layout.put(made.index.raw)
    top = made.index or made.platforms[0].image.manifest
    layout.tag(name, top.descriptor())


def _remember(project: Project, layout: Layout, resolved: Resolved, choice: Choice) -> None:
    """Record the build for the no-change path."""
    image = resolved.lock.image
    inputs = dict(resolved.definition.inputs)
    inputs[lock_path(image)] = hashlib.sha256(dump(resolved.lock)).hexdigest()
    blobs: dict[str, int] = {}
    for one in resolved.plan.platforms:
        manifest = one.image.manifest
        blobs[str(manifest.digest)] = manifest.size
        for part in (manifest.config, *manifest.layers):
            blobs[str(part.digest)] = part.size
    question = unchanged.Question(project.root, image, ",".join(choice.platforms))
    path = unchanged.record_path(layout.root, question)
    atomic_write(path, unchanged.record(inputs, blobs, answer(resolved)))
