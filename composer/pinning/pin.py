"""Finding and replacing the image in a deploy file, and nothing else.

All functions take the file's bytes and return values; reading and writing are left to others.
`shown` is how messages name the file.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from .nodes import Document, Map, Scalar, describe
from .pinned import Form, Pinned
from .place import Kind, Place
from .settings import Setting, parts, read, settings
from .source import Edit, Source
from .spelling import check, insertion, overwrite
from .verify import Expected, verify
from .walk import Spot, locate

__all__ = ["Part", "Value", "current", "find", "replace"]


@dataclass(frozen=True, slots=True)
class Part:
    """One value that names the image, or a part of it under `key` (None: the whole).

    `start` and `end` are bytes of the file and span what is between the quotes; `style` is the
    format's own word. `line` counts from 1.
    """

    key: str | None
    start: int
    end: int
    text: str
    style: str
    line: int


@dataclass(frozen=True, slots=True)
class Value:
    """The image a deploy file names. `text` is one reference, whatever its parts.

    `start` and `end` are the bytes from the first part to the last, `line` the first one's;
    `style` is "parts" for a mapping. A kustomize entry may have no part yet: then both are where
    its name ends. `notes` say what else changes with it: where an alias brings the value.
    """

    text: str
    start: int
    end: int
    style: str
    line: int
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()


def find(raw: bytes, kind: Kind, at: str, shown: str) -> Value:
    """Return the image that is named at a place.

    Raises:
        InputError: the file or `at` is wrong, or the place holds nothing that can be replaced.
    """
    return _Target.of(raw, kind, at, shown).value()


def current(raw: bytes, kind: Kind, at: str, shown: str) -> str:
    """Return the image that is named at a place, as one reference; empty where none is yet.

    Raises:
        InputError: as `find`.
    """
    return find(raw, kind, at, shown).text


def replace(raw: bytes, kind: Kind, at: str, new: Pinned, *, form: Form, shown: str) -> bytes:
    """Return the file's bytes with `new` at a place; no other byte differs.

    Raises:
        InputError: as `find`, or the release or the place has no room for the form.
        IntegrityError: the result, parsed again, differs from what was asked for.
    """
    target = _Target.of(raw, kind, at, shown)
    wanted = settings(target.source, kind, target.spot.node, at=at, new=new, form=form)
    result = target.source.edited(_joined([target.edit(one) for one in wanted]))
    verify(
        kind,
        raw,
        result,
        [target.expected(one) for one in wanted],
        shared=bool(target.shared()),
        shown=shown,
    )
    return result


def _joined(edits: list[Edit]) -> list[Edit]:
    """Return edits in which insertions at one point are one, in the order given."""
    found: dict[tuple[int, int], str] = {}
    for edit in edits:
        place = (edit.start, edit.end)
        found[place] = found.get(place, "") + edit.text
    return [Edit(start, end, text) for (start, end), text in found.items()]


@dataclass(frozen=True, slots=True)
class _Target:
    """A place in a file, found and fit to be replaced."""

    source: Source
    kind: Kind
    at: str
    spot: Spot
    parts: dict[str | None, Spot]

    @classmethod
    def of(cls, raw: bytes, kind: Kind, at: str, shown: str) -> _Target:
        try:
            place = Place.parse(kind, at)
        except ValueError as error:
            what, _, fix = str(error).partition("; ")
            raise InputError.of(what, where=shown, fix=fix) from error
        source = Source.of(raw, shown)
        spot = locate(source, _documents(source, kind), place)
        target = cls(source, kind, at, spot, parts(source, kind, spot, at))
        target._check()
        return target

    def _check(self) -> None:
        for key, spot in self.parts.items():
            if not isinstance(spot.node, Scalar):
                raise InputError.of(
                    f"{self._path(key)} is not text",
                    where=self.source.where(spot.node.start, self._path(key)),
                    expected="an image, as text",
                    found=describe(spot.node),
                )
            check(self.source, self.kind, spot.node, self._path(key))

    def _path(self, key: str | None) -> str:
        return f"{self.at}.{key}" if key else self.at

    def _texts(self) -> dict[str | None, str]:
        return {key: _text(spot) or "" for key, spot in self.parts.items()}

    def value(self) -> Value:
        found = tuple(self._part(key, spot) for key, spot in self.parts.items())
        start = min((part.start for part in found), default=self._name_end())
        end = max((part.end for part in found), default=start)
        return Value(
            read(self.kind, self.spot.node, self._texts()),
            start,
            end,
            found[0].style if None in self.parts else "parts",
            min((part.line for part in found), default=self.source.line(self.spot.node.start)),
            found,
            self._notes(),
        )

    def _name_end(self) -> int:
        """Return the byte where a kustomize entry's name ends."""
        entry = self.spot.node.get("name") if isinstance(self.spot.node, Map) else None
        name = entry.value if entry else None
        return self.source.byte(name.end if isinstance(name, Scalar) else self.spot.node.start)

    def _notes(self) -> tuple[str, ...]:
        if not (lines := self.shared()):
            return ()
        which = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
        return (f"{self.at} is anchored: what the aliases in {which} bring changes with it",)

    def _part(self, key: str | None, spot: Spot) -> Part:
        node = spot.node
        assert isinstance(node, Scalar)
        return Part(
            key,
            self.source.byte(node.start),
            self.source.byte(node.end),
            _text(spot) or "",
            node.style,
            self.source.line(node.start),
        )

    def edit(self, setting: Setting) -> Edit:
        path = self._path(setting.key)
        if (spot := self.parts.get(setting.key)) is not None:
            assert isinstance(spot.node, Scalar)
            return overwrite(self.source, self.kind, spot.node, setting.text, path)
        assert isinstance(self.spot.node, Map)
        assert setting.key is not None
        point, text = insertion(self.source, self.spot.node, setting.key, setting.text, path)
        return Edit(point, point, text)

    def expected(self, setting: Setting) -> Expected:
        if (spot := self.parts.get(setting.key)) is not None:
            return Expected(spot.location, _text(spot), setting.text)
        return Expected((*self.spot.location, setting.key), None, setting.text, inserted=True)

    def shared(self) -> list[int]:
        """Return the lines of aliases that bring any of the values elsewhere."""
        spots = [self.spot, *self.parts.values()]
        starts = {alias.start for spot in spots for alias in spot.aliases()}
        return sorted({self.source.line(start) for start in starts})


def _text(spot: Spot) -> str | None:
    """Return what a scalar says; None where it is empty (null)."""
    assert isinstance(spot.node, Scalar)
    return spot.node.data if spot.node.data is None else spot.node.text


def _documents(source: Source, kind: Kind) -> list[Document]:
    match kind:
        case "json":
            from .jsontree import documents  # noqa: PLC0415 - a file has one kind
        case "toml":
            from .tomltree import documents  # noqa: PLC0415
        case "dotenv":
            from .dotenv import documents  # noqa: PLC0415
        case _:
            from .yamltree import documents  # noqa: PLC0415 - and PyYAML takes 20 ms
    return documents(source)
