"""The errors that reach a person, and the exit code each kind carries.

A `Fault` is one thing that is wrong: what, where, expected and found, what to do. A
`ComposeError` carries every fault that was found, because a person who repairs an input wants
the whole list at once. Rendering is left to `composer.cli`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Self

__all__ = [
    "CheckFailedError",
    "ComposeError",
    "Fault",
    "InputError",
    "IntegrityError",
    "UnreachableError",
    "raise_all",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. Empty fields are left out when it is shown."""

    what: str
    where: str = ""
    expected: str = ""
    found: str = ""
    fix: str = ""
    context: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        lines = [self.what]
        labelled = (("where", self.where), ("expected", self.expected), ("found", self.found))
        for label, value in labelled:
            if value:
                indented = value.replace("\n", "\n" + " " * 12)
                lines.append(f"  {label + ':':<10}{indented}")
        lines += [f"    {line}" for line in self.context]
        if self.fix:
            lines.append(f"  {'fix:':<10}{self.fix}")
        return "\n".join(lines)


class ComposeError(Exception):
    """Base of all errors that `compose` reports without a traceback."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *faults: Fault) -> None:
        super().__init__(*faults)
        self.faults = faults

    @classmethod
    def of(
        cls, what: str, *, where: str = "", expected: str = "", found: str = "", fix: str = ""
    ) -> Self:
        """Return an error of this class with a single fault."""
        return cls(Fault(what=what, where=where, expected=expected, found=found, fix=fix))

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)


class CheckFailedError(ComposeError):
    """A check failed or a difference was found; nothing is wrong with the tool's input."""

    exit_code = 1


class InputError(ComposeError):
    """The project's files or the command line are wrong."""

    exit_code = 2


class UnreachableError(ComposeError):
    """Something outside (network, store, disk, another program) could not be used."""

    exit_code = 3


class IntegrityError(ComposeError):
    """Bytes are not what their digest, size or lock says."""

    exit_code = 4


def raise_all(faults: Iterable[Fault]) -> None:
    """Raise `InputError` with `faults` unless there are none."""
    if found := tuple(faults):
        raise InputError(*found)
