"""A place in the documents of a file -> the node that is there, or why there is none.

What would change more or less than it seems is refused by name: a key set twice, a value that
an alias or a merge key brings from elsewhere, a place that two documents or two items fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import Fault, InputError, raise_all
from ..text import nearest
from .nodes import Alias, Document, Entry, Map, Node, Scalar, Seq, describe, nodes
from .place import DocumentName, Index, Key, Place, Select, Step, spell
from .source import Source

__all__ = ["Spot", "child", "locate"]

# The keys and numbers that lead to a value in what a parser returns.
Location = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Spot:
    """A node and the way to it: through `trail`, and by `location` in the parsed data.

    `location` begins with the number of the document.
    """

    node: Node
    location: Location
    trail: tuple[Node, ...]
    document: Document

    def aliases(self) -> list[Alias]:
        """Return the aliases that bring this node, or one it is part of, elsewhere too."""
        above = {id(node) for node in self.trail}
        found = (node for node in nodes(self.document.root) if isinstance(node, Alias))
        return [alias for alias in found if id(alias.target) in above]


class _MissingError(InputError):
    """The place is not in this document; another may have it."""


def locate(source: Source, documents: Sequence[Document], place: Place) -> Spot:
    """Return what is at `place`.

    Raises:
        InputError: nothing, or nothing that can be replaced, is there; keys are set twice.
    """
    raise_all(_repeated_keys(source, documents))
    if place.document is not None:
        return _walk(source, place, _object(source, documents, place.document))
    spots: list[Spot] = []
    missing: list[_MissingError] = []
    for document in documents:
        start = Spot(document.root, (document.number,), (document.root,), document)
        try:
            spots.append(_walk(source, place, start))
        except _MissingError as error:
            missing.append(error)
    if len(spots) > 1:
        raise InputError.of(
            f"{len(spots)} documents of the file have {place.at}",
            where=source.shown,
            expected="one",
            found=_lines(source, [spot.node for spot in spots]),
            fix="keep it in one document",
        )
    if not spots:
        raise missing[0] if missing else _empty(source)
    return spots[0]


def _empty(source: Source) -> InputError:
    return InputError.of("the file holds nothing", where=source.shown)


def _lines(source: Source, found: Sequence[Node]) -> str:
    return "\n".join(f"line {source.line(node.start)}" for node in found)


def _repeated_keys(source: Source, documents: Sequence[Document]) -> Iterator[Fault]:
    for document in documents:
        for node in nodes(document.root):
            seen: dict[tuple[str, object], Entry] = {}
            for entry in node.entries if isinstance(node, Map) else ():
                if entry.text is None:
                    continue
                first = seen.setdefault((type(entry.data).__name__, entry.data), entry)
                if first is not entry:
                    yield Fault(
                        what=f"{entry.text} is set twice",
                        where=source.where(entry.start),
                        found=f"first in line {source.line(first.start)}",
                        fix="remove one; readers differ on which of them counts",
                    )


# Documents


def _object(source: Source, documents: Sequence[Document], wanted: DocumentName) -> Spot:
    objects = list(_objects(documents))
    fitting = [spot for spot in objects if _fits(_name(spot.node), wanted)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise InputError.of(
            f"{len(fitting)} objects of the file are {wanted}",
            where=source.shown,
            expected="one",
            found="\n".join(f"{_shown(source, spot)}" for spot in fitting),
            fix=f"name the namespace: {wanted.kind}/NAMESPACE/{wanted.name}:..."
            if len({str(_name(spot.node)) for spot in fitting}) > 1
            else "keep one",
        )
    raise InputError.of(
        f"there is no {wanted}",
        where=source.shown,
        found="\n".join(_shown(source, spot) for spot in objects) or "no object",
        fix=nearest(str(wanted), [str(_name(spot.node)) for spot in objects]),
    )


def _objects(documents: Sequence[Document]) -> Iterator[Spot]:
    """Yield the Kubernetes objects: documents, and items of a `List`."""
    for document in documents:
        root = document.root
        if not isinstance(root, Map):
            continue
        items = root.get("items")
        if (root.text("kind") or "").endswith("List") and items and isinstance(items.value, Seq):
            for number, item in enumerate(items.value.items):
                if isinstance(item, Map):
                    location = (document.number, "items", number)
                    yield Spot(item, location, (root, items.value, item), document)
        elif root.text("kind") is not None:
            yield Spot(root, (document.number,), (root,), document)


def _name(node: Node) -> DocumentName:
    assert isinstance(node, Map)
    entry = node.get("metadata")
    metadata = entry.value if entry and isinstance(entry.value, Map) else Map(0)
    namespace, name = metadata.text("namespace"), metadata.text("name")
    return DocumentName(node.text("kind") or "", namespace, name or "")


def _fits(name: DocumentName, wanted: DocumentName) -> bool:
    namespaces = (None, name.namespace)
    return (name.kind, name.name) == (wanted.kind, wanted.name) and wanted.namespace in namespaces


def _shown(source: Source, spot: Spot) -> str:
    return f"line {source.line(spot.node.start)}: {_name(spot.node)}"


# Steps


def _walk(source: Source, place: Place, start: Spot) -> Spot:
    spot = start
    for number, step in enumerate(place.steps):
        path = spell(place.steps[: number + 1])
        above = spell(place.steps[:number]) or "the document"
        match step:
            case Key(name):
                spot = _key(source, spot, name, path, above)
            case _:
                spot = _item(source, spot, step, path, above)
        if isinstance(spot.node, Alias):
            raise _aliased(source, spot.node, path)
    return spot


def child(source: Source, spot: Spot, name: str, above: str) -> Spot | None:
    """Return what is at a key of the mapping at `above`, or None.

    Raises:
        InputError: an alias or a merge key brings it.
    """
    path = f"{above}.{name}"
    try:
        below = _key(source, spot, name, path, above)
    except _MissingError:
        return None
    if isinstance(below.node, Alias):
        raise _aliased(source, below.node, path)
    return below


def _below(spot: Spot, node: Node, *location: object) -> Spot:
    return Spot(node, (*spot.location, *location), (*spot.trail, node), spot.document)


def _aliased(source: Source, alias: Alias, path: str) -> InputError:
    anchor = source.line(alias.target.start)
    return InputError.of(
        f"{path} is an alias, so its value is written elsewhere",
        where=source.where(alias.start, path),
        found=f"*{alias.name}, anchored in line {anchor}",
        fix=f"point 'at' to the value in line {anchor}, or write the value out here",
    )


def _key(source: Source, spot: Spot, name: str, path: str, above: str) -> Spot:
    node = spot.node
    if not isinstance(node, Map):
        raise _mismatch(source, node, path, above, "a mapping")
    entry = node.get(name)
    if entry is not None and not entry.merge:
        return _below(spot, entry.value, entry.data)
    if merged := _merged(node, name, set()):
        at, value = merged
        raise InputError.of(
            f"{path} comes through the merge key <<, so its value is written elsewhere",
            where=source.where(at.start, path),
            found=f"line {source.line(value.start)}",
            fix=f"point 'at' to the value in line {source.line(value.start)}, or set"
            f" {name} here as well",
        )
    keys = [one.text for one in node.entries if one.text is not None and not one.merge]
    raise _MissingError.of(
        f"there is no {path}",
        where=source.where(node.start, above),
        fix=nearest(name, keys),
    )


def _merged(node: Map, name: str, seen: set[int]) -> tuple[Entry, Entry] | None:
    """Return the merge key of `node` that brings `name`, and the entry it brings."""
    if id(node) in seen:
        return None
    seen.add(id(node))
    for entry in node.entries:
        for target in _targets(entry.value) if entry.merge else ():
            found = target.get(name)
            if found is not None and not found.merge:
                return entry, found
            if deeper := _merged(target, name, seen):
                return entry, deeper[1]
    return None


def _targets(node: Node) -> Iterator[Map]:
    match node:
        case Alias():
            yield from _targets(node.target)
        case Map():
            yield node
        case Seq():
            for item in node.items:
                resolved = item.target if isinstance(item, Alias) else item
                if isinstance(resolved, Map):
                    yield resolved


def _mismatch(source: Source, node: Node, path: str, above: str, expected: str) -> InputError:
    return _MissingError.of(
        f"there is no {path}",
        where=source.where(node.start, above),
        expected=expected,
        found=describe(node),
    )


def _item(source: Source, spot: Spot, step: Step, path: str, above: str) -> Spot:
    node = spot.node
    if not isinstance(node, Seq):
        raise _mismatch(source, node, path, above, "a list")
    match step:
        case Index(number):
            if number >= len(node.items):
                raise _MissingError.of(
                    f"there is no {path}",
                    where=source.where(node.start, above),
                    found=f"{describe(node)}, counted from 0",
                )
            return _below(spot, node.items[number], number)
        case Select(key, value):
            return _selected(source, spot, node, Select(key, value), path)
    raise AssertionError(step)


def _selected(source: Source, spot: Spot, node: Seq, step: Select, path: str) -> Spot:
    texts = [_text(item, step.key) for item in node.items]
    fitting = [number for number, text in enumerate(texts) if text == step.value]
    if len(fitting) == 1:
        return _below(spot, node.items[fitting[0]], fitting[0])
    if fitting:
        raise InputError.of(
            f"{len(fitting)} items of the list are {path}",
            where=source.where(node.start),
            expected="one",
            found=_lines(source, [node.items[number] for number in fitting]),
            fix="keep one, or choose by number, as in [0]",
        )
    raise _MissingError.of(
        f"there is no {path}",
        where=source.where(node.start),
        found=describe(node),
        fix=nearest(step.value, [text for text in texts if text is not None]),
    )


def _text(item: Node, key: str) -> str | None:
    """Return what `key` of an item says; an alias is looked through, to be named if it fits."""
    resolved = item.target if isinstance(item, Alias) else item
    if not isinstance(resolved, Map):
        return None
    entry = resolved.get(key)
    if entry is None:
        merged = _merged(resolved, key, set())
        entry = merged[1] if merged else None
    value = entry.value if entry else None
    value = value.target if isinstance(value, Alias) else value
    return value.text if isinstance(value, Scalar) else None
