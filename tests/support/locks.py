"""Locks put together by hand, of few words: what tests of comparing build on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from composer.lock import (
    Lock,
    LockedBase,
    LockedChange,
    LockedKnob,
    LockedLayer,
    LockedModule,
    LockedPlatform,
    LockedRead,
    LockedWheel,
    dump,
)
from composer.oci.digest import sha256

__all__ = [
    "a_knob",
    "a_lock",
    "a_module",
    "a_platform",
    "a_wheel",
    "change",
    "layer",
    "some",
    "written",
]


def some(word: str) -> str:
    """The digest of a word."""
    return str(sha256(word.encode()))


def layer(name: str, word: str, size: int = 1024) -> LockedLayer:
    """A layer with the content of a word."""
    return LockedLayer(module=name, diff_id=some(word), digest=some(word + "."), size=size)


def change(name: str, kind: Any, target: str, pre: str | None, post: str | None) -> LockedChange:
    """A change of /p/TARGET, from the content of one word to another's."""
    before, after = (some(word) if word else None for word in (pre, post))
    return LockedChange(
        module=name, kind=kind, target=target, path=f"/p/{target}", pre=before, post=after
    )


def a_knob(value: str = "0", *values: str, name: str = "K") -> LockedKnob:
    """A knob, of 0 and 1 where no values are given."""
    return LockedKnob(name=name, values=values or ("0", "1"), value=value)


def a_module(name: str, word: str = "1", *knobs: LockedKnob) -> LockedModule:
    """A module with the content of its name and a word."""
    return LockedModule(name=name, content=some(name + word), knobs=knobs)


def a_platform(platform: str = "linux/amd64", **fields: Any) -> LockedPlatform:
    """A platform of the module `a`; `fields`: what is otherwise."""
    return LockedPlatform(
        **{
            "platform": platform,
            "manifest": some("manifest"),
            "manifest_size": 1,
            "config": some("config"),
            "base": some("base"),
            "layers": (layer("a", "layer a"), layer("(overlay.json)", "overlay", 512)),
            "changes": (change("a", "patch", "core.py", "stock", "a"),),
            "reads": (LockedRead(module="a", target="read.py", digest=some("read")),),
            **fields,
        }
    )


def a_lock(*platforms: LockedPlatform, **fields: Any) -> Lock:
    """A lock of the module `a`; `fields`: what is otherwise."""
    return Lock(
        **{
            "schema": 1,
            "image": "app",
            "format": 1,
            "digest": some("app"),
            "media_type": "t",
            "inputs": some("inputs"),
            "source": some("source"),
            "base": LockedBase(name="base", digest=some("base"), epoch=0),
            "modules": (a_module("a", "1", a_knob()),),
            "platforms": platforms or (a_platform(),),
            **fields,
        }
    )


def a_wheel(version: str) -> LockedWheel:
    """A wheel of `tiny`."""
    return LockedWheel(
        platform="linux/amd64",
        requirement=f"tiny=={version}",
        name="tiny",
        version=version,
        filename=f"tiny-{version}-py3-none-any.whl",
        digest=some(version),
        size=1,
    )


def written(folder: Path, lock: Lock, name: str) -> str:
    """Write a lock and return its path."""
    path = folder / f"{name}.lock"
    path.write_bytes(dump(lock))
    return str(path)
