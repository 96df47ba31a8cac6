"""`compose pin`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..places import find_root, pins_path, store_root
from .render import note, show_error

if TYPE_CHECKING:
    from ..deployment import Checked, Outcome

__all__ = ["command", "document", "echo"]


@click.command("pin")
@click.argument("deploy", required=False)
@click.argument("release", required=False)
@click.option("--check", "checking", is_flag=True, help="Check deploy files; all, or DEPLOY.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print the value only; with --check, nothing.")
@click.pass_obj
def command(
    project: Path | None,
    *,
    deploy: str | None,
    release: str | None,
    checking: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write RELEASE into the deploy file DEPLOY of images.toml, as a digest.

    Only the bytes of the value change. The release's bytes have to be in the store or at the
    registry. What was written is kept in lock/pins/DEPLOY.toml, for `compose rollback`.
    With --check nothing is written: exit 1 where a file does not name what was pinned last.
    """
    from .. import project as projects

    root = find_root((project or Path()).absolute())
    if checking:
        if release is not None:
            raise click.UsageError("--check takes no release: the last pin says which")
        _check(projects.load(root), deploy, as_json=as_json, quiet=quiet)
        return
    if deploy is None or release is None:
        raise click.UsageError("name a deploy file and a release: compose pin DEPLOY RELEASE")
    from ..deployment import pin
    from ..oci.layout import Layout

    outcome = pin(projects.load(root), Layout(store_root()), deploy, release, note)
    if as_json:
        click.echo(json.dumps(document(outcome), indent=2))
    else:
        echo(outcome, quiet=quiet)


def document(outcome: Outcome) -> dict[str, Any]:
    """Return what `--json` prints of a pin or a rollback."""
    return {
        "deploy": outcome.deploy,
        "file": outcome.file,
        "release": outcome.release,
        "digest": outcome.digest,
        "previous": outcome.previous,
        "value": outcome.value,
        "changed": outcome.changed,
    }


def echo(outcome: Outcome, *, quiet: bool) -> None:
    """Print what was written, the value last."""
    if not quiet:
        if outcome.changed:
            click.echo(click.style(f"{outcome.file}: {outcome.release}", bold=True))
            click.echo(click.style(f"- {outcome.previous or 'nothing'}", fg="red"))
            click.echo(click.style(f"+ {outcome.value}", fg="green"))
            note(f"commit it: git add {outcome.file} {pins_path(outcome.deploy)}")
            return
        click.echo(f"{outcome.file}: {outcome.release} already")
    click.echo(outcome.value)


def _check(project: Any, deploy: str | None, *, as_json: bool, quiet: bool) -> None:
    from ..deployment import check
    from ..errors import CheckFailedError

    checked = check(project, [deploy] if deploy else [])
    faults = [fault for one in checked for fault in one.faults]
    if as_json:
        click.echo(json.dumps([_checked(one) for one in checked], indent=2))
    elif not quiet:
        for one in checked:
            mark = click.style("FAIL", fg="red") if one.faults else click.style("ok", fg="green")
            click.echo(f"{one.deploy}  {mark}  {one.release or '-'}  {one.file}")
        if not checked:
            note("images.toml has no [deploy]")
    if faults:
        if not as_json:
            show_error(CheckFailedError(*faults))
        raise click.exceptions.Exit(1)


def _checked(one: Checked) -> dict[str, Any]:
    return {
        "deploy": one.deploy,
        "file": one.file,
        "value": one.value,
        "release": one.release,
        "ok": not one.faults,
        "faults": [asdict(fault) for fault in one.faults],
    }
