"""Locks -> what people read: the tree of an image, the story of one file. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import InputError
from .lock import Lock, LockedChange, LockedModule, LockedPlatform
from .module import Module
from .patch import Patch
from .text import nearest, short, size

__all__ = ["Node", "Touch", "image_tree", "touches"]


@dataclass(frozen=True, slots=True)
class Node:
    """A line of a tree and what hangs below it. `faint`: detail."""

    text: str
    children: tuple[Node, ...] = ()


def image_tree(lock: Lock) -> Node:
    """Return an image as a tree: base, modules in order with targets and knobs, layers."""
    return Node(
        f"{lock.image}  {lock.digest}",
        (
            _base(lock),
            *(_module(module, lock) for module in lock.modules),
            *(_layers(one) for one in lock.platforms),
            *_settings(lock),
        ),
    )


def _base(lock: Lock) -> Node:
    wheels = tuple(
        Node(f"{one.filename}  {short(one.digest)}  {size(one.size)}  {one.platform}")
        for one in lock.base.wheels
    )
    return Node(f"base {lock.base.name}  {short(lock.base.digest)}", wheels)


def _module(module: LockedModule, lock: Lock) -> Node:
    requires = f"  requires {', '.join(module.requires)}" if module.requires else ""
    knobs = (
        Node(f"knob {knob.name}={knob.value}  of {', '.join(map(repr, knob.values))}")
        for knob in module.knobs
    )
    return Node(
        f"module {module.name}  {short(module.content)}{requires}",
        (*_changes(module.name, lock), *knobs),
    )


def _changes(module: str, lock: Lock) -> Iterator[Node]:
    """Yield one node a change, with the platforms where that is not all of them."""
    where: dict[tuple[Any, ...], list[str]] = {}
    for one in lock.platforms:
        for change in one.changes:
            if change.module == module:
                key = (change.kind, change.path, change.pre, change.post)
                where.setdefault(key, []).append(one.platform)
        for read in one.reads:
            if read.module == module:
                where.setdefault(("read", read.target, read.digest, None), []).append(one.platform)
    for (kind, path, pre, post), platforms in where.items():
        on = "" if len(platforms) == len(lock.platforms) else f"  ({', '.join(platforms)})"
        digests = short(pre) if kind == "read" else f"{short(pre)} -> {short(post)}"
        yield Node(f"{kind} {path}  {digests}{on}")


def _layers(one: LockedPlatform) -> Node:
    total = size(sum(layer.size for layer in one.layers))
    return Node(
        f"{one.platform}  {len(one.layers)} layers of ours, {total}  {short(one.manifest)}",
        tuple(
            Node(f"{layer.module}  {short(layer.diff_id)}  {size(layer.size)}")
            for layer in one.layers
        ),
    )


def _settings(lock: Lock) -> Iterator[Node]:
    lines = [f"{name}={value}" for name, value in lock.config.env.items()]
    for root in sorted({one.cache_root for one in lock.platforms if one.cache_root}):
        lines.append(f"VLLM_CACHE_ROOT={root}")  # noqa: PERF401 - the rest is no comprehension
    for key in ("entrypoint", "cmd"):
        value: Sequence[str] | None = getattr(lock.config, key)
        if value is not None:
            lines.append(f"{key} {' '.join(value)}")
    if lock.config.workdir:
        lines.append(f"workdir {lock.config.workdir}")
    lines += [f"label {name}={value}" for name, value in lock.config.labels.items()]
    if lines:
        yield Node("settings", tuple(Node(line) for line in lines))


@dataclass(frozen=True, slots=True)
class Touch:
    """What one module does to one file. `hunks`: header and lines of each hunk of its patch."""

    platforms: tuple[str, ...]
    change: LockedChange
    file: str
    hunks: tuple[tuple[str, tuple[str, ...]], ...]


def touches(lock: Lock, modules: Sequence[Module], target: str) -> list[Touch]:
    """Return what each module does to `target`, in the modules' order.

    `target` is written as a module writes it, or as the absolute path in the image.

    Raises:
        InputError: no module of the image touches it.
    """
    by_name = {module.name: module for module in modules}
    found: dict[LockedChange, list[str]] = {}
    known: set[str] = set()
    paths = {
        change.path
        for one in lock.platforms
        for change in one.changes
        if target in (change.target, change.path, change.path.lstrip("/"))
    }
    for one in lock.platforms:
        for change in one.changes:
            known.add(change.target)
            if change.path in paths:
                found.setdefault(change, []).append(one.platform)
    if not found:
        raise InputError.of(
            f"no module of {lock.image} touches {target}", fix=nearest(target, sorted(known))
        )
    return [
        Touch(tuple(platforms), change, *_source(change, by_name.get(change.module)))
        for change, platforms in found.items()
    ]


def _source(
    change: LockedChange, module: Module | None
) -> tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Return the file in the module's folder, and its hunks where it is a patch."""
    for one in module.changes if module is not None else ():
        fits = one.kind == "add" or change.pre in [str(preimage) for preimage in one.preimages]
        if (one.kind, one.target) == (change.kind, change.target) and fits:
            if one.kind != "patch":
                return one.file, ()
            hunks = tuple(
                (
                    hunk.header,
                    tuple(tag + line.decode("utf-8", "replace") for tag, line in hunk.body),
                )
                for hunk in Patch.parse(one.data).hunks
            )
            return one.file, hunks
    return "", ()
