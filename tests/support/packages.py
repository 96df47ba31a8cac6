"""A base with one small package, and patches of its `core.py`."""

from __future__ import annotations

from composer.module import Change
from tests.support.trees import MemoryView, edited, numbered, patched, view

__all__ = ["CORE", "OTHER", "ROOT", "TEXT", "change", "package"]

ROOT = "usr/lib/python3/site-packages"
CORE = f"{ROOT}/vllm/core.py"
TEXT = numbered(20)
OTHER = b"def other():\n    return 1\n"


def package(**files: bytes) -> MemoryView:
    """A base that has `vllm/core.py` and `vllm/other.py`; `gone=b""` adds `vllm/gone.py`."""
    found = {"core": TEXT, "other": OTHER, **files}
    return view({f"{ROOT}/vllm/{name}.py": data for name, data in found.items()})


def change(text: bytes = TEXT, **lines: bytes) -> Change:
    """A patch of core.py: `line_3=b"x"` changes the third line of `text`."""
    edits = {int(name.removeprefix("line_")): data + b"\n" for name, data in lines.items()}
    return patched("vllm/core.py", text, edited(text, edits), context=0)
