"""`compose push`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..places import find_root, store_root
from ..text import size
from . import options
from .progress import showing
from .render import note

__all__ = ["command"]


@click.command("push")
@click.argument("image")
@click.option(
    "--tag", callback=options.tag, help="The tag to push under; otherwise inputs-<12 hex digits>."
)
@click.option("--to", metavar="REPOSITORY", help="Another repository than the image's.")
@click.option("--locked", is_flag=True, help="Refuse a lock that is missing or stale.")
@click.option("--copy-base", is_flag=True, help="Also send layers of the base that are not there.")
@click.option(
    "--export-base", is_flag=True, help="Take a base that only the Docker daemon has out of it."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print the pinned reference only; no progress.")
@click.pass_obj
def command(
    project: Path | None,
    *,
    image: str,
    tag: str | None,
    to: str | None,
    locked: bool,
    copy_base: bool,
    export_base: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Build IMAGE and push it to its repository; print the reference to pin.

    Only manifests, configs and our own layers are sent. Layers of the base are mounted from its
    repository, or have to be there.
    """
    from .. import project as projects
    from .. import workflow
    from ..oci.layout import Layout
    from ..resolve import Choice

    root = find_root((project or Path()).absolute())
    with showing(quiet=quiet):
        resolved, published = workflow.push(
            projects.load(root),
            Layout(store_root()),
            image,
            Choice(locked=locked),
            tag=tag,
            to=to,
            copy_base=copy_base,
            export_base=export_base,
        )
    for remark in resolved.remarks:
        note(remark)
    if resolved.lock.base.image.startswith("archive:") and export_base:
        note("the base was exported: what was pushed is another digest than the lock's")
    if as_json:
        document = {
            **workflow.answer(resolved),
            "reference": str(published.reference),
            "blobs": published.counts,
            "sent": published.sent,
        }
        click.echo(json.dumps(document, indent=2))
        return
    if not quiet:
        parts = [f"{count} {how}" for how, count in published.counts.items()]
        click.echo(f"{', '.join(parts)}; {size(published.sent)} sent")
    click.echo(str(published.reference))
