"""One file that several modules change: lines that remember where they came from.

Each module writes its edits against the file as *it* knows it: the base's, or the one that the
modules it requires leave. A line keeps its identity through all edits of other lines, so every
edit is found again in the file as it stands, whatever the order, without searching for text.

Two edits of modules that do not know each other collide when they touch the same lines, when
both insert at one point, or when one inserts at the edge of what the other replaced: then the
order would decide. Replaced ranges that merely neighbour each other do not collide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .patch import Edit

__all__ = ["Collision", "Line", "Step", "Text"]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line, equal to itself only. `origin` is the module, empty for the base's own lines."""

    data: bytes
    origin: str = ""


# Modules that inserted directly above or below a line, as they saw it. Above None is the file's
# end, below None its start.
Filled = Mapping[Line | None, tuple[str, ...]]


class Collision(Exception):  # noqa: N818 - a result that callers turn into a fault
    """An edit (None: the whole file) cannot be placed, because of what module `other` did."""

    def __init__(self, edit: Edit | None, other: str) -> None:
        super().__init__(edit, other)
        self.edit = edit
        self.other = other


@dataclass(frozen=True, slots=True)
class Text:
    """A file's lines at one point.

    gone: lines replaced or removed -> the module that did. above, below: lines -> the modules
    that inserted there; they stay when a later module takes the inserted lines out.
    """

    lines: tuple[Line, ...]
    gone: Mapping[Line, str] = field(default_factory=dict)
    above: Filled = field(default_factory=dict)
    below: Filled = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[bytes], origin: str = "") -> Text:
        """Return a new text, of the base or wholly a module's."""
        return cls(tuple(Line(line, origin) for line in lines))

    @property
    def data(self) -> bytes:
        """The file's content."""
        return b"".join(line.data for line in self.lines)

    def apply(self, step: Step) -> Text:
        """Place a step's edits in this text, which may have seen more modules than its view.

        Raises:
            Collision: an edit meets that of a module which the step's view has not seen.
        """
        position = {line: number for number, line in enumerate(self.lines)}
        lines = list(self.lines)
        gone, above, below = dict(self.gone), dict(self.above), dict(self.below)
        placed = [(*self._place(step.view, edit, position), edit) for edit in step.edits]
        pairs = sorted(zip(placed, step.lines, strict=True), key=lambda one: one[0][:2])
        for (start, end, edit), new in reversed(pairs):
            gone.update((line, step.origin) for line in lines[start:end])
            lines[start:end] = new
            if start == end:
                before, after = step.view.around(edit.start)
                below[before] = (*below.get(before, ()), step.origin)
                above[after] = (*above.get(after, ()), step.origin)
        return Text(tuple(lines), gone, above, below)

    def around(self, at: int) -> tuple[Line | None, Line | None]:
        """Return the lines before and after the point above line `at`."""
        before = self.lines[at - 1] if at else None
        return before, self.lines[at] if at < len(self.lines) else None

    def _place(self, view: Text, edit: Edit, position: Mapping[Line, int]) -> tuple[int, int]:
        """Return where in this text the edit's range lies."""
        touched = view.lines[edit.start : edit.end]
        before, after = view.around(edit.start)
        for line in touched or (before, after):
            if line is not None and line not in position:
                raise Collision(edit, self.gone[line])
        for line in touched:
            self._check(self.above, view.above, line, edit)
            self._check(self.below, view.below, line, edit)
        if touched:
            return position[touched[0]], position[touched[-1]] + 1
        self._check(self.below, view.below, before, edit)
        start = 0 if before is None else position[before] + 1
        return start, start

    @staticmethod
    def _check(filled: Filled, seen: Filled, line: Line | None, edit: Edit) -> None:
        """Raise where a module that the edit's view has not seen inserted beside `line`."""
        for module in filled.get(line, ()):
            if module not in seen.get(line, ()):
                raise Collision(edit, module)


@dataclass(frozen=True, slots=True)
class Step:
    """A module's edits against `view`, with the lines it brings: the same in every text."""

    origin: str
    view: Text
    edits: tuple[Edit, ...]
    lines: tuple[tuple[Line, ...], ...]

    @classmethod
    def of(cls, view: Text, edits: Sequence[Edit], origin: str) -> Step:
        """Return the step of module `origin`."""
        lines = tuple(tuple(Line(line, origin) for line in edit.lines) for edit in edits)
        return cls(origin, view, tuple(edits), lines)
