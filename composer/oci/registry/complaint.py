"""What a registry says went wrong, as faults: short, and without secrets.

Source: distribution-spec "Error Codes": `{"errors": [{"code", "message", "detail"}]}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Complaint", "redact"]

_LIMIT = 300  # characters of a registry's own words
_SECRETS = (
    re.compile(r"(?i)\b(bearer|basic)\s+(?!(?:auth[a-z]*|token|realm)\b)[A-Za-z0-9._~+/=-]{4,}"),
    re.compile(
        r"(?i)((?:access_|refresh_|identity)?token|password|passwd|secret|signature|sig"
        r"|authorization|x-amz-[a-z-]+)([\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;}]+"
    ),
    re.compile(r"(?i)\b(https?://[^\s\"'?#]*)[?#][^\s\"']*"),
    re.compile(r"(?i)(\bhttps?://)[^\s/\"'@]+@"),
)
_REPLACED = (r"\1 ***", r"\1\2***", r"\1?***", r"\1***@")


def redact(text: str) -> str:
    """Return `text` on one line, trimmed, with everything taken out that looks like a secret."""
    printable = "".join(one if one.isprintable() else " " for one in text)
    line = " ".join(printable.split())
    for pattern, replacement in zip(_SECRETS, _REPLACED, strict=True):
        line = pattern.sub(replacement, line)
    return line if len(line) <= _LIMIT else f"{line[:_LIMIT]}…"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A refusal: the status, and the registry's codes and words."""

    status: int
    codes: tuple[str, ...] = ()
    words: str = field(default="")

    @classmethod
    def parse(cls, status: int, headers: Mapping[str, str], body: bytes) -> Complaint:
        """Read the body of an answer; one that is not the spec's JSON is quoted."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        errors = document.get("errors") if isinstance(document, dict) else None
        if isinstance(errors, list) and errors:
            entries = [one for one in errors if isinstance(one, dict)]
            codes = tuple(str(one["code"]) for one in entries if one.get("code"))
            return cls(status, codes, redact("; ".join(_entry(one) for one in entries)))
        if "html" in headers.get("Content-Type", ""):
            return cls(status)
        return cls(status, (), redact(body.decode("utf-8", "replace")))

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.words}" if self.words else f"HTTP {self.status}"

    def says(self, *texts: str) -> bool:
        """Tell whether a code or the words contain one of `texts`, whatever the case."""
        said = " ".join((*self.codes, self.words)).lower()
        return any(text.lower() in said for text in texts)


def _entry(entry: Mapping[str, Any]) -> str:
    code, message, detail = (entry.get(key) for key in ("code", "message", "detail"))
    text = ": ".join(str(part) for part in (code, message) if part)
    if detail in (None, "", {}, []):
        return text
    return f"{text} ({detail if isinstance(detail, str) else json.dumps(detail)})"
