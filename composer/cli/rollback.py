"""`compose rollback`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..places import find_root, store_root
from .diff import print_lines
from .pin import document, echo
from .progress import showing
from .render import note

if TYPE_CHECKING:
    from ..comparing import Compared

__all__ = ["command"]


@click.command("rollback")
@click.argument("deploy")
@click.option("--to", metavar="RELEASE", help="A release that was pinned there; else one back.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print the value only; no diff, no progress.")
@click.pass_obj
def command(
    project: Path | None,
    *,
    deploy: str,
    to: str | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Put back what was pinned to DEPLOY before what it names now; twice goes two back.

    First it is asked whether the registry still has the manifests and blobs; what it lost is
    pushed again from the store, byte for byte. What differs is shown before the file is written.
    """
    from .. import project as projects
    from ..deployment import rollback
    from ..oci.layout import Layout

    def show(compared: Compared) -> None:
        print_lines(compared)
        click.echo()

    loaded = projects.load(find_root((project or Path()).absolute()))
    with showing(quiet=quiet):
        outcome = rollback(
            loaded,
            Layout(store_root()),
            deploy,
            to=to,
            dry_run=dry_run,
            show=None if quiet or as_json else show,
            say=note,
        )
    if as_json:
        answer = {**document(outcome), "pushed": outcome.pushed, "dry_run": dry_run}
        click.echo(json.dumps(answer, indent=2))
        return
    if dry_run and not quiet:
        note("dry run: nothing was written")
    echo(outcome, quiet=quiet or dry_run)
