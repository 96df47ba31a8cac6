"""The command line: parse, one call of `composer.workflow`, render, exit code.

Verbs are imported when they are run: `--help` and the no-change path of `build` load neither
pydantic nor anything of the network.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from .. import __version__
from ..errors import ComposeError
from ..text import nearest
from .render import show_error

__all__ = ["run"]

_VERBS = {
    "build": "Make an image in the store, bit for bit what its lock says.",
    "diff": "Show what differs between releases, images or locks.",
    "doctor": "Say what this machine and a registry can do.",
    "load": "Build an image and load it into the Docker daemon.",
    "lock": "Resolve images and write lock/; or check them.",
    "pin": "Write a release into a deploy file; or check what is there.",
    "push": "Build an image and push it; only what is ours is sent.",
    "release": "Record what an image is now, under a name, for good.",
    "releases": "List releases.",
    "rollback": "Put back what a deploy file named before.",
    "schema": "Print the JSON Schema of images.toml, module.toml or a lock.",
    "show": "Show what an image is made of.",
    "toc": "List or print the files of any image, without pulling it.",
    "why": "Say which modules touch a file of an image, and how.",
}


class _Verbs(click.Group):
    """Subcommands of the package, one a module, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command = importlib.import_module(f".{cmd_name}", __name__).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"no verb {args[0]!r}; {nearest(args[0], sorted(_VERBS))}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(_VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--project",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory with images.toml; otherwise the nearest one at or above this one.",
)
@click.version_option(__version__, prog_name="compose", message="%(prog)s %(version)s")
@click.pass_context
def _cli(ctx: click.Context, project: Path | None) -> None:
    """Compose OCI images for patched inference fleets: locked, reproducible, without Docker.

    Reads images.toml and modules/, keeps what it resolved in lock/, and makes images in a store
    ($COMPOSE_STORE, or the user's cache directory).
    """
    ctx.obj = project
    ctx.color = False if os.environ.get("NO_COLOR") else None


def _discard_output() -> None:
    """Point stdout nowhere: Python would try to write the rest again, and complain, at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(arguments: Sequence[str]) -> int:
    """Run `compose` with `arguments` and return its exit code."""
    # pydantic would read the metadata of every installed distribution to find plugins: 10 ms.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        code = _cli.main(args=list(arguments), prog_name="compose", standalone_mode=False)
        sys.stdout.flush()  # now, while there is somebody to say that it failed
    except ComposeError as error:
        show_error(error)
        return error.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except BrokenPipeError:
        _discard_output()
        return 1
    except OSError as error:  # files and networks have errors of their own: this is stdout
        _discard_output()
        click.echo(f"error: cannot write the output: {error.strerror}", err=True)
        return 3
    return code if isinstance(code, int) else 0
