"""TOML text with the line of every key, and faults that point at it.

The standard parser gives values without positions, so `_scan` finds the statements a second
time; it needs to know strings and brackets only well enough to skip them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import Fault, InputError
from .text import nearest

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

__all__ = ["Location", "TomlFile", "parse", "validate"]

Location = tuple[str | int, ...]
_Model = TypeVar("_Model", bound="BaseModel")

_KEY = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*(\.?)""")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_VALUE_PIECE = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\''
    r"|#[^\n]*|[\[\]{}\n]|[^\[\]{}\n#\"']+",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A parsed file. `shown` is how messages name it; `lines` count from 1."""

    shown: str
    data: Mapping[str, Any]
    lines: Mapping[Location, int]

    def at(self, location: Location) -> str:
        """Return `file:line key` of a place, the nearest enclosing one that has a line."""
        line = next(
            (
                self.lines[location[:length]]
                for length in range(len(location), -1, -1)
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
            quoted = part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"'
            text += f".{quoted}" if text else quoted
    return text


def parse(raw: bytes, shown: str) -> TomlFile:
    """Parse a file's bytes; a byte order mark and CRLF line ends are taken as they come.

    Raises:
        InputError: not UTF-8, or not TOML; with the line.
    """
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError.of(
            "the file is not UTF-8 text", where=f"{shown}:{line}", found=str(error.reason)
        ) from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise InputError.of(
            "the file is not valid TOML",
            where=f"{shown}:{line}",
            found=re.sub(r" \(at [^)]*\)$", "", str(error)),
        ) from error
    return TomlFile(shown, data, dict(_scan(text)))


def _scan(text: str) -> Iterator[tuple[Location, int]]:
    """Yield the place of every table, array element and key of a valid document."""
    tables: dict[Location, int] = {}  # arrays of tables -> index of their last element
    prefix: Location = ()
    position = 0
    while (position := _end(_BLANK, text, position)) < len(text):
        line = text.count("\n", 0, position) + 1
        if text.startswith("[", position):
            array = text.startswith("[[", position)
            path, position = _keys(text, position + 1 + array)
            prefix = _place(path, tables, append=array)
            yield prefix, line
            position = text.find("]" * (1 + array), position) + 1 + array
        else:
            path, position = _keys(text, position)
            for length in range(1, len(path) + 1):
                yield prefix + path[:length], line
            position = _skip_value(text, position + 1)


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _keys(text: str, position: int) -> tuple[tuple[str, ...], int]:
    keys = []
    while match := _KEY.match(text, position):
        position = match.end()
        key = match[1]
        if key[0] in "\"'":
            key = str(tomllib.loads(f"k = {key}")["k"])
        keys.append(key)
        if not match[2]:
            break
    return tuple(keys), position


def _place(path: tuple[str, ...], tables: dict[Location, int], *, append: bool) -> Location:
    place: Location = ()
    for part in path[:-1]:
        place = (*place, part)
        if place in tables:
            place = (*place, tables[place])
    place = (*place, path[-1])
    if append:
        tables[place] = tables.get(place, -1) + 1
        place = (*place, tables[place])
    return place


def _skip_value(text: str, position: int) -> int:
    depth = 0
    while match := _VALUE_PIECE.match(text, position):
        position = match.end()
        piece = match[0]
        depth += (piece in "[{") - (piece in "]}")
        if piece == "\n" and depth <= 0:
            break
    return position


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


def _faults(file: TomlFile, model: type[BaseModel], error: ValidationError) -> Iterator[Fault]:
    for detail in error.errors(include_url=False):
        location: Location = tuple(detail["loc"])
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
    message = detail["msg"].removeprefix("Value error, ")
    what, _, fix = message.partition("; ")
    shown = detail["input"]
    found = repr(shown) if isinstance(shown, str | int | float | bool) else ""
    return Fault(what=what, where=where, found=found, fix=fix)


def _known_keys(model: Any, location: Location) -> list[str]:
    """Walk `location` through the models' fields and return the keys allowed there."""
    for part in location:
        if isinstance(part, str) and hasattr(model, "model_fields"):
            model = _field_by_key(model)[part].annotation
        model = _element(model)
    return sorted(_field_by_key(model))


def _field_by_key(model: Any) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _element(annotation: Any) -> Any:
    """Return the model inside `tuple[M, ...]`, `dict[str, M]` or `M | None`."""
    while not hasattr(annotation, "model_fields"):
        arguments = [one for one in annotation.__args__ if one not in (type(None), str, ...)]
        annotation = arguments[-1]
    return annotation
