"""A difference of two locks -> lines for people, of 80 columns where names allow it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .diff import Details, Difference, FileChange, KnobChange, LayerChange, ModuleChange, Value
from .lock import LockedChange, LockedKnob, LockedLayer
from .text import short, size

__all__ = ["Line", "lines", "patch_lines"]

_COLUMNS = 80
_DIGEST = re.compile(r"(sha(?:256|512):[0-9a-f]{12})[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line to print. style: "head", "added", "removed", "changed", "lost", "faint" or none."""

    text: str
    style: str = ""


_MARKS = {"+": "added", "-": "removed", "~": "changed", "!": "lost"}


def lines(names: tuple[str, str], found: Difference, details: Details) -> Iterator[Line]:
    """Yield what a person reads. names: of the two sides, the older first."""
    before, after = found.before, found.after
    image = before.image if before.image == after.image else f"{before.image} -> {after.image}"
    shown = f"{names[0]} -> {names[1]}"
    yield Line(shown if shown == image else f"{shown}  {image}", "head")
    if found.empty:
        yield Line(f"nothing differs: {short(after.digest)}")
        return
    if before.digest == after.digest:
        yield Line(f"the same image: {short(after.digest)}")
    else:
        yield Line(f"{short(before.digest)} -> {short(after.digest)}", "faint")
    yield Line(_summary(found), "lost" if found.holds("lost-module") else "")
    for title, section in _sections(found, details):
        body = list(section)
        if body:
            yield Line("")
            yield Line(title, "head")
            yield from body


def _summary(found: Difference) -> str:
    lost = sum(one.lost for one in found.modules)
    counts = [
        (sum(one.before is None for one in found.modules), "module added", "modules added"),
        (sum(one.after is None for one in found.modules) - lost, "retired", "retired"),
        (lost, "LOST", "LOST"),
        (
            sum(one.before is not None and one.after is not None for one in found.modules),
            "module changed",
            "modules changed",
        ),
        (len({one.path for one in found.files}), "file", "files"),
        (len(found.knobs), "knob", "knobs"),
        (len(found.env) + len(found.labels) + len(found.settings), "setting", "settings"),
        (len(found.platforms), "platform", "platforms"),
    ]
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    if found.base:
        parts.append("another base")
    return ", ".join(parts) or "only what the lock records of the way it was made"


def _sections(found: Difference, details: Details) -> Iterator[tuple[str, Iterable[Line]]]:
    image = found.after.image
    everywhere = len(_shared_platforms(found))
    yield "modules", _modules(found, details, image)
    yield "knobs", (line for one in found.knobs for line in _knob(one))
    yield "files", (line for one in found.files for line in _file(one, details, everywhere))
    yield "read-pins", _values(found.reads, everywhere)
    yield "env", _values(found.env, everywhere, sign="=")
    yield "settings", _values(found.settings, everywhere)
    yield "labels", _values(found.labels, everywhere, sign="=")
    yield "base", _values(found.base, everywhere)
    yield "platforms", _values(found.platforms, everywhere)
    yield "layers", (line for one in found.layers for line in _layer(one))


def _shared_platforms(found: Difference) -> set[str]:
    return {one.platform for one in found.before.platforms} & {
        one.platform for one in found.after.platforms
    }


def _entry(mark: str, text: str) -> Line:
    return Line(f"  {mark} {_shortened(text)}", _MARKS[mark])


def _faint(text: str) -> Line:
    return Line(f"      {_shortened(text)}", "faint")


def _shortened(text: str) -> str:
    return _DIGEST.sub(r"\1", text)


def _mark(before: object, after: object) -> str:
    if before is None:
        return "+"
    return "-" if after is None else "~"


def _modules(found: Difference, details: Details, image: str) -> Iterator[Line]:
    for one in found.modules:
        yield from _module(one, details, image)
    if found.order is not None:
        yield _entry("~", "order of the others")
        for names in found.order:
            yield _faint(", ".join(names))


def _module(one: ModuleChange, details: Details, image: str) -> Iterator[Line]:
    if one.lost:
        yield _entry("!", f"{one.name}  LOST")
        yield _faint(f"gone, and not in 'retired' of [images.{image}]")
        return
    if one.after is None:
        yield _entry("-", f"{one.name}  retired")
        return
    if one.before is None:
        yield _entry("+", f"{one.name}  {one.after}")
        return
    yield _entry("~", f"{one.name}  {one.before} -> {one.after}")
    if one.name not in details.sources:
        yield _faint("its older or newer files are not at hand")
    for change in details.sources.get(one.name, ()):
        yield _faint(f"{change.file}{'' if change.kind == 'changed' else f': {change.kind}'}")
        for mark, texts in (("-", change.gone), ("+", change.new)):
            for text in texts:
                yield Line(f"        {mark} {text}", _MARKS[mark])


def _knob(one: KnobChange) -> Iterator[Line]:
    before, after = one.before, one.after
    if before is None or after is None:
        knob = before or after
        assert knob is not None
        yield _entry(_mark(before, after), f"{one.name}={knob.value}  of {_choices(knob)}")
        return
    if before.value != after.value:
        yield _entry("~", f"{one.name}  {before.value!r} -> {after.value!r}")
    else:
        yield _entry("~", f"{one.name}={after.value}")
    if before.values != after.values:
        yield _faint(f"of {_choices(before)} -> {_choices(after)}")


def _choices(knob: LockedKnob) -> str:
    return ", ".join(map(repr, knob.values))


def _file(one: FileChange, details: Details, everywhere: int) -> Iterator[Line]:
    mark, told = _told(one.before, one.after)
    whole = _entry(mark, f"{one.target}  {told}{_on(one, everywhere)}")
    if len(whole.text) <= _COLUMNS:
        yield whole
    else:
        yield _entry(mark, f"{one.target}{_on(one, everywhere)}")
        yield _faint(told)
    old, new = one.contents
    content = "the same content" if old == new else f"{short(old)} -> {short(new)}"
    yield _faint(content + _counts(one, details))


def _told(before: Sequence[LockedChange], after: Sequence[LockedChange]) -> tuple[str, str]:
    """Return the mark of a file and what is said of it."""
    if not after:
        return "-", f"no longer {_verb(before)} by {_authors(before)}"
    told = f"{_verb(after)} by {_authors(after)}"
    if not before:
        return "+", told
    if _verb(before) != _verb(after):
        return "~", f"{_verb(before)} by {_authors(before)} -> {told}"
    if _authors(before) != _authors(after):
        told = f"{_verb(after)} by {_authors(before)} -> {_authors(after)}"
    return "~", told


def _verb(changes: Sequence[LockedChange]) -> str:
    """Say what the changes of one file come to."""
    if changes[-1].post is None:
        return "removed"
    if changes[0].pre is None:
        return "added"
    return "patched" if all(one.kind == "patch" for one in changes) else "replaced"


def _authors(changes: Sequence[LockedChange]) -> str:
    return ", ".join(one.module for one in changes)


def _on(one: FileChange | Value, everywhere: int) -> str:
    return "" if len(one.platforms) in (0, everywhere) else f"  ({', '.join(one.platforms)})"


def _counts(one: FileChange, details: Details) -> str:
    if not details.wanted or one.contents[0] == one.contents[1]:
        return ""
    text = details.text(one)
    if text is None:
        return "  (not in the store)"
    return "  (not text)" if text.lines is None else f"  +{text.added} -{text.removed}"


def _values(values: Iterable[Value], everywhere: int, sign: str = "  ") -> Iterator[Line]:
    for one in values:
        mark, on = _mark(one.before, one.after), _on(one, everywhere)
        if mark != "~":
            value = one.after if one.before is None else one.before
            yield _entry(mark, f"{one.name}{sign}{value}{on}")
            continue
        whole = _entry("~", f"{one.name}  {one.before} -> {one.after}{on}")
        if len(whole.text) <= _COLUMNS:
            yield whole
        else:
            yield _entry("~", f"{one.name}{on}")
            yield _faint(f"before  {one.before}")
            yield _faint(f"after   {one.after}")


def _layer(one: LayerChange) -> Iterator[Line]:
    groups = (("shared", one.shared), ("new", one.new), ("gone", one.gone))
    parts = [f"{len(layers)} {word} ({_size(layers)})" for word, layers in groups if layers]
    yield Line(f"  {one.platform}: {', '.join(parts)}")
    for layer in one.new:
        yield _entry("+", f"{layer.module}  {layer.diff_id}  {size(layer.size)}")


def _size(layers: Sequence[LockedLayer]) -> str:
    return size(sum(layer.size for layer in layers))


_TAGS = {"+": "added", "-": "removed", "@": "changed"}


def patch_lines(found: Difference, details: Details) -> Iterator[Line]:
    """Yield a unified diff of every file whose contents can be had."""
    for one in found.files:
        text = details.text(one)
        for number, line in enumerate(text.lines or () if text is not None else ()):
            style = "head" if number < 2 else _TAGS.get(line[:1], "")
            yield Line(line, style)
