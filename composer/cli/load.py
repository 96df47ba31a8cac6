"""`compose load`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..places import find_root, store_root
from . import options
from .progress import showing
from .render import note

__all__ = ["command"]


@click.command("load")
@click.argument("image")
@click.option(
    "--tag", callback=options.tag, help="The tag to load under; otherwise inputs-<12 hex digits>."
)
@click.option("--locked", is_flag=True, help="Refuse a lock that is missing or stale.")
@click.option(
    "--platform",
    metavar="OS/ARCH",
    callback=options.platform,
    help="Of an image for several platforms.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print the name only; no progress.")
@click.pass_obj
def command(
    project: Path | None,
    *,
    image: str,
    tag: str | None,
    locked: bool,
    platform: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Build IMAGE and load it into the Docker daemon; print the name to run it by.

    The daemon is the one of DOCKER_HOST or of the docker context in use. Layers that it has are
    not sent.
    """
    from .. import project as projects
    from .. import workflow
    from ..oci.layout import Layout
    from ..resolve import Choice

    root = find_root((project or Path()).absolute())
    choice = Choice(locked=locked, platforms=(platform,) if platform else ())
    with showing(quiet=quiet):
        resolved, name, loaded = workflow.load(
            projects.load(root), Layout(store_root()), image, choice, tag=tag
        )
    for remark in resolved.remarks:
        note(remark)
    if as_json:
        document = {
            "image": image,
            "name": name,
            "id": str(loaded.image.id),
            "digest": resolved.lock.digest,
            "diff_ids": [str(one) for one in loaded.image.diff_ids],
            "left_out": loaded.left_out,
        }
        click.echo(json.dumps(document, indent=2))
        return
    if not quiet:
        layers = len(loaded.image.diff_ids)
        click.echo(f"{layers} layers, {loaded.left_out} of them there already; {loaded.image.id}")
    click.echo(name)
