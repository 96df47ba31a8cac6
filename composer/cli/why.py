"""`compose why`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputError
from ..places import find_root, lock_path

if TYPE_CHECKING:
    from ..report import Touch

__all__ = ["command"]


@click.command("why")
@click.argument("image")
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def command(project: Path | None, *, image: str, target: str, as_json: bool) -> None:
    """Say which modules of IMAGE touch TARGET, with each hunk and the digests around it.

    TARGET is written as in module.toml (vllm/config/vllm.py), or as the path in the image.
    """
    from .. import project as projects
    from ..lock import read_lock
    from ..report import touches

    root = find_root((project or Path()).absolute())
    definition = projects.load(root).image(image)
    lock = read_lock(root, image)
    if lock is None:
        raise InputError.of(
            f"image {image} has no lock yet",
            where=lock_path(image),
            fix=f"run `compose lock {image}`",
        )
    found = touches(lock, definition.modules, target)
    if as_json:
        click.echo(json.dumps([_document(touch) for touch in found], indent=2))
        return
    click.echo(found[0].change.path)
    for touch in found:
        _print(touch, len(lock.platforms))


def _document(touch: Touch) -> dict[str, object]:
    return {
        **touch.change.model_dump(),
        "platforms": list(touch.platforms),
        "file": touch.file,
        "hunks": [{"header": header, "lines": list(lines)} for header, lines in touch.hunks],
    }


def _print(touch: Touch, platforms: int) -> None:
    change = touch.change
    on = "" if len(touch.platforms) == platforms else f" on {', '.join(touch.platforms)}"
    click.echo(f"\nmodule {click.style(change.module, bold=True)}: {change.kind}{on}")
    if touch.file:
        click.echo(f"  file:      modules/{change.module}/{touch.file}")
    click.echo(f"  preimage:  {change.pre or 'absent'}")
    click.echo(f"  postimage: {change.post or 'absent'}")
    for header, lines in touch.hunks:
        click.echo(click.style(f"  {header}", fg="cyan"))
        for line in lines:
            colour = {"+": "green", "-": "red"}.get(line[0])
            click.echo(click.style(f"  {line.rstrip()}", fg=colour))
