"""`compose release`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..places import find_root, release_path, store_root
from .progress import showing
from .render import note

__all__ = ["command"]


@click.command("release")
@click.argument("image")
@click.argument("name")
@click.option("--note", "remark", default="", help="A few words on it, kept with the release.")
@click.option(
    "--allow-dirty", is_flag=True, help="The project need not be as the last commit has it."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print the digest only; no progress.")
@click.pass_obj
def command(
    project: Path | None,
    *,
    image: str,
    name: str,
    remark: str,
    allow_dirty: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Record what IMAGE is now as release NAME, in lock/releases/NAME.toml: commit it.

    A release never changes. The lock has to be current and the image built; the files have to be
    committed, but for lock/ and the files of [deploy]. What has been recorded already is recorded
    no second time.
    """
    from .. import project as projects
    from .. import workflow
    from ..oci.layout import Layout
    from ..releases import Request

    root = find_root((project or Path()).absolute())
    request = Request(name, remark, allow_dirty)
    with showing(quiet=quiet):
        made, there = workflow.release(projects.load(root), Layout(store_root()), image, request)
    if as_json:
        document = {
            "name": name,
            "image": image,
            "digest": made.result.digest,
            "file": release_path(name),
            "new": not there,
        }
        click.echo(json.dumps(document, indent=2))
        return
    if not quiet:
        click.echo(f"{release_path(name)}: {'there already' if there else 'new'}")
        if not there:
            note(f"commit it: git add {release_path(name)}")
    click.echo(made.result.digest)
