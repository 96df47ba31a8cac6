"""`lock/pins/DEPLOY.toml`: what was written into a deploy file, oldest first. Pure.

The pins are a stack. A rollback is an entry too, but stands for the pin that it went back to, so
that the next rollback goes one further, and what was rolled back from is never gone back to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from .errors import InputError, IntegrityError
from .lock import DigestText, Record
from .tomlfile import parse, validate

__all__ = ["Entry", "History", "dump_history", "load_history"]

_HEADER = "# Made by compose pin and compose rollback, oldest first: commit it.\n"


class Entry(Record):
    """A value that was written. previous, value: of the file, before and after.

    to: of a rollback, the number of the pin that it went back to, from 1. edited: `previous` was
    put there by hand. pending: the file was about to be written.
    """

    action: Literal["pin", "rollback"]
    release: str
    digest: DigestText
    previous: str
    value: Annotated[str, Field(min_length=1)]
    to: Annotated[int, Field(ge=1)] | None = None
    edited: bool = False
    pending: bool = False


class _File(Record):
    schema_: Literal[1] = Field(alias="schema")
    pin: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """The entries of one deploy file. Entries are numbered from 1, as a person counts them."""

    entries: tuple[Entry, ...] = ()

    @property
    def last(self) -> Entry | None:
        """The newest entry."""
        return self.entries[-1] if self.entries else None

    def position(self, number: int) -> int:
        """Return the pin that an entry stands for: itself, or what a rollback went back to."""
        return self.entries[number - 1].to or number

    def setter(self, value: str) -> int | None:
        """Return the newest entry that wrote a value; None: it was written by hand."""
        numbers = range(len(self.entries), 0, -1)
        return next((one for one in numbers if self.entries[one - 1].value == value), None)

    def edited(self, value: str) -> bool:
        """Tell whether a value that the file has now is not what the last entry wrote."""
        return self.last is not None and self.last.value != value

    def before(self, number: int) -> int | None:
        """Return the pin that was in force before an entry's; None: there was none."""
        pin = self.position(number)
        return self.position(pin - 1) if pin > 1 else None

    def pinned(self, release: str) -> int | None:
        """Return the newest pin of a release."""
        pins = [
            number
            for number, one in enumerate(self.entries, 1)
            if (one.action, one.release) == ("pin", release)
        ]
        return pins[-1] if pins else None

    def adding(self, entry: Entry) -> History:
        """Return the history with a further entry."""
        return History((*self.entries, entry))

    def finished(self) -> History:
        """Return the history with its last entry no longer pending."""
        return History((*self.entries[:-1], self.entries[-1].model_copy(update={"pending": False})))

    def settled(self, value: str) -> tuple[History, str]:
        """Return the history without a pending entry, as the file's value shows what became of it.

        With it, a remark on what was done; empty where there was none.
        """
        last = self.last
        if last is None or not last.pending:
            return self, ""
        what = f"{last.action} {last.release}"
        if value == last.value:
            return self.finished(), f"an interrupted `{what}` had written the file: finished"
        dropped = History(self.entries[:-1])
        if value == last.previous:
            return dropped, f"an interrupted `{what}` had not written the file: undone"
        return dropped, f"an interrupted `{what}` was dropped: the file was changed since"


def _fault(entries: Sequence[Entry]) -> str:
    """Return what is wrong with the order of entries; empty where it is right."""
    for number, entry in enumerate(entries, 1):
        if entry.pending and number < len(entries):
            return f"entry {number} is pending, and is not the last"
        if number > 1 and not entry.edited and entry.previous != entries[number - 2].value:
            return f"entry {number} says another value came before it than entry {number - 1} wrote"
        if (entry.action == "rollback") != (entry.to is not None):
            return f"entry {number}: a rollback, and nothing else, goes back to an entry"
        if entry.to is not None:
            goal = entries[entry.to - 1] if entry.to < number else None
            if goal is None or (goal.action, goal.release) != ("pin", entry.release):
                return f"entry {number} goes back to entry {entry.to}, which is no such pin"
    return ""


def load_history(raw: bytes, shown: str) -> History:
    """Read a history; `shown` is its file in messages.

    Raises:
        IntegrityError: it was damaged, or its entries do not follow from one another.
    """
    fix = f"only compose writes it: `git checkout -- {shown}`"
    try:
        entries = validate(parse(raw, shown), _File).pin
    except InputError as error:
        raise IntegrityError(*error.faults) from error
    if found := _fault(entries):
        raise IntegrityError.of("the pins were changed by hand", where=shown, found=found, fix=fix)
    return History(entries)


def dump_history(history: History) -> bytes:
    """Serialise a history: the same one gives the same bytes."""
    import tomli_w  # noqa: PLC0415 - those who read it need none

    entries: list[dict[str, Any]] = [
        one.model_dump(exclude_defaults=True) for one in history.entries
    ]
    return (_HEADER + tomli_w.dumps({"schema": 1, "pin": entries})).encode()
