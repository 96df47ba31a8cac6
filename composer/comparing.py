"""`compose diff`: finds both sides, and what is said of them beside their locks.

It has a module of its own, because building imports much and comparing little.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .diff import Details, Difference, compare
from .errors import ComposeError
from .modulediff import SourceChange, source_changes
from .modulesource import modules_at
from .places import find_root, store_root
from .sides import Side, find

__all__ = ["Compared", "compare_named"]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two sides and what differs."""

    before: Side
    after: Side
    found: Difference
    details: Details


def compare_named(
    start: Path, before: str, after: str, *, contents: bool, back: bool = False
) -> Compared:
    """Compare what two names stand for. start: where to look for a project, if there is one.

    contents: also compare the files' texts, where the store has them. back: `after` is the older
    one, and what it has not is not lost.

    Raises:
        InputError: nothing is called so.
        IntegrityError: a lock, a release, or a blob of the store is damaged.
    """
    root = _root(start)
    old, new = find(root, before), find(root, after)
    gone = {one.name for one in old.lock.modules} - {one.name for one in new.lock.modules}
    excused = gone if back or not gone else new.retired()
    found = compare(old.lock, new.lock, retired=excused)
    sources = _sources(root, old, new, found) if root is not None else {}
    texts = {}
    if contents:
        from .contents import text_diffs
        from .oci.layout import Layout

        texts = text_diffs(Layout(store_root()), found.files, (old.lock, new.lock))
    return Compared(old, new, found, Details(sources, texts, contents))


def _root(start: Path) -> Path | None:
    try:
        return find_root(start)
    except ComposeError:
        return None  # two files can be compared anywhere


def _sources(
    root: Path, old: Side, new: Side, found: Difference
) -> dict[str, tuple[SourceChange, ...]]:
    """Return what was changed in the modules whose older and newer files can be had."""
    changed = [one for one in found.modules if one.before is not None and one.after is not None]
    before = modules_at(root, old.commit, {one.name: one.before or "" for one in changed})
    after = modules_at(root, new.commit, {one.name: one.after or "" for one in changed})
    both = sorted(before.keys() & after.keys())
    return {name: source_changes(before[name], after[name]) for name in both}
