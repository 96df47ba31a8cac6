"""TOML text with the line of every key, and faults that point at it.

The standard parser gives values without positions, so `_Scanner` walks the text a second time,
when a line is first asked for; it only has to know where a value ends.
"""

from __future__ import annotations

import json
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import Fault, InputError
from .text import nearest

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

__all__ = ["Location", "TomlFile", "parse", "read_bytes", "read_keys", "validate"]

Location = tuple[str | int, ...]
_Model = TypeVar("_Model", bound="BaseModel")

_KEY = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*(\.?)""")
_BLANK = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_SCALAR = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\''
    r"|[^,\]}#\n]+",
    re.DOTALL,
)


@dataclass(frozen=True)
class TomlFile:
    """A parsed file. `shown` is how messages name it; `text` has LF line ends only."""

    shown: str
    data: Mapping[str, Any]
    text: str = field(repr=False)

    @cached_property
    def lines(self) -> Mapping[Location, int]:
        """The line, from 1, of every table, key and element of an array."""
        return _Scanner(self.text).lines()

    def at(self, location: Location) -> str:
        """Return `file:line key` of a place, the nearest enclosing one that has a line."""
        line = next(
            (
                self.lines[location[:length]]
                for length in range(len(location), 0, -1)
                if location[:length] in self.lines
            ),
            1,
        )
        key = spell(location)
        return f"{self.shown}:{line} {key}".rstrip()


def spell(location: Location) -> str:
    """Return `patch[0].preimage` for `("patch", 0, "preimage")`."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            quoted = (
                part
                if re.fullmatch(r"[A-Za-z0-9_-]+", part)
                else json.dumps(part, ensure_ascii=False)
            )
            text += f".{quoted}" if text else quoted
    return text


def read_bytes(root: Path, shown: str) -> bytes | None:
    """Return a file below `root`, or None where there is none.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return (root / shown).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError.of(
            "the file cannot be read", where=shown, found=error.strerror or str(error)
        ) from error


def parse(raw: bytes, shown: str) -> TomlFile:
    """Parse a file's bytes; a byte order mark and CRLF line ends are taken as they come.

    Raises:
        InputError: not UTF-8, or not TOML; with the line.
    """
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError.of(
            "the file is not UTF-8 text", where=f"{shown}:{line}", found=error.reason
        ) from error
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond Python's limits
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        end = text.count("\n") + 1 if "end of document" in str(error) else 0
        line = int(found[1]) if found else end
        raise InputError.of(
            "the file is not valid TOML",
            where=f"{shown}:{line}" if line else shown,
            found=re.sub(r" \(at [^)]*\)$", "", str(error)),
        ) from error
    return TomlFile(shown, data, text)


def read_keys(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """Return the dotted key at `at` in a valid document, unquoted, and where it ends."""
    keys = []
    while match := _KEY.match(text, at):
        at = match.end()
        key = match[1]
        if key[0] in "\"'":
            key = str(tomllib.loads(f"k = {key}")["k"])
        keys.append(key)
        if not match[2]:
            break
    return tuple(keys), at


class _Scanner:
    """Walks a valid document and notes the line of each place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.stated: dict[Location, int] = {}
        self.implied: dict[Location, int] = {}  # `a` of `[a.b]` and `a.b = 1`
        self.last: dict[Location, int] = {}  # arrays of tables -> index of their last element
        self.counted, self.line = 0, 1

    def lines(self) -> dict[Location, int]:
        table: Location = ()
        while self._next():
            if self.text.startswith("[", self.at):
                table = self._header()
            else:
                self._pair(table)
        return {**self.implied, **self.stated}

    def _next(self) -> str:
        """Go to the next character that says something and return it."""
        self._skip(_BLANK)
        return self.text[self.at : self.at + 1]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if match := pattern.match(self.text, self.at):
            self.at = match.end()

    def _note(self, place: Location) -> None:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        self.stated.setdefault(place, self.line)
        for length in range(1, len(place)):
            self.implied.setdefault(place[:length], self.line)

    def _header(self) -> Location:
        brackets = 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        *above, key = self._keys()
        place: Location = ()
        for part in above:
            place = (*place, part)
            if place in self.last:
                place = (*place, self.last[place])
        place = (*place, key)
        if brackets == 2:
            self.last[place] = self.last.get(place, -1) + 1
            place = (*place, self.last[place])
        self._note(place)
        self.at += brackets
        return place

    def _pair(self, table: Location) -> None:
        place = (*table, *self._keys())
        self._note(place)
        self.at += 1  # the "="
        self._value(place)

    def _keys(self) -> tuple[str, ...]:
        keys, self.at = read_keys(self.text, self.at)
        return keys

    def _value(self, place: Location) -> None:
        match self._next():
            case "[":
                self._items(place, "]")
            case "{":
                self._items(place, "}")
            case _:
                self._skip(_SCALAR)

    def _items(self, place: Location, close: str) -> None:
        """Walk an array or an inline table."""
        self.at += 1
        number = 0
        while self._next() != close:
            if close == "}":
                self._pair(place)
            else:
                self._note((*place, number))
                self._value((*place, number))
            number += 1
            if self._next() == ",":
                self.at += 1
        self.at += 1


def validate(file: TomlFile, model: type[_Model]) -> _Model:
    """Check a file against its model.

    Raises:
        InputError: every fault of the file, each with its line and key.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - the unchanged path never gets here

    try:
        return model.model_validate(file.data)
    except ValidationError as error:
        raise InputError(*_faults(file, model, error)) from error


# What pydantic's texts say in terms of Python, or of another version's wording.
_WORDS = {
    "bool_type": "true or false is needed, without quotes",
    "dict_type": "a table is needed",
    "float_type": "a number is needed",
    "int_type": "a whole number is needed",
    "model_type": "a table is needed",
    "string_type": "a text in quotes is needed",
    "tuple_type": "a list is needed",
}


def _faults(file: TomlFile, model: type[BaseModel], error: ValidationError) -> Iterator[Fault]:
    for detail in error.errors(include_url=False):
        location: Location = tuple(detail["loc"])
        if location[-1:] == ("[key]",):  # the key itself is wrong, not its value
            location = location[:-1]
        where = file.at(location)
        match detail["type"]:
            case "extra_forbidden":
                known = _known_keys(model, location[:-1])
                yield Fault(
                    what=f"unknown key {location[-1]!r}",
                    where=where,
                    fix=nearest(str(location[-1]), known),
                )
            case "missing":
                yield Fault(what=f"the key {location[-1]!r} is missing", where=where)
            case _:
                yield _value_fault(detail, where)


def _value_fault(detail: ErrorDetails, where: str) -> Fault:
    message = _WORDS.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
    what, _, fix = message.partition("; ")
    expected = ""
    if detail["type"] == "literal_error":
        what, expected = "not one of the values it takes", str(detail["ctx"]["expected"])
    return Fault(what=what, where=where, expected=expected, found=_shown(detail["input"]), fix=fix)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str | int | float) else ""


def _known_keys(model: Any, location: Location) -> list[str]:
    """Walk `location` through the models' fields and return the keys allowed there."""
    parts = list(location)
    while parts:
        annotation = _field_by_key(model)[str(parts.pop(0))].annotation
        if typing.get_origin(annotation) in (dict, tuple):
            parts = parts[1:]  # a name in the table, or a number in the list
        model = _model_in(annotation)
    return sorted(_field_by_key(model))


def _field_by_key(model: Any) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> Any:
    """Return the model inside `tuple[M, ...]`, `dict[str, M]` or `M | None`."""
    while not hasattr(annotation, "model_fields"):
        arguments = [one for one in typing.get_args(annotation) if one not in (type(None), ...)]
        annotation = arguments[-1]
    return annotation
