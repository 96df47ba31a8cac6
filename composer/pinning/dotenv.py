"""An env file (`.env`) -> a mapping with positions.

The format is what Docker Compose reads ("Syntax for environment files" in its manual): lines of
`NAME=value`, an optional `export`, comments, and quotes whose value may run over several lines.
A bare name takes its value from the shell and so has none here.
"""

from __future__ import annotations

import re

from ..errors import InputError
from .nodes import Document, Entry, Map, Scalar
from .source import Source

__all__ = ["documents"]

_IGNORED = re.compile(r"[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)")
_BARE_NAME = re.compile(r"[ \t]*(?:export[ \t]+)?[A-Za-z_][\w.-]*[ \t]*\r?(?:\n|\Z)", re.ASCII)
_NAME = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*=", re.ASCII)
_QUOTED = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""", re.DOTALL)
_REST = re.compile(r"[ \t]*(?:[ \t]#[^\n]*)?\r?(?:\n|\Z)")
# Up to white space with "#", or to the end of the line.
_PLAIN = re.compile(r"[ \t]*((?:[^ \t\r\n]|[ \t]+(?![ \t#\r\n]|\Z)|\r(?!\n|\Z))*)")
_ESCAPE = re.compile(r'\\(["\\nrt$])')
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def documents(source: Source) -> list[Document]:
    """Return the one document of an env file: names with their values.

    Raises:
        InputError: a line that is not of this format.
    """
    root = Map(0)
    at, text = 0, source.text
    while at < len(text):
        if match := _IGNORED.match(text, at) or _BARE_NAME.match(text, at):
            at = match.end()
            continue
        match = _NAME.match(text, at)
        if match is None:
            raise _wrong(source, at, "not a line of the form NAME=value")
        value, at = _value(source, match.end())
        root.entries.append(Entry(match.start(1), match[1], match[1], value))
    return [Document(0, root)]


def _value(source: Source, at: int) -> tuple[Scalar, int]:
    text = source.text
    if match := _QUOTED.match(text, at):
        number = 1 if match[1] is not None else 2
        value = _unescaped(match[1]) if number == 1 else match[2]
        style, quote = ("double", '"') if number == 1 else ("single", "'")
        scalar = Scalar(match.start(number), match.end(number), value, value, style, quote)
    else:
        match = _PLAIN.match(text, at)
        assert match is not None
        if match[1].startswith(("'", '"')):
            raise _wrong(source, at, "a quote is not closed")
        start, end = match.span(1) if match[1] else (at, at)
        scalar = Scalar(start, end, match[1], match[1], "plain")
    rest = _REST.match(text, match.end())
    if rest is None:
        raise _wrong(source, at, "what follows the name is not one value")
    return scalar, rest.end()


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text)


def _wrong(source: Source, at: int, what: str) -> InputError:
    end = source.text.find("\n", at)
    line = source.text[at : end if end >= 0 else None].strip()
    return InputError.of(
        what,
        where=source.where(at),
        expected="NAME=value, NAME='value' or NAME=\"value\"",
        found=line if len(line) <= 60 else f"{line[:57]}...",
    )
