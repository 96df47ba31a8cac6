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
@click.argument("name", metavar="IMAGE|RELEASE")
@click.option(
    "--tag",
    callback=options.tag,
    help="The tag to push under; otherwise a release's name, or inputs-<12 hex digits>.",
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
    name: str,
    tag: str | None,
    to: str | None,
    locked: bool,
    copy_base: bool,
    export_base: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Push an image to its repository; print the reference to pin.

    An IMAGE is built first. A RELEASE is taken out of the store as it was made, whatever the
    project says now. Only manifests, configs and our own layers are sent. Layers of the base are
    mounted from its repository, or have to be there.
    """
    from .. import project as projects
    from ..oci.layout import Layout
    from ..pushing import Delivery, push
    from ..resolve import Choice

    loaded = projects.load(find_root((project or Path()).absolute()))
    delivery = Delivery(tag, to, copy_base, export_base)
    with showing(quiet=quiet):
        pushed = push(loaded, Layout(store_root()), name, Choice(locked=locked), delivery)
    published = pushed.published
    for remark in pushed.remarks:
        note(remark)
    if as_json:
        document = {
            **pushed.document,
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
