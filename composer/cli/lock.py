"""`compose lock`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from ..places import find_root, store_root
from ..text import short
from .progress import showing
from .render import note

__all__ = ["command"]


@click.command("lock")
@click.argument("images", nargs=-1)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a lock is not current.")
@click.option(
    "--against",
    metavar="REV",
    help="With --check: also find modules lost, or put back to an older content, since REV.",
)
@click.option(
    "--allow-revert",
    "reverts",
    multiple=True,
    metavar="MODULE",
    help="With --against: this module went back on purpose.",
)
@click.option("--upgrade-base", is_flag=True, help="Let bases move to what is newest now.")
@click.option(
    "--source-date-epoch",
    metavar="SECONDS",
    help="Record another time for our layers' files; 'base' goes back to the base's.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print the digests only; no progress.")
@click.pass_obj
def command(
    project: Path | None,
    *,
    images: tuple[str, ...],
    check: bool,
    against: str | None,
    reverts: tuple[str, ...],
    upgrade_base: bool,
    source_date_epoch: str | None,
    quiet: bool,
) -> None:
    """Resolve IMAGES (all of them where none is named) and write lock/IMAGE.lock.

    What a base is pinned to moves with --upgrade-base only.
    """
    if (against or reverts) and not check:
        raise click.UsageError("--against and --allow-revert go with --check")
    if check and (upgrade_base or source_date_epoch is not None):
        raise click.UsageError("--check changes nothing: drop the other option")
    epoch = _epoch(source_date_epoch)

    from .. import project as projects
    from .. import workflow
    from ..oci.layout import Layout
    from ..resolve import Choice

    loaded = projects.load(find_root((project or Path()).absolute()))
    layout = Layout(store_root())
    names = images or tuple(loaded.images)
    if check:
        with showing(quiet=quiet):
            workflow.check(loaded, layout, names, against=against, reverts=reverts)
        click.echo(f"{len(names)} locks are current")
        return
    choice = Choice(
        upgrade_base=upgrade_base, epoch=epoch, forget_epoch=source_date_epoch == "base"
    )
    with showing(quiet=quiet):
        resolved = workflow.lock(loaded, layout, names, choice)
    for one in resolved:
        for remark in one.remarks:
            note(remark)
        lines = ["unchanged"] if one.fresh else one.differences
        for line in () if quiet else lines:
            click.echo(f"{one.lock.image}: {line}")
        click.echo(f"{one.lock.image} {short(one.lock.digest)}")


def _epoch(text: str | None) -> int | None:
    if text in (None, "base"):
        return None
    if not re.fullmatch("[0-9]{1,11}", text):
        raise click.BadParameter("a number of seconds since 1970, or 'base'")
    return int(text)
