"""A module as a value: its changes with their bytes, its read-pins and knobs; and their order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .errors import Fault
from .oci.digest import Digest

__all__ = ["Change", "Kind", "Knob", "Module", "Read", "in_order"]

Kind = Literal["patch", "add", "replace", "remove"]


@dataclass(frozen=True, slots=True)
class Change:
    """What a module does to one target. `data`: the patch, or the file; `place`: for faults."""

    kind: Kind
    target: str
    file: str
    data: bytes
    preimages: tuple[Digest, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Read:
    """A read-pin: a file that the module relies on and does not change."""

    target: str
    preimages: tuple[Digest, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Knob:
    """An environment variable that a module declares."""

    name: str
    values: tuple[str, ...]
    default: str
    place: str


@dataclass(frozen=True, slots=True)
class Module:
    """A loaded module. `inputs`: path below the project root -> sha256 hex of what was read."""

    name: str
    requires: tuple[str, ...]
    conflicts: tuple[str, ...]
    changes: tuple[Change, ...]
    reads: tuple[Read, ...]
    knobs: tuple[Knob, ...]
    place: str
    inputs: Mapping[str, str]


def in_order(modules: Mapping[str, Module], image: str) -> tuple[Sequence[Module], Sequence[Fault]]:
    """Order an image's modules: required ones first, ties by name. Faults of all of them.

    With faults, the order is empty.
    """
    faults = [fault for name in sorted(modules) for fault in _unmet(modules[name], modules, image)]
    if faults:
        return (), faults
    waiting = {name: set(module.requires) for name, module in modules.items()}
    ready = [name for name, needs in waiting.items() if not needs]
    heapq.heapify(ready)
    order: list[Module] = []
    dependents = _dependents(modules.values())
    while ready:
        name = heapq.heappop(ready)
        order.append(modules[name])
        del waiting[name]
        for dependent in dependents.get(name, ()):
            waiting[dependent].discard(name)
            if not waiting[dependent]:
                heapq.heappush(ready, dependent)
    return (order, ()) if not waiting else ((), [_cycle(waiting, modules)])


def _dependents(modules: Iterable[Module]) -> dict[str, list[str]]:
    dependents: dict[str, list[str]] = {}
    for module in modules:
        for needed in set(module.requires):
            dependents.setdefault(needed, []).append(module.name)
    return dependents


def _unmet(module: Module, modules: Mapping[str, Module], image: str) -> Iterable[Fault]:
    for needed in module.requires:
        if needed not in modules:
            yield Fault(
                what=f"module {module.name} requires {needed}, which image {image} does not have",
                where=module.place,
                fix=f"add {needed!r} to the modules of [images.{image}]",
            )
    for other in module.conflicts:
        if other in modules:
            yield Fault(
                what=f"modules {module.name} and {other} conflict, and image {image} has both",
                where=module.place,
                fix="take one of them out of the image",
            )


def _cycle(waiting: Mapping[str, set[str]], modules: Mapping[str, Module]) -> Fault:
    name = min(waiting)
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = min(waiting[name])
    path = [*path[path.index(name) :], name]
    return Fault(
        what="modules require each other in a circle",
        where=modules[name].place,
        found=" -> ".join(path),
        fix="drop one of these 'requires'",
    )
