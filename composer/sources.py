"""Where images come from, as people spell it: a registry, a layout, an archive, a daemon."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .daemonbase import PREFIX, DaemonSource
from .errors import ComposeError, InputError
from .oci.ports import Source
from .oci.reference import Reference

if TYPE_CHECKING:
    from .oci.registry import Registries

__all__ = ["locate", "open_source", "reference_of", "registries"]

_KINDS = ("oci:", "archive:", PREFIX)


@cache
def registries() -> Registries:
    """Return the registries of this process: connections and tokens are shared."""
    from .oci.registry import Registries  # noqa: PLC0415 - most runs ask none

    return Registries.from_environment()


def reference_of(text: str) -> Reference | None:
    """Return the reference of an image in a registry; None for images elsewhere.

    Raises:
        InputError: neither a reference nor one of the other spellings.
    """
    if text.startswith(_KINDS):
        return None
    try:
        return Reference.parse(text.removeprefix("docker://"))
    except ValueError as error:
        raise InputError.of(
            str(error),
            where=text,
            fix="name HOST/REPOSITORY:TAG, oci:DIR[:TAG], archive:FILE.tar or docker-daemon:NAME",
        ) from error


def locate(text: str) -> str:
    """Return the spelling of an image that holds on most machines.

    An image of this machine's Docker daemon is looked for in the registry it was pulled from;
    one that no registry has is the daemon's alone.

    Raises:
        InputError: the daemon has no such image. UnreachableError: it does not answer.
    """
    if not text.startswith(PREFIX):
        return text
    from .oci.daemon import connect  # noqa: PLC0415

    for name in connect().image(text.removeprefix(PREFIX)).repo_digests:
        with contextlib.suppress(ComposeError, ValueError):
            registries().source(Reference.parse(name)).top()
            return name
    return text


def open_source(text: str, root: Path) -> Source:
    """Return the source that `text` names; relative paths start at `root`. Nothing is asked yet.

    An image of the daemon is the daemon's alone: see `locate` for where else it may be.

    Raises:
        InputError: not a source.
    """
    reference = reference_of(text)
    if reference is not None:
        return registries().source(reference)
    kind, _, rest = text.partition(":")
    return _OPENERS[kind](rest, root)


def _layout(rest: str, root: Path) -> Source:
    from .oci.layoutsource import LayoutSource  # noqa: PLC0415

    return LayoutSource.parse(str(root / rest))


def _archive(rest: str, root: Path) -> Source:
    from .oci.archivesource import ArchiveSource  # noqa: PLC0415

    return ArchiveSource.parse(str(root / rest))


def _daemon(rest: str, _: Path) -> Source:
    return DaemonSource(rest)


_OPENERS: dict[str, Callable[[str, Path], Source]] = {
    "oci": _layout,
    "archive": _archive,
    "docker-daemon": _daemon,
}
