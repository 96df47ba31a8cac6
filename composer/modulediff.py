"""Two versions of a module -> what its author changed: declarations, files, hunks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .module import Change, Module
from .patch import Hunk, Patch, PatchError

__all__ = ["SourceChange", "source_changes"]


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A file of a module's folder. gone, new: headers of its hunks, or what module.toml says.

    kind: "added", "removed" or "changed".
    """

    file: str
    kind: str
    gone: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


def source_changes(before: Module, after: Module) -> tuple[SourceChange, ...]:
    """Return what differs between two versions of a module, `module.toml` first."""
    return tuple(_changes(before, after))


def _changes(before: Module, after: Module) -> Iterator[SourceChange]:
    old, new = _declared(before), _declared(after)
    if old != new:
        gone, added = _without(old, new), _without(new, old)
        yield SourceChange("module.toml", "changed", tuple(gone), tuple(added))
    files, others = _files(before), _files(after)
    for name in sorted(files.keys() | others.keys()):
        was, now = files.get(name), others.get(name)
        if was is None or now is None:
            yield SourceChange(name, "added" if was is None else "removed")
        elif was.data != now.data:
            yield SourceChange(name, "changed", *_hunks(was, now))


def _declared(module: Module) -> list[str]:
    """Return a line for everything that module.toml says, but for the files' contents."""
    lines = [f"requires {name}" for name in module.requires]
    for one in module.changes:
        preimages = ", ".join(digest.short for digest in sorted(one.preimages))
        lines.append(" ".join(filter(None, (one.kind, one.target, one.file, preimages))))
    for read in module.reads:
        preimages = ", ".join(digest.short for digest in sorted(read.preimages))
        lines.append(f"read {read.target} {preimages}")
    lines += [
        f"knob {one.name}={one.default} of {', '.join(map(repr, one.values))}"
        for one in module.knobs
    ]
    return sorted(lines)


def _without(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    return sorted((Counter(lines) - Counter(others)).elements())


def _files(module: Module) -> dict[str, Change]:
    return {one.file: one for one in module.changes if one.file}


def _hunks(before: Change, after: Change) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return headers of the hunks that only one version has: those that only moved are not."""
    if before.kind != "patch" or after.kind != "patch":
        return (), ()
    try:
        old, new = Patch.parse(before.data).hunks, Patch.parse(after.data).hunks
    except PatchError:  # a version of compose that took it
        return (), ()
    return _headers(old, new), _headers(new, old)


def _headers(hunks: Sequence[Hunk], others: Sequence[Hunk]) -> tuple[str, ...]:
    left = Counter(one.body for one in others)
    headers = []
    for hunk in hunks:
        if left[hunk.body]:
            left[hunk.body] -= 1
        else:
            headers.append(hunk.header)
    return tuple(headers)
