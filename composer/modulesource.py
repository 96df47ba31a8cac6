"""Modules as they were when a lock was made: from a commit, or from the folder as it is now.

What is read is right if its digest is the one in the lock; nothing else is checked, and what
is not at hand, or is another version, is left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import fingerprint, gitrepo
from .errors import ComposeError
from .module import Change, Kind, Knob, Module, Read
from .oci.digest import Digest

__all__ = ["modules_at"]

_Reader = Callable[[Iterable[str]], Mapping[str, bytes]]
_KINDS: tuple[Kind, ...] = ("patch", "replace", "add", "remove")


def modules_at(root: Path, commit: str, wanted: Mapping[str, str]) -> dict[str, Module]:
    """Return those of the modules that can be had with the `wanted` contents, by name.

    commit: where to look first; empty for the project's folder alone.
    """
    found: dict[str, Module] = {}
    if commit:
        with suppress(ComposeError):  # no git here, or not that repository
            found = _load(lambda paths: gitrepo.blobs_at(root, commit, paths), wanted)
    missing = {name: content for name, content in wanted.items() if name not in found}
    return {**found, **_load(lambda paths: _in_folder(root, paths), missing)}


def _in_folder(root: Path, paths: Iterable[str]) -> dict[str, bytes]:
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = (root / path).read_bytes()
    return found


def _load(read: _Reader, wanted: Mapping[str, str]) -> dict[str, Module]:
    if not wanted:
        return {}
    paths = {name: f"modules/{name}/module.toml" for name in wanted}
    raw = read(paths.values())
    documents = dict(_documents({name: raw.get(path, b"") for name, path in paths.items()}))
    data = read(
        f"modules/{name}/{file}"
        for name, document in documents.items()
        for file in _named_files(document)
    )
    found = {}
    for name, document in documents.items():
        with suppress(KeyError, ValueError, TypeError, AttributeError):
            module = _module(name, document, data)
            if str(fingerprint.content(module)) == wanted[name]:
                found[name] = module
    return found


def _documents(raw: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, data in raw.items():
        with suppress(ValueError):
            yield name, tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))


def _named_files(document: Mapping[str, Any]) -> Iterator[str]:
    for kind in _KINDS:
        entries = document.get(kind, ())
        for one in entries if isinstance(entries, list) else ():
            if isinstance(one, dict) and isinstance(one.get("file"), str):
                yield one["file"]


def _module(name: str, document: Mapping[str, Any], data: Mapping[str, bytes]) -> Module:
    """Put a module together from what is taken to be right; its digest will tell."""
    changes = [
        Change(
            kind,
            one["target"],
            one.get("file", ""),
            data[f"modules/{name}/{one['file']}"] if kind != "remove" else b"",
            _digests(one.get("preimage", ())),
            "",
        )
        for kind in _KINDS
        for one in document.get(kind, ())
    ]
    return Module(
        name=name,
        requires=tuple(sorted(set(document.get("requires", ())))),
        conflicts=(),
        changes=tuple(changes),
        reads=tuple(
            Read(one["target"], _digests(one["preimage"]), "") for one in document.get("read", ())
        ),
        knobs=tuple(
            Knob(one["name"], tuple(one["values"]), one["default"], "")
            for one in document.get("knob", ())
        ),
        place="",
        inputs={},
    )


def _digests(texts: Iterable[str]) -> tuple[Digest, ...]:
    return tuple(Digest.parse(text) for text in texts)
