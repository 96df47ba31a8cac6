"""A project's image and the lock on disk -> the image resolved, with its new lock.

What the old lock pins stays pinned: only what has changed since is resolved anew. Nothing is
written here but what the store keeps of bases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import fingerprint
from .base import WheelBase, glibc_of, wheel_target
from .errors import CheckFailedError, Fault, InputError, IntegrityError
from .lock import Lock, LockedBase, LockedPlatform, LockedWheel, differences, dump, load, lock_of
from .oci.digest import Digest
from .oci.image import index_of
from .oci.layout import Layout
from .oci.platform import Platform
from .places import lock_path
from .plan import Plan, plan, settings
from .project import ImageDefinition, Project
from .wheelpin import WheelPin

__all__ = ["Choice", "Resolved", "read_lock", "resolve", "stale"]


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


def stale(image: str, reasons: Sequence[str]) -> Fault:
    """Return the fault of a lock that does not say what the project says now."""
    missing = list(reasons) == ["new lock"]
    return Fault(
        what=f"the lock of {image} is {'missing' if missing else 'stale'}",
        where=lock_path(image),
        context=() if missing else tuple(reasons),
        fix=f"run `compose lock {image}` and commit the result",
    )


def resolve(project: Project, layout: Layout, image: str, choice: Choice) -> Resolved:
    """Resolve an image.

    Raises:
        CheckFailedError: under `choice.locked`, the lock is missing or stale.
        IntegrityError: nothing has changed and the result is another one.
        ComposeError: any fault of the project, the base or the store.
    """
    definition = project.image(image)
    old = read_lock(project.root, image)
    if choice.locked and old is None:
        raise CheckFailedError(stale(image, ["new lock"]))
    chosen = _chosen(definition, choice)
    base = _Base(project, layout, definition, old, choice)
    source = base.source()
    unchanged = old if old is not None and old.source == str(source) else None
    # Platforms that are not asked for keep their record, as long as nothing has changed.
    kept = {
        one.platform: one
        for one in (unchanged.platforms if unchanged is not None else ())
        if one.platform not in chosen
    }
    made = _plan(definition, base, unchanged, kept)
    new = lock_of(
        made,
        base=base.record(made, unchanged if kept else None),
        source=source,
        kept=kept,
        digest=Digest.parse(unchanged.digest) if kept and unchanged is not None else None,
    )
    if unchanged is not None:
        _check_reproduced(unchanged, new)
    wanted = tuple(one for one in made.platforms if str(one.platform) in chosen)
    resolved = Resolved(new, old, replace(made, platforms=wanted), definition)
    if choice.locked and not resolved.fresh:
        raise CheckFailedError(stale(image, resolved.differences))
    return resolved


def _plan(
    definition: ImageDefinition,
    base: _Base,
    unchanged: Lock | None,
    kept: Mapping[str, LockedPlatform],
) -> Plan:
    """Plan all platforms but those whose record is kept."""
    names = [module.name for module in definition.modules]
    others = {
        name: one.inputs(unchanged.base.epoch, names)
        for name, one in kept.items()
        if unchanged is not None
    }
    loaded = [one.load() for one in base.platforms() if str(one.platform) not in kept]
    single = len(definition.base.platforms) == 1
    # What is kept has its time already, which may be that of another platform's base.
    epoch = unchanged.base.epoch if kept and unchanged is not None else base.epoch
    return plan(definition, loaded, epoch=epoch, others=others, single=single)


def _chosen(definition: ImageDefinition, choice: Choice) -> Sequence[str]:
    """Return the platforms to materialise, of those that the image has."""
    platforms = sorted(definition.base.platforms)
    if unknown := [one for one in choice.platforms if one not in platforms]:
        raise InputError.of(
            f"image {definition.name} has no platform {', '.join(unknown)}",
            expected=" or ".join(platforms),
            fix=f"add it to the platforms of [bases.{definition.base_name}]",
        )
    return choice.platforms or platforms


def _check_reproduced(old: Lock, new: Lock) -> None:
    """Equal inputs must give equal results."""
    if old.digest == new.digest and old.platforms == new.platforms:
        return
    faults = [
        Fault(
            what=f"image {new.image}: the same inputs gave another result",
            where=f"{lock_path(new.image)} {after.platform}",
            expected=f"manifest {before.manifest} on base {before.base}",
            found=f"manifest {after.manifest} on base {after.base}",
            fix="the lock was edited by hand, or compose has a fault: see `git log -p` of the lock",
        )
        for before, after in zip(old.platforms, new.platforms, strict=True)
        if before != after
    ]
    whole = Fault(
        what=f"image {new.image}: the same inputs gave another result",
        where=f"{lock_path(new.image)} digest",
        expected=old.digest,
        found=new.digest,
        fix="the lock was edited by hand: restore it, `git checkout -- lock/`",
    )
    raise IntegrityError(*(faults or [whole]))


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
        self.locked = choice.locked
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
        if missing and self.locked:
            reasons = [f"{one} is not pinned for {platform}" for one in missing]
            raise CheckFailedError(stale(self.definition.name, reasons))
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

    def record(self, made: Plan, whole: Lock | None) -> LockedBase:
        """Return what the lock says of the base; `whole`: the lock that knows all platforms."""
        images = [one.base.image for one in made.platforms]
        top = images[0].manifest if len(images) == 1 else index_of(images)
        digest = whole.base.digest if whole is not None else str(top.digest)
        return LockedBase(
            name=self.definition.base_name,
            digest=digest,
            epoch=made.epoch,
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
