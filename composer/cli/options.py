"""What several verbs check of their options: callbacks for click."""

from __future__ import annotations

import click

from ..oci.platform import Platform
from ..oci.reference import is_tag

__all__ = ["platform", "platforms", "tag"]


def platform(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return `OS/ARCH[/VARIANT]` as locks write it: a default variant is left out."""
    if value is None:
        return None
    try:
        return str(Platform.parse(value))
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error


def platforms(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Do the same for an option that may be repeated; what is repeated counts once."""
    found = (platform(context, parameter, value) for value in values)
    return tuple(sorted({one for one in found if one is not None}))


def tag(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return a tag of a repository."""
    if value is not None and not is_tag(value):
        raise click.BadParameter(f"{value!r} is not a tag", param=parameter)
    return value
