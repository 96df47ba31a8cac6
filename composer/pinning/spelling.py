"""How a new text is written in the place of an old value, or on a line of its own.

What is written holds no character that needs an escape within quotes (`Pinned`), so quotes are
left as they are. Only a text without quotes needs a decision.
"""

from __future__ import annotations

import re

from ..errors import InputError
from .nodes import Map, Scalar
from .source import Edit, Source

__all__ = ["check", "insertion", "overwrite"]

# A text of these is one in every version of YAML: neither a number nor a word for true or null.
_PLAIN = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._+/:@-]*[/@][A-Za-z0-9._+/:@-]*|sha(?:256|512):[0-9a-f]+"
)
_PLAIN_TAG = re.compile(r"(?!(?i:true|false|null|yes|no|on|off|y|n)\Z)[A-Za-z][A-Za-z0-9._-]*")
_YAML_TEXT, _YAML_NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"
_AFTER_VALUE = re.compile(r"[ \t]*(?:[ \t]#[^\r\n]*)?(?=\r?\n|\r?\Z)")


def check(source: Source, kind: str, scalar: Scalar, path: str) -> None:
    """Refuse a value that is no text, or whose text is not what is in force.

    Raises:
        InputError: as said; with the line and what to do.
    """
    where = source.where(scalar.start, path)
    if scalar.style in ("literal", "folded") and not scalar.quote:
        raise InputError.of(
            f"{path} is a block of lines",
            where=where,
            found="a value that begins with | or >",
            fix="write it on the line of its key",
        )
    if scalar.data is not None and not isinstance(scalar.data, str):
        raise InputError.of(
            f"{path} is not text",
            where=where,
            found=scalar.text,
            fix="put it in quotes if it is what you mean",
        )
    if scalar.tag not in (None, _YAML_TEXT, _YAML_NULL):
        raise InputError.of(
            f"{path} has a tag, which says that it is more than text",
            where=where,
            found=f"{scalar.tag} {scalar.text}".rstrip(),
            fix="remove the tag",
        )
    if "$" in scalar.text or "{{" in scalar.text:
        raise InputError.of(
            f"{path} is filled in elsewhere",
            where=where,
            found=scalar.text,
            fix="point 'at' to where its value is set, or write the image out here",
        )
    if kind == "dotenv" and scalar.text.startswith("#") and not scalar.quote:
        raise InputError.of(
            f"{path} begins with #; readers differ on whether that is a comment",
            where=where,
            found=scalar.text,
            fix=f"write {path}= on a line of its own",
        )


def overwrite(source: Source, kind: str, scalar: Scalar, text: str, path: str) -> Edit:
    """Return the edit that makes `scalar` say `text`.

    Raises:
        InputError: the value is left out, and there is no place to write one.
    """
    if scalar.quote or kind == "dotenv":
        return Edit(scalar.start, scalar.end, text)
    written = f'"{text}"' if kind in ("json", "toml") else _plain(text)
    if scalar.start < scalar.end:
        return Edit(scalar.start, scalar.end, written)
    if source.text[scalar.start - 1 : scalar.start] not in (":", "-"):
        raise InputError.of(
            f"{path} has no value to replace",
            where=source.where(scalar.start, path),
            fix=f'write {path.rpartition(".")[2]}: ""',
        )
    return Edit(scalar.start, scalar.end, f" {written}")


def _plain(text: str) -> str:
    """Return a YAML scalar: without quotes where every reader takes it for the same text."""
    return text if _PLAIN.fullmatch(text) or _PLAIN_TAG.fullmatch(text) else f'"{text}"'


def insertion(source: Source, node: Map, key: str, text: str, path: str) -> tuple[int, str]:
    """Return where and what to insert so that a YAML mapping has `key` on a line of its own.

    It goes below the line of `key`'s neighbour before it (the last of name, newName, newTag that
    is there), indented and quoted like that one.

    Raises:
        InputError: the mapping is written in a way that leaves no such line.
    """
    order = ("name", "newName", "newTag", "digest")
    before = [entry for one in order[: order.index(key)] if (entry := node.get(one)) is not None]
    entry = before[-1]
    scalar = entry.value
    before_key = source.text[source.text.rfind("\n", 0, entry.start) + 1 : entry.start]
    indent = " " * len(before_key)
    # Only spaces and dashes; YAML also ends lines at a lone CR, which hardly anyone means.
    if isinstance(scalar, Scalar) and not node.flow and not before_key.strip(" -"):
        end = scalar.end + len(scalar.quote)
        after = _AFTER_VALUE.match(source.text, end)
        if after and "\n" not in source.text[entry.start : end]:
            written = f"{scalar.quote}{text}{scalar.quote}" if scalar.quote else _plain(text)
            point = after.end()
            return point, f"{_line_end(source, point)}{indent}{key}: {written}"
    raise InputError.of(
        f"there is no {path}, and no line to add it below",
        where=source.where(entry.start, path),
        expected="a mapping with one key a line",
        fix=f'add {key}: "" yourself',
    )


def _line_end(source: Source, end: int) -> str:
    """Return the line end at `end`; at the end of the file, that of the first line."""
    text = source.text
    if end == len(text):
        end = max(text.find("\n") - 1, 0)
    return "\r\n" if text.startswith("\r\n", end) else "\n"
