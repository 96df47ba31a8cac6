"""`compose show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputError
from ..places import find_root, lock_path
from .render import note

if TYPE_CHECKING:
    from ..report import Node

__all__ = ["command"]


@click.command("show")
@click.argument("images", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the lock as one JSON object a line.")
@click.pass_obj
def command(project: Path | None, *, images: tuple[str, ...], as_json: bool) -> None:
    """Show what IMAGES (all where none is named) are made of, as their locks say.

    A tree: the base, the modules in order with their targets and knobs, and the layers.
    """
    from .. import project as projects
    from ..lock import read_lock
    from ..report import image_tree

    root = find_root((project or Path()).absolute())
    loaded = projects.load(root)
    for image in images or loaded.images:
        lock = read_lock(root, image)
        if lock is None and not images:
            note(f"image {image} has no lock yet; run `compose lock {image}`")
            continue
        if lock is None:
            loaded.image(image)  # an unknown name has an error of its own
            raise InputError.of(
                f"image {image} has no lock yet",
                where=lock_path(image),
                fix=f"run `compose lock {image}`",
            )
        if as_json:
            click.echo(lock.model_dump_json(by_alias=True))
        else:
            _print(image_tree(lock))


def _print(node: Node, lead: str = "", branch: str = "") -> None:
    head, *rest = node.text.split("  ")
    detail = "".join(f"  {click.style(part, dim=True)}" for part in rest)
    click.echo(f"{lead}{branch}{head}{detail}")
    below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    for number, child in enumerate(node.children):
        _print(child, below, "└─ " if number == len(node.children) - 1 else "├─ ")
