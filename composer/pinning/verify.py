"""The proof of an edit, from the bytes before and after it.

Both are read by the format's own parser, apart from the walk that found the value. Every
difference must be one that was asked for.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, IntegrityError

__all__ = ["Expected", "verify"]


@dataclass(frozen=True, slots=True)
class Expected:
    """The value at `location` was `old` and is `new`; an inserted key was not there."""

    location: tuple[object, ...]
    old: str | None
    new: str
    inserted: bool = False


def verify(
    kind: str, before: bytes, after: bytes, expected: list[Expected], *, shared: bool, shown: str
) -> None:
    """Check that `after` is `before` with the expected differences and no other.

    With `shared`, the values may also have changed wherever an alias brings them.

    Raises:
        InputError: the file's own parser does not take `before`.
        IntegrityError: it does not take `after`, or something else differs.
    """
    load = _LOADERS.get(kind, _yaml)
    try:
        old = load(before)
    except _ERRORS as error:
        raise InputError.of(
            "the file cannot be read", where=shown, found=f"{error}" or type(error).__name__
        ) from error
    try:
        new = load(after)
    except _ERRORS as error:
        raise _failed(shown, "a file that can be read", str(error)) from error
    for one in expected:
        if _get(new, one.location) != one.new:
            raise _failed(shown, one.new, repr(_get(new, one.location)))
    _check_rest(old, new, expected, shared=shared, shown=shown)


def _check_rest(old: Any, new: Any, expected: list[Expected], *, shared: bool, shown: str) -> None:
    places = {one.location: one for one in expected}
    changes = [(one.old, one.new, one.inserted) for one in expected]
    for location, was, now in _differences(old, new):
        known = places.get(location)
        change = (None if was is _ABSENT else was, now, was is _ABSENT)
        if known is None and not (shared and change in changes):
            raise _failed(shown, "no other change", f"one at {location}")


def _failed(shown: str, expected: str, found: str) -> IntegrityError:
    return IntegrityError.of(
        "the edited file does not say what it should, so it was not written",
        where=shown,
        expected=expected,
        found=found,
        fix="this is a fault of compose; please report it with the file",
    )


_ABSENT = object()


def _get(data: Any, location: tuple[object, ...]) -> Any:
    for part in location:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return _ABSENT
    return data


def _differences(old: Any, new: Any) -> Iterator[tuple[tuple[object, ...], Any, Any]]:
    """Yield what differs as (location, old, new); each pair of shared parts is visited once."""
    waiting: list[tuple[tuple[object, ...], Any, Any]] = [((), old, new)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        location, was, now = waiting.pop()
        if isinstance(was, dict | list) and type(was) is type(now):
            if (id(was), id(now)) not in seen:
                seen.add((id(was), id(now)))
                waiting += [((*location, key), one, other) for key, one, other in _pairs(was, now)]
        elif not _same(was, now):
            yield location, was, now


def _pairs(was: Any, now: Any) -> Iterator[tuple[object, Any, Any]]:
    if isinstance(was, dict):
        for key in (*was, *(key for key in now if key not in was)):
            yield key, was.get(key, _ABSENT), now.get(key, _ABSENT)
    else:
        for number in range(max(len(was), len(now))):
            yield (
                number,
                was[number] if number < len(was) else _ABSENT,
                now[number] if number < len(now) else _ABSENT,
            )


def _same(was: Any, now: Any) -> bool:
    return type(was) is type(now) and (was == now or (was != was and now != now))  # noqa: PLR0124


# Parsers. Each returns a list of documents.


def _yaml(raw: bytes) -> list[Any]:
    import yaml  # noqa: PLC0415 - not for the other kinds

    class Loader(yaml.SafeLoader):
        """Takes tags of others, such as Compose's `!reset`, as what they are put on.

        What looks like a date or a number and is none is text, as in later YAML.
        """

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except ValueError:
                self.recursive_objects.pop(node, None)
                return node.value

    def tagged(loader: Any, tag: str, node: Any) -> Any:
        match node:
            case yaml.ScalarNode():
                return [tag, loader.construct_scalar(node)]
            case yaml.SequenceNode():
                return [tag, loader.construct_sequence(node, deep=True)]
        return [tag, loader.construct_mapping(node, deep=True)]

    Loader.add_multi_constructor("!", tagged)
    Loader.add_constructor("tag:yaml.org,2002:value", _yaml_value)
    try:
        return list(yaml.load_all(raw.decode("utf-8-sig"), Loader=Loader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _yaml_value(loader: Any, node: Any) -> Any:
    return loader.construct_scalar(node)


def _toml(raw: bytes) -> list[Any]:
    return [tomllib.loads(raw.decode("utf-8-sig"))]


def _json(raw: bytes) -> list[Any]:
    return [json.loads(raw.decode("utf-8-sig"))]


def _dotenv(raw: bytes) -> list[Any]:
    values: dict[str, str] = {}
    lines = iter(raw.decode("utf-8-sig").split("\n"))
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or name.lstrip().startswith("#"):
            continue
        name, value = name.split()[-1], value.strip()
        if value.startswith(("'", '"')):
            while (end := _closing(value)) < 0:
                value += "\n" + next(lines, value[0])
            values[name] = value[1:end]
        else:
            values[name] = value.partition(" #")[0].partition("\t#")[0].strip()
    return [values]


def _closing(value: str) -> int:
    """Return the index of the quote that ends what the first character began, or -1."""
    at = 1
    while at < len(value):
        if value[at] == value[0]:
            return at
        at += 2 if value[at] == "\\" else 1
    return -1


_LOADERS: Mapping[str, Callable[[bytes], list[Any]]] = {
    "dotenv": _dotenv,
    "json": _json,
    "toml": _toml,
}
_ERRORS = (ValueError, RecursionError, TypeError, AttributeError)
