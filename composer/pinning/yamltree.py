"""YAML text -> documents of nodes with positions.

PyYAML's composer gives values an alias stands for, without saying that it was an alias; so the
nodes are made from its events here. An event of an anchored scalar begins at the anchor; the
scalar's own beginning is that of its token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from ..errors import InputError
from .nodes import Alias, Document, Entry, Map, Node, Scalar, Seq
from .source import Source

__all__ = ["documents", "unreadable"]

_CORE = "tag:yaml.org,2002:"
_MERGE = f"{_CORE}merge"
_STYLES = {"'": "single", '"': "double", "|": "literal", ">": "folded"}


def documents(source: Source) -> list[Document]:
    """Return the documents of a YAML stream.

    Raises:
        InputError: not YAML, with the line.
    """
    try:
        return _Builder(source).documents()
    except yaml.YAMLError as error:
        raise unreadable(source, error) from error
    except RecursionError as error:
        raise InputError.of("the file is nested too deeply", where=source.shown) from error


def unreadable(source: Source, error: yaml.YAMLError) -> InputError:
    """Return the fault of a text that PyYAML refuses."""
    mark = getattr(error, "problem_mark", None)
    index = mark.index if mark is not None else getattr(error, "position", 0)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    tab = source.text[index : index + 1] == "\t"
    return InputError.of(
        "the file is not valid YAML",
        where=source.where(index),
        found=problem,
        fix="indent with spaces; YAML takes no tabs there" if tab else "",
    )


class _Builder:
    """Turns the events of a valid stream into nodes."""

    def __init__(self, source: Source) -> None:
        self.source = source
        tokens = yaml.scan(source.text, Loader=yaml.SafeLoader)
        self.starts = {
            token.end_mark.index: token.start_mark.index
            for token in tokens
            if isinstance(token, yaml.tokens.ScalarToken)
        }
        self.events: Iterator[Any] = yaml.parse(source.text, Loader=yaml.SafeLoader)
        self.loader: Any = yaml.SafeLoader("")  # resolves and constructs single scalars
        self.anchors: dict[str, Scalar | Map | Seq] = {}

    def documents(self) -> list[Document]:
        found: list[Document] = []
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                self.anchors = {}
                found.append(Document(len(found), self._node(next(self.events))))
        return found

    def _node(self, event: Any) -> Node:
        match event:
            case AliasEvent():
                return self._alias(event)
            case MappingStartEvent():
                return self._map(event)
            case SequenceStartEvent():
                return self._seq(event)
            case ScalarEvent():
                return self._known(event.anchor, self._scalar(event))
        raise AssertionError(event)

    def _known(self, anchor: str | None, node: Scalar | Map | Seq) -> Scalar | Map | Seq:
        if anchor is not None:
            self.anchors[anchor] = node
        return node

    def _alias(self, event: Any) -> Alias:
        start = event.start_mark.index
        if event.anchor not in self.anchors:
            raise InputError.of(
                f"the alias *{event.anchor} has no anchor before it",
                where=self.source.where(start),
            )
        return Alias(start, event.anchor, self.anchors[event.anchor])

    def _map(self, event: Any) -> Node:
        node = Map(event.start_mark.index, bool(event.flow_style), event.anchor)
        self._known(event.anchor, node)
        while not isinstance(first := next(self.events), MappingEndEvent):
            key = self._node(first)
            value = self._node(next(self.events))
            if isinstance(key, Alias):
                key = key.target
            if isinstance(key, Scalar):
                merge = key.tag == _MERGE
                entry = Entry(first.start_mark.index, key.text, key.data, value, merge)
            else:
                entry = Entry(first.start_mark.index, None, None, value)
            node.entries.append(entry)
        return node

    def _seq(self, event: Any) -> Node:
        node = Seq(event.start_mark.index, bool(event.flow_style), event.anchor)
        self._known(event.anchor, node)
        while not isinstance(first := next(self.events), SequenceEndEvent):
            node.items.append(self._node(first))
        return node

    def _scalar(self, event: Any) -> Scalar:
        end = event.end_mark.index
        quote = event.style if event.style in ("'", '"') else ""
        start = self.starts.get(end, end) if end > event.start_mark.index else end
        tag = event.tag
        if tag is None or tag == "!":
            tag = self.loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        return Scalar(
            start + len(quote),
            end - len(quote),
            event.value,
            self._data(tag, event.value),
            _STYLES.get(event.style or "", "plain"),
            quote,
            event.anchor,
            tag,
        )

    def _data(self, tag: str, value: str) -> Any:
        if not tag.startswith(_CORE) or tag == f"{_CORE}str":
            return value
        try:
            return self.loader.construct_object(yaml.ScalarNode(tag, value))
        except (yaml.YAMLError, ValueError):  # "=", or the 31st of February
            return value
