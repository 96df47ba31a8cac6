"""`compose doctor`."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..places import store_root
from .render import note

if TYPE_CHECKING:
    from ..doctor import Finding

__all__ = ["command"]

_COLUMNS = 80
_NAME = 16
_INDENT = " " * (8 + _NAME)
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@click.argument("registry", required=False)
@click.option("--write", is_flag=True, help="Also try what the repository takes; see above.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(registry: str | None, *, write: bool, as_json: bool) -> None:
    """Say what this machine can do, and what REGISTRY can: HOST or HOST/REPOSITORY.

    With --write an image of 3 KiB is sent to REPOSITORY and REPOSITORY/compose-doctor, under no
    tag, and left there. Exit code 1 if something that is needed fails; a Docker daemon or
    credentials that are missing are none of that.
    """
    if write and registry is None:
        raise click.UsageError("--write needs a repository: compose doctor HOST/REPOSITORY --write")
    bad, shown, about = False, [], ""
    for finding in _findings(registry, write=write):
        bad = bad or finding.level.value == "fail"
        shown.append(finding.document())
        if as_json:
            continue
        if finding.about != about:
            click.echo(f"{chr(10) if about else ''}{click.style(finding.about, bold=True)}")
            about = finding.about
        _print(finding)
    if as_json:
        click.echo(json.dumps({"ok": not bad, "findings": shown}, indent=2))
    elif registry is not None and "/" in registry and not write:
        note("what the repository takes was not tried: --write")
    if bad:
        raise click.exceptions.Exit(1)


def _findings(registry: str | None, *, write: bool) -> Iterator[Finding]:
    from .. import doctor
    from ..oci.registry import Registries, Settings
    from ..oci.registry.backoff import Policy

    yield from doctor.machine(os.environ, Path.home(), store_root())
    if registry is not None:
        # Whoever asks what is wrong does not want to wait until it is right.
        hasty = Policy(attempts=2, unconnected=1, total=20.0)
        registries = Registries(Settings.of(os.environ, Path.home()), policy=hasty)
        yield from doctor.registry(registries, registry, write=write)


def _print(finding: Finding) -> None:
    level = finding.level.value
    lines = _wrapped(finding.found)
    head = click.style(f"{level:<4}", fg=_COLOURS[level])
    click.echo(f"  {head}  {finding.name:<{_NAME}}{lines[0]}")
    rest = lines[1:] + (_wrapped(f"fix: {finding.fix}") if finding.fix else [])
    for line in rest:
        click.echo(f"{_INDENT}{line}")


def _wrapped(text: str) -> list[str]:
    # Names and paths stay whole, so that they can be copied.
    width = _COLUMNS - len(_INDENT)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
