"""Small images as OCI layouts, written with the standard library's tar and gzip alone."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["write_layout"]

Files = Mapping[str, bytes | str | None]


def write_layout(root: Path, layers: Sequence[Files], *, tag: str = "v1") -> Path:
    """Write an image for linux/amd64 of `layers`, the lowest first, and return `root`.

    A layer's values: bytes, a file; text, a symbolic link; None, a directory.
    """
    blobs = root / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def put(data: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        kind = f"application/vnd.oci.image.{media_type}"
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    archives = [_tar(files) for files in layers]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2024-05-01T12:30:00.5Z",
        "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Cmd": ["python3"]},
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in archives],
        },
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": put(json.dumps(config).encode(), "config.v1+json"),
        "layers": [put(gzip.compress(one, mtime=0), "layer.v1.tar+gzip") for one in archives],
    }
    top = put(json.dumps(manifest).encode(), "manifest.v1+json")
    top["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (root / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [top]}))
    (root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return root


def _tar(files: Files) -> bytes:
    # As engines write layers: every directory above a file has an entry too.
    parents = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    whole = {**dict.fromkeys(parents - {"."}), **files}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(whole.items()):
            member = tarfile.TarInfo(name)
            member.mtime = 1700000000
            member.mode = 0o755
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()
