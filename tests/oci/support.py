"""What several of these tests build on: tools that may be missing, small images, archives."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from composer.oci.digest import Digest, sha256
from composer.oci.encoding import stored_gzip
from composer.oci.filetree import Entry, directory, regular
from composer.oci.image import Image
from composer.oci.layer import Member, tar
from composer.oci.layout import Layout
from composer.oci.manifest import Config, Descriptor, Manifest
from composer.oci.mediatype import DOCKER, OCI, Family

CREATED = "2024-05-01T12:30:00Z"
MTIME = 1714566600  # CREATED
is_root = os.geteuid() == 0


def properties(examples: int) -> settings:
    """Hypothesis settings: `examples` runs, and no deadline on machines that are busy."""
    return settings(max_examples=examples, deadline=None)


def needs(tool: str) -> pytest.MarkDecorator:
    """Skip a test where `tool` is not installed."""
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


def run(*command: str | Path, **options: Any) -> str:
    """Run a tool that must succeed, and return what it printed."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(part) for part in command], check=False, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def tmpfs(where: Path, size: str = "1m") -> Iterator[Path]:
    """A file system of its own at `where`; the test is skipped where none can be mounted."""
    where.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(where)]
    if not is_root or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        yield where
    finally:
        run("umount", "-l", where)


def file(path: str, content: bytes, **header: Any) -> Member:
    """A regular file of a layer."""
    entry = regular(len(content), sha256(content).hex, mtime=MTIME)._replace(**header)
    return Member(path, entry, content)


def folder(path: str, **header: Any) -> Member:
    """A directory of a layer."""
    return Member(path, directory(MTIME)._replace(**header))


MEMBERS = (
    folder("opt"),
    folder("opt/app"),
    file("opt/app/main.py", b"print('hello')\n"),
    file("opt/app/run.sh", b"#!/bin/sh\nexec python3 main.py\n", mode=0o755),
)


def image(
    layers: Sequence[tuple[Descriptor, Digest]],
    *,
    family: Family = OCI,
    config: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Image:
    """An image of given layers, as another tool may have made it."""
    document = {
        "architecture": "amd64",
        "os": "linux",
        "created": CREATED,
        "config": {"Env": ["PATH=/usr/bin"], **(config or {})},
        "rootfs": {"type": "layers", "diff_ids": [str(diff_id) for _, diff_id in layers]},
        "history": [{"created_by": f"layer {number}"} for number in range(len(layers))],
        **fields,
    }
    made = Config.make({key: value for key, value in document.items() if value is not None})
    documents = [descriptor.document() for descriptor, _ in layers]
    manifest = Manifest.make(family, config=made.descriptor(family), layer_documents=documents)
    return Image(manifest, made)


def store_layer(
    layout: Layout, members: Iterable[Member], family: Family = OCI
) -> tuple[Descriptor, Digest]:
    """Store a layer of ours and return its descriptor and diff_id."""
    return store_archive(layout, b"".join(tar(members)), family)


def store_archive(layout: Layout, data: bytes, family: Family = OCI) -> tuple[Descriptor, Digest]:
    """Store a tar as a layer and return its descriptor and diff_id."""
    stored = b"".join(stored_gzip([data]))
    return Descriptor(family.layer_gzip, layout.put(stored), len(stored)), sha256(data)


def store_image(layout: Layout, made: Image, tag: str | None = None) -> Image:
    """Store an image's documents."""
    layout.put(made.config.raw)
    layout.put(made.manifest.raw)
    if tag is not None:
        layout.tag(tag, made.manifest.descriptor(made.platform))
    return made


TYPES = {
    "f": tarfile.REGTYPE,
    "d": tarfile.DIRTYPE,
    "l": tarfile.SYMTYPE,
    "h": tarfile.LNKTYPE,
}


def archive(members: Iterable[tuple[str, Entry, bytes]]) -> bytes:
    """A tar by Python's tarfile, in the order given, of any kind of entry."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as made:
        for path, entry, content in members:
            info = tarfile.TarInfo(path)
            info.type = TYPES[entry.kind]
            info.mode, info.uid, info.gid = entry.mode, entry.uid, entry.gid
            info.mtime, info.size, info.linkname = entry.mtime, len(content), entry.link
            made.addfile(info, io.BytesIO(content))
    return out.getvalue()


__all__ = [
    "CREATED",
    "DOCKER",
    "MEMBERS",
    "MTIME",
    "OCI",
    "archive",
    "file",
    "folder",
    "image",
    "is_root",
    "needs",
    "properties",
    "run",
    "store_archive",
    "store_image",
    "store_layer",
    "tmpfs",
]
