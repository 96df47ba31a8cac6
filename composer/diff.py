"""Two locks -> what differs between their images, section by section. Pure.

The first lock is the older one: what it has and the second has not is gone. Where nothing
differs there is no entry at all, and two locks that differ anywhere have one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .lock import Lock, LockedChange, LockedKnob, LockedLayer, LockedPlatform
from .modulediff import SourceChange
from .textdiff import TextDiff

__all__ = [
    "CONDITIONS",
    "Details",
    "Difference",
    "FileChange",
    "KnobChange",
    "LayerChange",
    "ModuleChange",
    "Value",
    "compare",
]

_Entry = TypeVar("_Entry", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Value:
    """A named value that differs. None: there is none on that side.

    platforms: those where it differs so; empty for what no platform decides.
    """

    name: str
    before: str | None
    after: str | None
    platforms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleChange:
    """A module that was added, removed or changed: `before` and `after` are its contents.

    lost: it is gone and nobody says that this is meant.
    """

    name: str
    before: str | None
    after: str | None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class KnobChange:
    """A knob of a module: declared or not, with other values, or another one in force."""

    name: str
    module: str
    before: LockedKnob | None
    after: LockedKnob | None


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file, and what the modules make of it, in their order: nothing, where it is the base's."""

    path: str
    before: tuple[LockedChange, ...]
    after: tuple[LockedChange, ...]
    platforms: tuple[str, ...]

    @property
    def target(self) -> str:
        """The file as a module spells it."""
        return (self.after or self.before)[-1].target

    @property
    def contents(self) -> tuple[str | None, str | None]:
        """Digests of the file in both images; None: it is not there.

        Of a file that only one of them changes, the other has what that one found in its base.
        """
        before = self.before[-1].post if self.before else self.after[0].pre
        after = self.after[-1].post if self.after else self.before[0].pre
        return before, after


@dataclass(frozen=True, slots=True)
class LayerChange:
    """Layers of ours on one platform: in both images, only in the older, only in the newer."""

    platform: str
    shared: tuple[LockedLayer, ...]
    gone: tuple[LockedLayer, ...]
    new: tuple[LockedLayer, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Everything that differs. order: of the modules that both have, before and after."""

    before: Lock
    after: Lock
    result: tuple[Value, ...]
    base: tuple[Value, ...]
    modules: tuple[ModuleChange, ...]
    order: tuple[tuple[str, ...], tuple[str, ...]] | None
    files: tuple[FileChange, ...]
    reads: tuple[Value, ...]
    knobs: tuple[KnobChange, ...]
    env: tuple[Value, ...]
    labels: tuple[Value, ...]
    settings: tuple[Value, ...]
    platforms: tuple[Value, ...]
    layers: tuple[LayerChange, ...]

    @property
    def empty(self) -> bool:
        """Nothing differs."""
        sections = (
            *(self.result, self.base, self.modules, self.files, self.reads, self.knobs),
            *(self.env, self.labels, self.settings, self.platforms, self.layers),
        )
        return self.order is None and not any(sections)

    def holds(self, condition: str) -> bool:
        """Tell whether one of `CONDITIONS` holds."""
        return CONDITIONS[condition](self)


@dataclass(frozen=True, slots=True)
class Details:
    """What is not in the locks. Where it cannot be had there is no key.

    sources: by name of a module that changed. texts: of files, by path and platforms.
    wanted: contents of files were asked for.
    """

    sources: Mapping[str, Sequence[SourceChange]] = field(default_factory=dict)
    texts: Mapping[tuple[str, tuple[str, ...]], TextDiff] = field(default_factory=dict)
    wanted: bool = False

    def text(self, change: FileChange) -> TextDiff | None:
        """Return how a file's contents differ, if both can be had."""
        return self.texts.get((change.path, change.platforms))


# What a script may ask for, by name.
CONDITIONS: Mapping[str, Callable[[Difference], bool]] = {
    "any": lambda found: not found.empty,
    "base": lambda found: bool(found.base),
    "module": lambda found: bool(found.modules or found.order),
    "lost-module": lambda found: any(one.lost for one in found.modules),
    "removed-module": lambda found: any(one.after is None for one in found.modules),
    "file": lambda found: bool(found.files),
    "knob": lambda found: bool(found.knobs),
    "env": lambda found: bool(found.env),
    "setting": lambda found: bool(found.settings or found.labels),
    "platform": lambda found: bool(found.platforms),
    "layer": lambda found: bool(found.layers),
}


def compare(before: Lock, after: Lock, *, retired: Collection[str] = ()) -> Difference:
    """Return what differs. retired: modules whose absence from `after` is meant."""
    both = _common(before, after)
    return Difference(
        before=before,
        after=after,
        result=tuple(_result(before, after, both)),
        base=tuple(_base(before, after, both)),
        modules=tuple(_modules(before, after, retired)),
        order=_order(before, after),
        files=tuple(_files(both)),
        reads=tuple(_reads(before, after, both)),
        knobs=tuple(_knobs(before, after)),
        env=tuple(_values(before.config.env, after.config.env)),
        labels=tuple(_values(before.config.labels, after.config.labels)),
        settings=tuple(_settings(before, after, both)),
        platforms=tuple(_values(_manifests(before, both), _manifests(after, both))),
        layers=tuple(_layers(both)),
    )


_Both = Sequence[tuple[LockedPlatform, LockedPlatform]]


def _common(before: Lock, after: Lock) -> _Both:
    pairs = ((one, after.platform(one.platform)) for one in before.platforms)
    return [(one, other) for one, other in pairs if other is not None]


def _manifests(lock: Lock, both: _Both) -> dict[str, str]:
    """Return the manifests of the platforms that the other lock does not have."""
    known = {one.platform for one, _ in both}
    return {one.platform: one.manifest for one in lock.platforms if one.platform not in known}


def _values(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Value]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            yield Value(name, old, new)


def _text(value: Any) -> str | None:
    """Return a value of a lock as text; a list as JSON writes it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _fields(before: Any, after: Any, names: Iterable[str]) -> Iterator[Value]:
    for name in names:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield Value(name, _text(old), _text(new))


def _grouped(entries: Iterable[tuple[str, _Entry]]) -> Iterator[tuple[_Entry, tuple[str, ...]]]:
    """Bring the (platform, entry) of equal entries together, in the order they came."""
    where: dict[_Entry, list[str]] = {}
    for platform, entry in entries:
        where.setdefault(entry, []).append(platform)
    for entry, platforms in where.items():
        yield entry, tuple(platforms)


def _platform_fields(both: _Both, names: Iterable[str]) -> Iterator[Value]:
    entries = [(one.platform, value) for one, other in both for value in _fields(one, other, names)]
    for value, platforms in _grouped(entries):
        yield Value(value.name, value.before, value.after, platforms)


def _result(before: Lock, after: Lock, both: _Both) -> Iterator[Value]:
    names = ("image", "digest", "media_type", "format", "inputs", "source")
    yield from _fields(before, after, names)
    yield from _platform_fields(both, ("manifest", "manifest_size", "config"))
    # What was asked of the base: most of it differs as soon as a file does.
    yield from _platform_fields(both, ("facts",))


_BASE_FIELDS = (
    *("name", "image", "reference", "digest", "media_type", "size", "epoch", "source_date_epoch"),
    *("python", "glibc", "package_root", "interpreter"),
)


def _base(before: Lock, after: Lock, both: _Both) -> Iterator[Value]:
    yield from _fields(before.base, after.base, _BASE_FIELDS)
    yield from _values(_wheels(before), _wheels(after))
    yield from _platform_fields(both, ("base", "base_name", "base_layers"))


def _wheels(lock: Lock) -> dict[str, str]:
    found = {}
    for one in lock.base.wheels:
        found[f"wheel {one.name} {one.platform}"] = f"{one.filename} {one.digest}"
        found[f"requirement {one.name} {one.platform}"] = one.requirement
    return found


def _modules(before: Lock, after: Lock, retired: Collection[str]) -> Iterator[ModuleChange]:
    old = {module.name: module.content for module in before.modules}
    new = {module.name: module.content for module in after.modules}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            lost = name not in new and name not in retired
            yield ModuleChange(name, old.get(name), new.get(name), lost)


def _order(before: Lock, after: Lock) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    common = {module.name for module in before.modules} & {module.name for module in after.modules}
    old = tuple(module.name for module in before.modules if module.name in common)
    new = tuple(module.name for module in after.modules if module.name in common)
    return (old, new) if old != new else None


def _by_path(one: LockedPlatform) -> dict[str, tuple[LockedChange, ...]]:
    found: dict[str, list[LockedChange]] = {}
    for change in one.changes:
        found.setdefault(change.path, []).append(change)
    return {path: tuple(changes) for path, changes in found.items()}


def _files(both: _Both) -> Iterator[FileChange]:
    entries = []
    for one, other in both:
        old, new = _by_path(one), _by_path(other)
        for path in sorted(old.keys() | new.keys()):
            entry = (path, old.get(path, ()), new.get(path, ()))
            if entry[1] != entry[2]:
                entries.append((one.platform, entry))
    for (path, before, after), platforms in _grouped(entries):
        yield FileChange(path, before, after, platforms)


def _reads(before: Lock, after: Lock, both: _Both) -> Iterator[Value]:
    """Yield the read-pins that differ, but for those that came or went with their module."""
    old = {module.name for module in before.modules}
    moved = old ^ {module.name for module in after.modules}
    entries = [
        (one.platform, value)
        for one, other in both
        for value in _values(_pins(one, moved), _pins(other, moved))
    ]
    for value, platforms in _grouped(entries):
        yield Value(value.name, value.before, value.after, platforms)


def _pins(one: LockedPlatform, left_out: Collection[str]) -> dict[str, str]:
    return {
        f"{read.module} {read.target}": read.digest
        for read in one.reads
        if read.module not in left_out
    }


def _knobs(before: Lock, after: Lock) -> Iterator[KnobChange]:
    old, new = _declared(before), _declared(after)
    for module, name in sorted(old.keys() | new.keys(), key=lambda key: key[::-1]):
        was, now = old.get((module, name)), new.get((module, name))
        if was != now:
            yield KnobChange(name, module, was, now)


def _declared(lock: Lock) -> dict[tuple[str, str], LockedKnob]:
    return {(module.name, knob.name): knob for module in lock.modules for knob in module.knobs}


def _settings(before: Lock, after: Lock, both: _Both) -> Iterator[Value]:
    names = ("entrypoint", "cmd", "workdir", "cache_namespace")
    yield from _fields(before.config, after.config, names)
    yield from _platform_fields(both, ("cache_root",))


def _layers(both: _Both) -> Iterator[LayerChange]:
    for one, other in both:
        old = {(layer.diff_id, layer.digest) for layer in one.layers}
        new = {(layer.diff_id, layer.digest) for layer in other.layers}
        if one.layers != other.layers:
            yield LayerChange(
                one.platform,
                tuple(layer for layer in other.layers if (layer.diff_id, layer.digest) in old),
                tuple(layer for layer in one.layers if (layer.diff_id, layer.digest) not in new),
                tuple(layer for layer in other.layers if (layer.diff_id, layer.digest) not in old),
            )
