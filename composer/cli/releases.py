"""`compose releases`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..places import find_root, store_root
from ..text import age, short, size
from .render import note

if TYPE_CHECKING:
    from ..releases import Listed

__all__ = ["command"]


@click.command("releases")
@click.argument("image", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def command(project: Path | None, *, image: str | None, as_json: bool) -> None:
    """List releases, of IMAGE only if it is named: the newest first.

    The age is that of the commit it was made from; the size, of our own layers. Held: the store
    here has all of those, so that it can be pushed and loaded without building it.
    """
    from .. import releases
    from ..oci.layout import Layout

    root = find_root((project or Path()).absolute())
    found = [
        one
        for one in releases.listing(root, Layout(store_root()))
        if image in (None, one.release.image)
    ]
    if as_json:
        click.echo(json.dumps([_document(one) for one in found], indent=2))
        return
    if not found:
        note("there are no releases yet; `compose release IMAGE NAME` makes one")
        return
    now = int(time.time())
    rows: list[tuple[str, ...]] = [("NAME", "IMAGE", "DIGEST", "MODULES", "SIZE", "AGE", "HELD")]
    rows += [_row(one, now) for one in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(click.style(text.rstrip(), bold=True) if number == 0 else text.rstrip())


def _row(one: Listed, now: int) -> tuple[str, ...]:
    release = one.release
    return (
        release.name,
        release.image,
        short(release.result.digest),
        str(len(release.lock.modules)),
        size(one.size),
        "" if one.date is None else age(now - one.date),
        "yes" if one.held else "no",
    )


def _document(one: Listed) -> dict[str, Any]:
    release, origin = one.release, one.release.provenance
    return {
        "name": release.name,
        "image": release.image,
        "digest": release.result.digest,
        "modules": [module.name for module in release.lock.modules],
        "size": one.size,
        "held": one.held,
        "date": one.date,
        "commit": origin.commit,
        "dirty": origin.dirty,
        "parents": list(origin.parents),
        "retired": list(origin.retired),
        "note": origin.note,
    }
