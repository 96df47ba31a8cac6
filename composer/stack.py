"""One file that several modules change: lines that remember where they came from.

Each module writes its edits against the file as *it* knows it: the base's, or the one that the
modules it requires leave. A line keeps its identity through all edits of other lines, so every
edit is found again in the file as it stands, whatever the order, without searching for text.

Two edits of modules that do not know each other collide when they touch the same base lines,
when both insert at one point, or when one inserts at the edge of what the other replaced: then
the order would decide. Lines that merely neighbour each other do not collide.
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


# A point between two neighbouring lines of some view; None is the file's start or end.
Gap = tuple[Line | None, Line | None]


class Collision(Exception):  # noqa: N818 - a result that callers turn into a fault
    """An edit (None: the whole file) cannot be placed, because of what module `other` did."""

    def __init__(self, edit: Edit | None, other: str) -> None:
        super().__init__(edit, other)
        self.edit = edit
        self.other = other


@dataclass(frozen=True, slots=True)
class Text:
    """A file's lines at one point.

    gone: lines replaced or removed -> the module that did. filled: gaps that a module inserted
    into -> the module; a gap stays filled when a later module takes the inserted lines out.
    """

    lines: tuple[Line, ...]
    gone: Mapping[Line, str] = field(default_factory=dict)
    filled: Mapping[Gap, str] = field(default_factory=dict)

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
        gone, filled = dict(self.gone), dict(self.filled)
        placed = [(*self._place(step.view, edit, position), edit) for edit in step.edits]
        pairs = sorted(zip(placed, step.lines, strict=True), key=lambda one: one[0][:2])
        for (start, end, edit), new in reversed(pairs):
            gone.update((line, step.origin) for line in lines[start:end])
            lines[start:end] = new
            if edit.start == edit.end:
                filled[step.view.gap(edit.start)] = step.origin
        return Text(tuple(lines), gone, filled)

    def gap(self, at: int) -> Gap:
        """Return the point before line `at`."""
        before = self.lines[at - 1] if at else None
        return before, self.lines[at] if at < len(self.lines) else None

    def _place(self, view: Text, edit: Edit, position: Mapping[Line, int]) -> tuple[int, int]:
        """Return where in this text the edit's range lies."""
        before, after = view.gap(edit.start)
        pure = edit.start == edit.end
        touched = (before, after) if pure else view.lines[edit.start : edit.end]
        for line in touched:
            if line is not None and line not in position:
                raise Collision(edit, self.gone[line])
        for at in range(edit.start, edit.end + 1):
            gap = view.gap(at)
            if gap in self.filled and gap not in view.filled:
                raise Collision(edit, self.filled[gap])
        if pure:
            start = 0 if before is None else position[before] + 1
            return start, start
        return position[view.lines[edit.start]], position[view.lines[edit.end - 1]] + 1


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
