"""`compose build`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from .. import unchanged
from ..places import find_root, release_path, store_root
from ..text import size
from . import options
from .render import note

__all__ = ["command"]


@click.command("build")
@click.argument("image")
@click.option("--locked", is_flag=True, help="Refuse a lock that is missing or stale.")
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    metavar="OS/ARCH",
    callback=options.platforms,
    help="Make this platform only (may be repeated); the lock always has all of them.",
)
@click.option("--upgrade-base", is_flag=True, help="Let the base move to what is newest now.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the image as one tar that docker, podman and skopeo read.",
)
@click.option("--release", metavar="NAME", help="Also record what was made; see `compose release`.")
@click.option("--note", "remark", default="", help="With --release: a few words, kept with it.")
@click.option(
    "--allow-dirty",
    is_flag=True,
    help="With --release: the project need not be as the last commit has it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print the digest only; no progress.")
@click.pass_obj
def command(
    project: Path | None,
    *,
    image: str,
    locked: bool,
    platforms: tuple[str, ...],
    upgrade_base: bool,
    output: Path | None,
    release: str | None,
    remark: str,
    allow_dirty: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Make IMAGE in the store and print its digest.

    The lock is written when there is none and refreshed when the project has changed, unless
    --locked is given. What the base is pinned to moves with --upgrade-base only.
    """
    if locked and upgrade_base:
        raise click.UsageError("--locked keeps what --upgrade-base would move: give one of them")
    if release is None and (remark or allow_dirty):
        raise click.UsageError("--note and --allow-dirty go with --release")
    if release is not None and platforms:
        raise click.UsageError("a release has all platforms: drop --platform")
    root = find_root((project or Path()).absolute())
    question = unchanged.Question(root, image, ",".join(platforms))
    found = None
    if not upgrade_base and output is None and release is None:
        found = unchanged.lookup(store_root(), question)
    if found is None:
        found = _build(
            root,
            image=image,
            locked=locked,
            platforms=platforms,
            upgrade_base=upgrade_base,
            output=output,
            request=(release, remark, allow_dirty) if release is not None else None,
            quiet=quiet or as_json,
            silent=quiet,
        )
    _print(found, as_json=as_json, quiet=quiet)


def _build(
    root: Path,
    *,
    image: str,
    locked: bool,
    platforms: tuple[str, ...],
    upgrade_base: bool,
    output: Path | None,
    request: tuple[str, str, bool] | None,
    quiet: bool,
    silent: bool,
) -> dict[str, Any]:
    from .. import project, workflow
    from ..oci.layout import Layout
    from ..releases import Request
    from ..resolve import Choice
    from .progress import showing

    known = request is not None and (root / release_path(request[0])).exists()
    choice = Choice(locked=locked, upgrade_base=upgrade_base, platforms=platforms)
    with showing(quiet=silent):
        resolved = workflow.build(
            project.load(root),
            Layout(store_root()),
            image,
            choice,
            output=output,
            request=Request(*request) if request is not None else None,
        )
    for remark in resolved.remarks:
        note(remark)
    if not resolved.fresh and not quiet:
        for line in resolved.differences:
            click.echo(f"lock/{image}.lock: {line}")
    if request is not None and not known and not quiet:
        note(f"commit the release: git add {release_path(request[0])}")
    return workflow.answer(resolved)


def _print(answer: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    if not quiet:
        for one in answer["platforms"]:
            layers = one["layers"]
            total = size(sum(layer["size"] for layer in layers))
            click.echo(f"{answer['image']} {one['platform']}: {len(layers)} layers, {total}")
    click.echo(answer["digest"])
