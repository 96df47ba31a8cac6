"""What a registry holds, asked plainly: does the pushed image have the new file?"""

from __future__ import annotations

import io
import json
import tarfile
import urllib.request
from typing import Any

__all__ = ["check"]

_ACCEPT = ", ".join(
    [
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    ]
)
_OURS = 10_000_000  # bytes; a layer that a change of one file makes is smaller


def check(reference: str, target: str, content: bytes) -> None:
    """Check that the image has `content` at `target`, in one of its small layers.

    Raises:
        SystemExit: it has not.
    """
    netloc, _, rest = reference.partition("/")
    repository, _, tag = rest.rpartition(":")
    url = f"http://{netloc}/v2/{repository}"
    manifest = json.loads(_get(f"{url}/manifests/{tag}"))
    if "manifests" in manifest:
        digest = manifest["manifests"][0]["digest"]
        manifest = json.loads(_get(f"{url}/manifests/{digest}"))
    layers: list[dict[str, Any]] = manifest["layers"]
    for layer in reversed(layers):
        if layer["size"] > _OURS:
            break
        found = _member(_get(f"{url}/blobs/{layer['digest']}"), target)
        if found is not None:
            if found == content:
                return
            raise SystemExit(f"{reference} has another /{target}")
    raise SystemExit(f"{reference} does not have the new /{target}")


def _get(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": _ACCEPT})
    with urllib.request.urlopen(request, timeout=60) as answer:
        data: bytes = answer.read()
    return data


def _member(blob: bytes, target: str) -> bytes | None:
    with tarfile.open(fileobj=io.BytesIO(blob), mode="r:*") as archive:
        for member in archive:
            if member.name.removeprefix("./") == target and member.isfile():
                handle = archive.extractfile(member)
                return handle.read() if handle else None
    return None
