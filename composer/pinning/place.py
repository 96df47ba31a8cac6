"""Where in a deploy file the image is named: the grammar of `at`.

    at        = steps                             compose, kustomize, helm, toml, json
              | document ":" steps                kubernetes
              | name                              dotenv
    document  = kind "/" [namespace "/"] name
    steps     = key *( "." key | selector )
    key       = bare | quoted                     bare: without . [ ] " and white space
    quoted    = a JSON string                     services."vllm.a".image
    selector  = "[" number "]"                    from 0
              | "[" key "=" value "]"             containers[name=vllm]

`docs/pin.md` explains it with examples. A key is compared with what the file says (`on`, `1`),
not with what a parser makes of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["DocumentName", "Index", "Key", "Kind", "Place", "Select", "Step", "spell"]

Kind = Literal["compose", "kubernetes", "kustomize", "helm", "dotenv", "toml", "json"]

_BARE = r'[^.\[\]"\s=]+'
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_KEY = re.compile(rf"{_BARE}|{_QUOTED}")
_INDEX = re.compile(r"\[([0-9]{1,9})\]")
_SELECT = re.compile(rf'\[({_BARE}|{_QUOTED})=({_QUOTED}|[^\]"\s]+)\]')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DOCUMENT = re.compile(r"([A-Z][A-Za-z0-9]*)/(?:([a-z0-9-]+)/)?([a-z0-9.-]+):")


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping."""

    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """An item of a list, counted from 0."""

    number: int


@dataclass(frozen=True, slots=True)
class Select:
    """The one item of a list that is a mapping in which `key` is `value`."""

    key: str
    value: str


Step = Key | Index | Select


@dataclass(frozen=True, slots=True)
class DocumentName:
    """A Kubernetes object; without a namespace it may be in any."""

    kind: str
    namespace: str | None
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


@dataclass(frozen=True, slots=True)
class Place:
    """A parsed `at`."""

    kind: Kind
    at: str
    document: DocumentName | None
    steps: tuple[Step, ...]

    @classmethod
    def parse(cls, kind: Kind, at: str) -> Place:
        """Parse `at` by the grammar above.

        Raises:
            ValueError: not such a place; the message is "what is wrong; what to do".
        """
        if kind not in get_args(Kind):
            raise ValueError(f"{kind!r} is no kind of deploy file; one of {_list(get_args(Kind))}")
        if kind == "dotenv":
            if not _NAME.match(at):
                raise ValueError(f"{at!r} is not the name of a variable; write it as VLLM_IMAGE")
            return cls(kind, at, None, (Key(at),))
        document, start = _document(at) if kind == "kubernetes" else (None, 0)
        steps = _steps(at, start)
        if kind == "kustomize" and isinstance(steps[-1], Key):
            raise ValueError(
                f"{at!r} is not an entry of a list; name one, as in images[name=vllm/vllm-openai]"
            )
        return cls(kind, at, document, steps)


def spell(steps: tuple[Step, ...]) -> str:
    """Return steps in the grammar above."""
    text = ""
    for step in steps:
        match step:
            case Key(name):
                text += ("." if text else "") + _spell(name, _KEY)
            case Index(number):
                text += f"[{number}]"
            case Select(key, value):
                text += f"[{_spell(key, _KEY)}={_spell(value, _VALUE)}]"
    return text


_VALUE = re.compile(r'[^\]"\s]+')


def _spell(text: str, bare: re.Pattern[str]) -> str:
    plain = bare.fullmatch(text) and not text.startswith('"')
    return text if plain else json.dumps(text, ensure_ascii=False)


def _list(words: tuple[str, ...]) -> str:
    return ", ".join(words)


def _document(at: str) -> tuple[DocumentName, int]:
    match = _DOCUMENT.match(at)
    if match is None:
        raise ValueError(
            f"{at!r} does not begin with an object;"
            " write Deployment/NAME:PATH or Deployment/NAMESPACE/NAME:PATH"
        )
    kind, namespace, name = match.groups()
    return DocumentName(kind, namespace, name), match.end()


def _steps(at: str, position: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    while True:
        match = _KEY.match(at, position)
        if match is None:
            raise _wrong(at, position)
        steps.append(Key(_unquoted(match[0], at)))
        position = match.end()
        while at.startswith("[", position):
            step, position = _selector(at, position)
            steps.append(step)
        if position == len(at):
            return tuple(steps)
        if at[position] != ".":
            raise _wrong(at, position)
        position += 1


def _selector(at: str, position: int) -> tuple[Step, int]:
    if match := _INDEX.match(at, position):
        return Index(int(match[1])), match.end()
    if match := _SELECT.match(at, position):
        return Select(_unquoted(match[1], at), _unquoted(match[2], at)), match.end()
    raise _wrong(at, position)


def _unquoted(text: str, at: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise ValueError(
            f"{at!r}: {text} is not a quoted key; quotes and escapes are those of JSON"
        ) from error


def _wrong(at: str, position: int) -> ValueError:
    there = repr(at[position]) if position < len(at) else "the end"
    return ValueError(
        f"{at!r} is not a path: {there} at character {position + 1};"
        ' write it as a.b, a."key with dots".b, a[0] or a[name=NAME]'
    )
