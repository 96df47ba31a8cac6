"""Where images come from, as people spell it: a registry, a layout, an archive, a daemon."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ComposeError, InputError
from .oci.ports import Source
from .oci.reference import Reference

if TYPE_CHECKING:
    from .oci.daemon import Daemon
    from .oci.registry import Registries

__all__ = ["connect", "locate", "open_source", "reference_of", "registries"]

_KINDS = ("oci:", "archive:", "docker-daemon:")


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
    """Return the spelling of an image that holds on every machine.

    An image of this machine's Docker daemon is found in the registry it was pulled from.

    Raises:
        InputError: no registry has it. UnreachableError: the daemon does not answer.
    """
    if not text.startswith("docker-daemon:"):
        return text
    return _registry_name(text.removeprefix("docker-daemon:"))


def connect() -> Daemon:
    """Reach the daemon that DOCKER_HOST, or the docker context in use, names.

    Raises:
        UnreachableError: it does not answer.
    """
    from .oci.daemon import Daemon  # noqa: PLC0415
    from .oci.dockerhost import endpoint  # noqa: PLC0415

    return Daemon.connect(endpoint(os.environ, Path.home()))


def _registry_name(name: str) -> str:
    """Return `repository@digest` under which a registry has the daemon's image `name`.

    A daemon has lost the compressed layers of what it pulled; the registry has them.

    Raises:
        InputError: the daemon has no such image, or no registry has it.
        UnreachableError: the daemon does not answer.
    """
    image = connect().image(name)
    reasons = []
    for text in image.repo_digests:
        try:
            registries().source(Reference.parse(text)).top()
        except (ComposeError, ValueError) as error:
            reasons.append(f"{text}: {str(error).partition(chr(10))[0]}")
        else:
            return text
    raise InputError.of(
        f"no registry has the image {name!r} of the Docker daemon",
        found="; ".join(reasons) or "it was built or loaded, never pulled or pushed",
        fix=f'docker save {name} -o base.tar, and write image = "archive:base.tar"',
    )


def open_source(text: str, root: Path) -> Source:
    """Return the source that `text` names; relative paths start at `root`. Nothing is asked yet.

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


def _daemon(rest: str, root: Path) -> Source:
    return open_source(locate(f"docker-daemon:{rest}"), root)


_OPENERS: dict[str, Callable[[str, Path], Source]] = {
    "oci": _layout,
    "archive": _archive,
    "docker-daemon": _daemon,
}
