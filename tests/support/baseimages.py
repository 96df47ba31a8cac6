"""Base images as other tools leave them: layers by Python's tarfile and GNU tar, several
compressions, two platforms and an attestation under one index; as layouts and archives.

Nothing here uses the code under test, so that both can be wrong only independently.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import os
import random
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from .commands import run, tool
from .projects import CORE

__all__ = [
    "ARCH",
    "PACKAGES",
    "TINY",
    "BaseImage",
    "Item",
    "Layer",
    "gzipped",
    "image_base",
    "noise",
    "one_image",
    "tar_of",
    "tiny_layers",
    "upload",
]

PACKAGES = "opt/venv/lib/python3.12/site-packages"
TINY = f"{PACKAGES}/tiny"
MTIME = 1_600_000_000
CREATED = "2024-05-01T12:30:00.123456789Z"
ARCH = {"amd64": b"wide = True\n", "arm64": b"wide = False\n"}

OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
_TYPES = {
    "oci": {
        "index": f"{OCI}.index.v1+json",
        "manifest": f"{OCI}.manifest.v1+json",
        "config": f"{OCI}.config.v1+json",
        "": f"{OCI}.layer.v1.tar",
        "gzip": f"{OCI}.layer.v1.tar+gzip",
        "zstd": f"{OCI}.layer.v1.tar+zstd",
        "foreign": f"{OCI}.layer.nondistributable.v1.tar+gzip",
    },
    "docker": {
        "index": f"{DOCKER}.distribution.manifest.list.v2+json",
        "manifest": f"{DOCKER}.distribution.manifest.v2+json",
        "config": f"{DOCKER}.container.image.v1+json",
        "": f"{DOCKER}.image.rootfs.diff.tar",
        "gzip": f"{DOCKER}.image.rootfs.diff.tar.gzip",
        "foreign": f"{DOCKER}.image.rootfs.foreign.diff.tar.gzip",
    },
}


def noise(size: int, seed: int) -> bytes:
    """Bytes that do not compress, and are the same each time."""
    return random.Random(seed).randbytes(size)


@dataclass(frozen=True, slots=True)
class Item:
    """A member of a layer's archive. `kind`: f, d, l or h, as in `find -type`; h a hard link."""

    name: str
    data: bytes = b""
    kind: str = "f"
    mode: int = 0o644
    owner: tuple[int, int] = (0, 0)
    mtime: int = MTIME
    link: str = ""
    xattrs: Mapping[str, str] = field(default_factory=dict)


_KINDS = {"f": tarfile.REGTYPE, "d": tarfile.DIRTYPE, "l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE}


def tar_of(items: Sequence[Item]) -> bytes:
    """Return an archive in PAX format, in the order given."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for item in items:
            info = tarfile.TarInfo(item.name)
            info.type, info.mode, info.mtime = _KINDS[item.kind], item.mode, item.mtime
            info.uid, info.gid = item.owner
            info.linkname, info.size = item.link, len(item.data)
            info.pax_headers = {f"SCHILY.xattr.{key}": text for key, text in item.xattrs.items()}
            archive.addfile(info, io.BytesIO(item.data))
    return out.getvalue()


def _gnu_tar(folder: Path, files: Sequence[str]) -> bytes:
    """Return what GNU tar makes of files; their parents are left out, as BuildKit may do."""
    command = [tool("tar"), "--format=gnu", "--numeric-owner", "--owner=0", "--group=0"]
    command += [f"--mtime=@{MTIME}", "--no-recursion", "-C", str(folder), "-cf", "-", *files]
    return subprocess.run(command, check=True, capture_output=True).stdout


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's archive, and how it is stored: "", "gzip", "zstd" or "foreign"."""

    tar: bytes
    how: str = "gzip"

    @property
    def diff_id(self) -> str:
        """The digest of the archive."""
        return _digest(self.tar)

    def stored(self) -> bytes:
        """Return the blob."""
        if self.how == "zstd":
            return zstandard.ZstdCompressor(level=3).compress(self.tar)
        return gzipped(self.tar) if self.how else self.tar


def gzipped(data: bytes) -> bytes:
    """Return a gzip file of three members, as pigz and estargz write several."""
    third = len(data) // 3
    parts = (data[:third], data[third : 2 * third], data[2 * third :])
    return b"".join(gzip.compress(part, 6, mtime=0) for part in parts)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(slots=True)
class BaseImage:
    """An image, or an index of several, as blobs. `top`: its descriptor."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    top: dict[str, Any] = field(default_factory=dict)
    children: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The digest of the index, or of the only manifest."""
        digest: str = self.top["digest"]
        return digest

    def add(self, data: bytes, media_type: str, **fields: Any) -> dict[str, Any]:
        """Take a blob in and return its descriptor."""
        self.blobs[_digest(data)] = data
        return {"mediaType": media_type, "digest": _digest(data), "size": len(data), **fields}

    def add_json(self, document: Any, media_type: str, **fields: Any) -> dict[str, Any]:
        """Take a document in, formatted as no canonical writer does."""
        return self.add(json.dumps(document, indent=3).encode(), media_type, **fields)

    def document(self, digest: str) -> Any:
        """Return a document of the image."""
        return json.loads(self.blobs[digest])

    def manifest(self, platform: str) -> Any:
        """Return one platform's manifest."""
        return self.document(self.children[platform]["digest"])

    def config(self, platform: str) -> Any:
        """Return one platform's config."""
        return self.document(self.manifest(platform)["config"]["digest"])

    def manifests(self) -> list[dict[str, Any]]:
        """Return the descriptors of all manifests, and of the index, if there is one, last."""
        children = self.document(self.digest).get("manifests", [])
        return [*children, self.top]

    def layout(self, folder: Path, tag: str = "v1") -> Path:
        """Write an OCI image layout."""
        blobs = folder / "blobs/sha256"
        blobs.mkdir(parents=True, exist_ok=True)
        for digest, data in self.blobs.items():
            (blobs / digest.removeprefix("sha256:")).write_bytes(data)
        named = {**self.top, "annotations": {"org.opencontainers.image.ref.name": tag}}
        index = {"schemaVersion": 2, "manifests": [named]}
        (folder / "index.json").write_text(json.dumps(index))
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        return folder

    def oci_archive(self, path: Path) -> Path:
        """Write the layout as one tar, with GNU tar."""
        folder = self.layout(path.with_suffix(".layout"))
        run([tool("tar"), "-C", str(folder), "-cf", str(path), "."], cwd=path.parent)
        return path

    def docker_archive(self, path: Path, platform: str, name: str = "local/tiny:v1") -> Path:
        """Write one platform as `docker save` did before version 25."""
        config = self.blobs[self.manifest(platform)["config"]["digest"]]
        named = f"{hashlib.sha256(config).hexdigest()}.json"
        layers = {
            f"{number}/layer.tar": self._tar(one)
            for number, one in enumerate(self.manifest(platform)["layers"])
        }
        entry = {"Config": named, "RepoTags": [name], "Layers": list(layers)}
        members = {named: config, **layers, "manifest.json": json.dumps([entry]).encode()}
        with tarfile.open(path, "w") as archive:
            for member, data in members.items():
                info = tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return path

    def _tar(self, layer: Mapping[str, Any]) -> bytes:
        data = self.blobs[layer["digest"]]
        if layer["mediaType"].endswith("gzip"):
            return gzip.decompress(data)
        if layer["mediaType"].endswith("zstd"):
            return zstandard.ZstdDecompressor().decompress(data)
        return data


def one_image(
    image: BaseImage, layers: Sequence[Layer], arch: str = "amd64", family: str = "oci"
) -> dict[str, Any]:
    """Put the image of one platform together and return its manifest's descriptor."""
    types = _TYPES[family]
    history: list[dict[str, Any]] = [
        {"created": CREATED, "created_by": f"step {one}"} for one in range(len(layers))
    ]
    history.insert(1, {"created_by": "ENV A=b", "empty_layer": True})
    history.append({"created_by": 'CMD ["serve"]', "empty_layer": True})
    config = {
        "architecture": arch,
        "os": "linux",
        "created": CREATED,
        "config": {"Env": ["PATH=/opt/venv/bin:/usr/bin", "A=b"], "Cmd": ["serve"]},
        "rootfs": {"type": "layers", "diff_ids": [one.diff_id for one in layers]},
        "history": history,
        "author": "somebody",
    }
    stored = [image.add(one.stored(), types[one.how]) for one in layers]
    if stored and layers[0].how == "foreign":
        stored[0]["urls"] = ["https://elsewhere.invalid/layer"]
    manifest = {
        "schemaVersion": 2,
        "mediaType": types["manifest"],
        "config": image.add_json(config, types["config"]),
        "layers": stored,
        **({"annotations": {"of": "the base"}} if family == "oci" else {}),
    }
    platform = {"architecture": arch, "os": "linux"}
    if arch == "arm64":
        platform["variant"] = "v8"
    found = image.add_json(manifest, types["manifest"], platform=platform)
    image.children[f"linux/{arch}"] = image.top = found
    return found


def _attestation(image: BaseImage, subject: str) -> dict[str, Any]:
    """Return BuildKit's attestation of a manifest: an image of no platform."""
    statement = image.add(b'{"_type": "statement"}', "application/vnd.in-toto+json")
    config = {"architecture": "unknown", "os": "unknown", "rootfs": {"diff_ids": []}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": _TYPES["oci"]["manifest"],
        "config": image.add_json(config, _TYPES["oci"]["config"]),
        "layers": [statement],
    }
    return image.add_json(
        manifest,
        _TYPES["oci"]["manifest"],
        platform={"architecture": "unknown", "os": "unknown"},
        annotations={
            "vnd.docker.reference.digest": subject,
            "vnd.docker.reference.type": "attestation-manifest",
        },
    )


def _bottom() -> list[Item]:
    """Directories with headers worth keeping, links, and files that go away above."""
    own = (1000, 1001)
    return [
        Item("./", kind="d", mode=0o755),
        Item("./etc/", kind="d", mode=0o755, mtime=MTIME + 1),
        Item("./etc/tiny.conf", b"a = 1\nb = 2\n", mode=0o600, owner=(7, 8)),
        Item("./usr/", kind="d", mode=0o755),
        Item("./usr/lib/", kind="d", mode=0o755),
        Item("./usr/share/", kind="d", mode=0o751, owner=(3, 4), mtime=MTIME + 2),
        Item("./lib", kind="l", link="usr/lib", mode=0o777),
        Item("./opt/", kind="d", mode=0o711, mtime=MTIME + 3),
        Item("./opt/venv/", kind="d", mode=0o750, owner=own, mtime=MTIME + 4),
        Item("./opt/venv/lib/", kind="d", mode=0o755, xattrs={"user.kind": "venv"}),
        Item("./opt/venv/lib64", kind="l", link="lib", mode=0o777),
        Item("./opt/venv/lib/python3.12/", kind="d", mode=0o1777, mtime=MTIME + 5),
        Item(f"./{PACKAGES}/", kind="d", mode=0o2775, owner=(1000, 50), mtime=MTIME + 6),
        Item(f"./{TINY}/", kind="d", mode=0o701, owner=own, mtime=MTIME + 7),
        Item(f"./{TINY}/__init__.py", b""),
        Item(f"./{TINY}/core.py", b"an older version\n"),
        Item(f"./{TINY}/gone.py", b"gone\n"),
        Item(f"./{TINY}/old/", kind="d", mode=0o755),
        Item(f"./{TINY}/old/hidden.py", b"hidden\n"),
        Item("./opt/weights.bin", noise(1_300_000, 1)),
    ]


def _middle(arch: str) -> list[Item]:
    """The package: what modules patch, bytecode beside it, whiteouts."""
    return [
        Item(f"{TINY}/core.py", CORE, mode=0o640, owner=(1000, 1001), xattrs={"user.by": "whéel"}),
        Item(f"{TINY}/arch.py", ARCH[arch]),
        Item(f"{TINY}/.wh.gone.py"),
        Item(f"{TINY}/old/", kind="d", mode=0o755),
        Item(f"{TINY}/old/.wh..wh..opq"),
        Item(f"{TINY}/old/fresh.py", b"fresh\n"),
        Item(f"{TINY}/__pycache__/", kind="d", mode=0o755),
        Item(f"{TINY}/__pycache__/core.cpython-312.pyc", b"stale"),
        Item(f"{TINY}/__pycache__/core.cpython-312.opt-1.pyc", b"stale"),
        Item(f"{TINY}/__pycache__/added.cpython-312.pyc", b"orphan"),
        Item(f"{TINY}/__pycache__/core2.cpython-312.pyc", b"of another"),
        Item(f"{TINY}/added.pyc", b"orphan"),
    ]


def _top_files(folder: Path) -> Sequence[str]:
    """Write what GNU tar packs: hard links, odd modes, no parents."""
    files = {
        "usr/bin/tool": (b"#!/bin/sh\n", 0o4755),
        f"{TINY}/hard.py": (b"one = 1\ntwo = 2\n", 0o644),
        "opt/more.bin": (noise(1_200_000, 2), 0o400),
    }
    for name, (data, mode) in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
    (folder / TINY / "hard_too.py").hardlink_to(folder / TINY / "hard.py")
    return [*files, f"{TINY}/hard_too.py"]


def tiny_layers(folder: Path, arch: str, middle: str = "zstd") -> list[Layer]:
    """Return the layers of a base with the package `tiny`. middle: how the second is stored."""
    folder.mkdir(parents=True, exist_ok=True)
    old = os.umask(0)
    try:
        top = _gnu_tar(folder, _top_files(folder))
    finally:
        os.umask(old)
    return [
        Layer(tar_of(_bottom()), "gzip"),
        Layer(tar_of(_middle(arch)), middle),
        Layer(top, ""),
    ]


def image_base(
    folder: Path,
    family: str = "oci",
    extra: Sequence[Layer] = (),
    archs: Sequence[str] = tuple(ARCH),
) -> BaseImage:
    """Return the base of several platforms, with an attestation where the family has them."""
    image = BaseImage()
    children = []
    for arch in archs:
        layers = tiny_layers(folder / arch, arch, "zstd" if family == "oci" else "gzip")
        children.append(one_image(image, layers, arch, family))
    if family == "oci":
        children.append(_attestation(image, children[0]["digest"]))
    index = {
        "schemaVersion": 2,
        "mediaType": _TYPES[family]["index"],
        "manifests": children,
    }
    image.top = image.add_json(index, _TYPES[family]["index"])
    return image


def upload(
    image: BaseImage, netloc: str, repository: str, tag: str, *, authorization: str = ""
) -> None:
    """Put an image into a registry as it is, whatever a copier would say of it."""
    connection = http.client.HTTPConnection(netloc, timeout=30)
    headers = {"Authorization": authorization} if authorization else {}

    def ask(method: str, url: str, body: bytes = b"", kind: str = "") -> str:
        connection.request(
            method, url, body, {**headers, **({"Content-Type": kind} if kind else {})}
        )
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status < 300, f"{method} {url}: {answer.status} {said!r}"
        return answer.headers.get("Location", "")

    # Those that a document names are put before it.
    kinds = {one["digest"]: one["mediaType"] for one in image.manifests()}
    for digest, data in image.blobs.items():
        if digest not in kinds:
            place = ask("POST", f"/v2/{repository}/blobs/uploads/")
            ask("PUT", f"{place}&digest={digest}", data, "application/octet-stream")
    for digest, kind in kinds.items():
        name = tag if digest == image.digest else digest
        ask("PUT", f"/v2/{repository}/manifests/{name}", image.blobs[digest], kind)
    connection.close()
