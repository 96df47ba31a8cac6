"""The no-change path: nothing that an image is made of has changed, so its digest is known.

A record in the store names every file that the last build read, with its sha256, and what the
build printed. The files are read and hashed each time; no timestamp is trusted. Nothing here
imports more than the standard library's small modules: a build that has nothing to do is a
matter of milliseconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import __version__

__all__ = ["Question", "lookup", "record", "record_path"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked to be built: a project, an image, and the platform if one is chosen."""

    root: Path
    image: str
    platform: str = ""


def record_path(store: Path, question: Question) -> Path:
    """Return where the answer to a question is kept."""
    key = "\0".join([__version__, str(question.root), question.image, question.platform])
    return store / "unchanged" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def record(inputs: Mapping[str, str], blobs: Mapping[str, int], answer: Any) -> bytes:
    """Serialise an answer. inputs: path -> sha256 hex; blobs: digest -> size in bytes."""
    document = {
        "version": _VERSION,
        "inputs": dict(inputs),
        "blobs": dict(blobs),
        "answer": answer,
    }
    return json.dumps(document).encode()


def lookup(store: Path, question: Question) -> dict[str, Any] | None:
    """Return what the build would print, or None where something is not as it was."""
    try:
        document = json.loads(record_path(store, question).read_bytes())
        if document["version"] != _VERSION:
            return None
        for digest, size in document["blobs"].items():
            algorithm, _, encoded = digest.partition(":")
            if (store / "blobs" / algorithm / encoded).stat().st_size != size:
                return None
        for path, expected in document["inputs"].items():
            data = (question.root / path).read_bytes()
            if hashlib.sha256(data).hexdigest() != expected:
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # a record that cannot be used is no record
    answer: dict[str, Any] = document["answer"]
    return answer
