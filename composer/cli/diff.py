"""`compose diff`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..text import nearest

if TYPE_CHECKING:
    from ..comparing import Compared
    from ..diffreport import Line

__all__ = ["command", "print_lines"]

_STYLES: dict[str, dict[str, object]] = {
    "head": {"bold": True},
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "changed": {"fg": "yellow"},
    "lost": {"fg": "red", "bold": True},
    "faint": {"dim": True},
}


@click.command("diff")
@click.argument("before")
@click.argument("after")
@click.option("--patch", is_flag=True, help="Also print how each file's text differs.")
@click.option("--stat", is_flag=True, help="Also count the lines of each file that differ.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--exit-code", is_flag=True, help="Exit 1 where anything differs.")
@click.option(
    "--fail-on",
    metavar="WHAT,...",
    default="",
    help="Exit 1 where one of these differs: any, base, module, lost-module, removed-module, "
    "file, knob, env, setting, platform, layer.",
)
@click.pass_obj
def command(
    project: Path | None,
    *,
    before: str,
    after: str,
    patch: bool,
    stat: bool,
    as_json: bool,
    exit_code: bool,
    fail_on: str,
) -> None:
    """Show what AFTER has that BEFORE has not, and the other way round.

    Each is a release (v14), an image of the project as its lock says, or the path of a lock or a
    release; release:NAME, image:NAME and file:PATH where a name fits several. A module that is
    gone, and that 'retired' does not name, is LOST. --patch and --stat read files out of the
    store, where it holds them.
    """
    from ..comparing import compare_named
    from ..diff import CONDITIONS

    conditions = [one for one in fail_on.split(",") if one]
    for one in conditions:
        if one not in CONDITIONS:
            hint = nearest(one, sorted(CONDITIONS))
            raise click.BadParameter(f"{one!r} is nothing that differs; {hint}")
    start = (project or Path()).absolute()
    compared = compare_named(start, before, after, contents=patch or stat)
    if as_json:
        _print_json(compared)
    else:
        _print(compared, patch=patch)
    found = compared.found
    if (exit_code and not found.empty) or any(found.holds(one) for one in conditions):
        raise click.exceptions.Exit(1)


def _print_json(compared: Compared) -> None:
    from ..diffjson import document

    sides = tuple({"name": one.name, "kind": one.kind} for one in (compared.before, compared.after))
    click.echo(json.dumps(document(sides[0], sides[1], compared.found, compared.details), indent=2))


def print_lines(compared: Compared) -> None:
    """Print what differs, section by section."""
    from ..diffreport import lines

    names = (compared.before.name, compared.after.name)
    for line in lines(names, compared.found, compared.details):
        _echo(line)


def _print(compared: Compared, *, patch: bool) -> None:
    from ..diffreport import patch_lines

    print_lines(compared)
    if patch:
        first = True
        for line in patch_lines(compared.found, compared.details):
            if first:
                click.echo()
            first = False
            _echo(line)


def _echo(line: Line) -> None:
    style = _STYLES.get(line.style)
    click.echo(click.style(line.text, **style) if style else line.text)  # type: ignore[arg-type]
