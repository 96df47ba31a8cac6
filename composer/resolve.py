"""A project's image and the lock on disk -> the image resolved, with its new lock.

What the old lock pins stays pinned: only what has changed since is resolved anew. Nothing is
written here but what the store keeps of bases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import fingerprint, releases
from .base import Base, pin_image, place_of
from .errors import CheckFailedError, Fault, InputError, IntegrityError
from .imagebase import ImageBase
from .lock import Lock, LockedPlatform, LockedWheel, differences, dump, lock_of, read_lock
from .oci.digest import Digest
from .oci.layout import Layout
from .oci.manifest import Descriptor
from .oci.platform import Platform
from .places import lock_path
from .plan import Plan, plan, settings
from .project import ImageDefinition, Project
from .wheelpin import WheelPin
from .wheelplace import WheelPlace

__all__ = ["Choice", "Resolved", "resolve", "stale"]


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
        CheckFailedError: under `choice.locked`, the lock is missing or stale; or a module of the
            image's last release is gone, and not retired.
        IntegrityError: nothing has changed and the result is another one.
        ComposeError: any fault of the project, the base or the store.
    """
    definition = project.image(image)
    old = read_lock(project.root, image)
    if choice.locked and old is None:
        raise CheckFailedError(stale(image, ["new lock"]))
    base = _pin(project, layout, definition, old, choice)
    chosen = _chosen(definition, base, choice)
    epoch = _epoch(old, choice)
    source = fingerprint.source(
        base=base.spec,
        pins=base.pinned(),
        epoch=epoch,
        modules=definition.modules,
        knobs=definition.knobs,
        config=settings(definition),
    )
    unchanged = old if old is not None and old.source == str(source) else None
    # Platforms that are not asked for keep their record, as long as nothing has changed.
    whole = unchanged if unchanged is not None and set(base.platforms) - set(chosen) else None
    kept = {} if whole is None else {one.platform: one for one in whole.platforms}
    for name in chosen:
        kept.pop(name, None)
    made = _plan(
        definition, base, old, kept=kept, epoch=epoch if whole is None else whole.base.epoch
    )
    images = [one.base.image for one in made.platforms]
    new = lock_of(
        made,
        base=whole.base if whole is not None else base.record(images, made.epoch, epoch),
        source=source,
        kept=kept,
        digest=Digest.parse(whole.digest) if whole is not None else None,
    )
    if unchanged is not None:
        _check_reproduced(unchanged, new)
    wanted = tuple(one for one in made.platforms if str(one.platform) in chosen)
    resolved = Resolved(new, old, replace(made, platforms=wanted), definition)
    if choice.locked and not resolved.fresh:
        raise CheckFailedError(stale(image, resolved.differences))
    if lost := tuple(releases.lost(project.root, new, definition.retired)):
        raise CheckFailedError(*lost)
    return resolved


def _plan(
    definition: ImageDefinition,
    base: Base,
    old: Lock | None,
    *,
    kept: Mapping[str, LockedPlatform],
    epoch: int | None,
) -> Plan:
    """Plan all platforms but those whose record is kept."""
    names = [module.name for module in definition.modules]
    others = {name: one.inputs(epoch or 0, names) for name, one in kept.items()}
    loaded = [
        base.load(name, old.platform(name) if old is not None else None, definition.modules)
        for name in base.platforms
        if name not in kept
    ]
    return plan(definition, loaded, epoch=epoch, others=others, single=base.single)


def _chosen(definition: ImageDefinition, base: Base, choice: Choice) -> Sequence[str]:
    """Return the platforms to materialise, of those that the image has."""
    if unknown := [one for one in choice.platforms if one not in base.platforms]:
        raise InputError.of(
            f"image {definition.name} has no platform {', '.join(unknown)}",
            expected=" or ".join(base.platforms),
            fix=f"add it to the platforms of [bases.{definition.base_name}]",
        )
    return choice.platforms or base.platforms


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


def _pin(
    project: Project, layout: Layout, definition: ImageDefinition, old: Lock | None, choice: Choice
) -> Base:
    """Pin the base: what the lock pins stays, unless it is to be upgraded."""
    spec = definition.base
    where = project.file.at(("bases", definition.base_name))
    image: ImageBase | None = None
    children: dict[str, Descriptor] = {}
    if spec.image is not None:
        if choice.locked and old is not None and old.base.image != spec.image:
            raise CheckFailedError(stale(definition.name, [f"base {spec.image} is not pinned"]))
        image, children = pin_image(
            spec, old, upgrade=choice.upgrade_base, root=project.root, layout=layout, where=where
        )
    place = place_of(spec, image, children, old, where=where)
    wheels = _Wheels(definition, layout, where, old, choice, place)
    pins = {name: wheels.pins(name) for name in sorted(spec.platforms or children)}
    return Base(definition.base_name, spec, where, layout, image, children, pins, place)


def _epoch(old: Lock | None, choice: Choice) -> int | None:
    """Return the time that is chosen, now or in the lock; None: the base's own."""
    if choice.forget_epoch or choice.epoch is not None:
        return choice.epoch
    return old.base.source_date_epoch if old is not None else None


@dataclass(frozen=True, slots=True)
class _Wheels:
    """Pins the wheels of a base."""

    definition: ImageDefinition
    layout: Layout
    where: str
    old: Lock | None
    choice: Choice
    place: WheelPlace | None

    def pins(self, platform: str) -> tuple[WheelPin, ...]:
        """Keep the pins that still answer to a requirement; resolve the rest."""
        if self.place is None:
            return ()
        wanted = self.definition.base.wheels
        usable = self._usable(self.place, platform)
        known = {one.requirement: _pin_of(one) for one in usable}
        missing = [one for one in wanted if one not in known]
        if missing and self.choice.locked:
            reasons = [f"{one} is not pinned for {platform}" for one in missing]
            raise CheckFailedError(stale(self.definition.name, reasons))
        if missing:
            from . import wheelhouse

            target = self.place.target(Platform.parse(platform), self.where)
            found = wheelhouse.resolve(missing, target, self.layout)
            known.update({pin.requirement: pin for pin in found})
        return tuple(known[one] for one in wanted)

    def _usable(self, place: WheelPlace, platform: str) -> Sequence[LockedWheel]:
        """Return the recorded wheels that may still be used."""
        if self.old is None or self.choice.upgrade_base:
            return ()
        recorded = [one for one in self.old.base.wheels if one.platform == platform]
        if (self.old.base.python, self.old.base.glibc) == (place.python, place.glibc):
            return recorded
        target = place.target(Platform.parse(platform), self.where)
        return [one for one in recorded if target.accepts(one.filename)]


def _pin_of(recorded: LockedWheel) -> WheelPin:
    return WheelPin(
        requirement=recorded.requirement,
        name=recorded.name,
        version=recorded.version,
        filename=recorded.filename,
        digest=Digest.parse(recorded.digest),
        size=recorded.size,
    )
