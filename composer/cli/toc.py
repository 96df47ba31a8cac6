"""`compose toc`."""

from __future__ import annotations

import json
import stat
import sys
import time
from typing import TYPE_CHECKING

import click

from ..places import store_root
from . import options
from .progress import showing

if TYPE_CHECKING:
    from ..oci.filetree import Entry

__all__ = ["command"]

_KINDS = {
    "f": stat.S_IFREG,
    "d": stat.S_IFDIR,
    "l": stat.S_IFLNK,
    "c": stat.S_IFCHR,
    "b": stat.S_IFBLK,
    "p": stat.S_IFIFO,
}


@click.command("toc")
@click.argument("image")
@click.argument("path", required=False)
@click.option(
    "--platform",
    metavar="OS/ARCH",
    callback=options.platform,
    help="Of an image for several platforms.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def command(
    image: str, path: str | None, *, platform: str | None, as_json: bool, quiet: bool
) -> None:
    """List the files of IMAGE below PATH; or, where PATH is a file, print it.

    IMAGE is a reference, oci:DIR[:TAG], archive:FILE.tar or docker-daemon:NAME. Nothing is pulled:
    each layer is streamed at most once, and its table kept in the store.
    """
    from ..listing import open_listing
    from ..oci.layout import Layout

    with showing(quiet=quiet):
        listing = open_listing(image, Layout(store_root()), platform, path)
        found = listing.find(path or "/")
        entry = listing.files.stat(found)
        printed = entry is not None and entry.is_file and not as_json
        content = listing.read(found) if printed else b""
    if printed:
        sys.stdout.buffer.write(content)
        return
    for name, one in listing.below(found):
        click.echo(json.dumps(_document(name, one)) if as_json else _line(name, one))


def _document(name: str, entry: Entry) -> dict[str, object]:
    document = {"path": f"/{name}", **entry._asdict(), "xattrs": dict(entry.xattrs)}
    return {key: value for key, value in document.items() if value not in ("", {})}


def _line(name: str, entry: Entry) -> str:
    mode = stat.filemode(_KINDS[entry.kind] | entry.mode)
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.mtime))
    link = f" -> {entry.link}" if entry.kind == "l" else ""
    return f"{mode} {entry.uid:>5} {entry.gid:>5} {entry.size:>12} {when} /{name}{link}"
