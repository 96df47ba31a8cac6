"""Text for people: errors in one shape, remarks."""

from __future__ import annotations

import click

from ..errors import ComposeError

__all__ = ["note", "show_error"]


def show_error(error: ComposeError) -> None:
    """Write every fault to stderr, and how many there are where they are several."""
    for fault in error.faults:
        head, *rest = str(fault).split("\n")
        click.echo(click.style("error: ", fg="red", bold=True) + head, err=True)
        for line in rest:
            click.echo(line, err=True)
    if len(error.faults) > 1:
        click.echo(f"{len(error.faults)} faults", err=True)


def note(text: str) -> None:
    """Write a remark to stderr."""
    click.echo(f"{click.style('note:', fg='cyan')} {text}", err=True)
