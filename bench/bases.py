"""Base images of a real one's make, generated: the same files from the same seed, anywhere.

Text like Python's shrinks to a fifth, data like a shared object's to about half, as theirs do.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["PACKAGES", "TARGET", "Base", "target_text", "write_base"]

PACKAGES = "usr/local/lib/python3.12/dist-packages"
TARGET = f"{PACKAGES}/vllm/config/vllm.py"
MB = 1_000_000
EPOCH = 1_750_000_000
_REF = "org.opencontainers.image.ref.name"
_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
_WORDS = """
self config model layer cache block token request output input scheduler worker device dtype
attention hidden size num heads group rank world tensor parallel quant weight bias scale mask
index length batch prefix decode draft spec engine core client process queue event state
key value slot table page memory profile graph capture compile backend kernel stream
"""


@dataclass(frozen=True, slots=True)
class Base:
    """A base to make: the compressed size in bytes of each layer, the lowest first.

    The last layer holds `TARGET`.
    """

    name: str
    layers: tuple[int, ...]


def _lines(seed: int) -> list[str]:
    """Return lines of text that looks like Python."""
    rng = random.Random(seed)
    words = _WORDS.split()

    def word() -> str:
        return "_".join(rng.choices(words, k=rng.randint(1, 3)))

    shapes: tuple[Callable[[], str], ...] = (
        lambda: f"    def {word()}(self, {word()}: int, {word()}: str | None = None) -> None:",
        lambda: f"        self.{word()} = {word()}.{word()}({word()}, n={rng.randint(0, 999)})",
        lambda: f"        if {word()} is not None and self.{word()} > {rng.randint(0, 4096)}:",
        lambda: f"            raise ValueError(f'{word()} must be {word()}, got {{{word()}}}')",
        lambda: f"        # {' '.join(rng.choices(words, k=8))}.",
        lambda: f"        return {word()}[{word()}] if {word()} else self.{word()}",
        lambda: "",
    )
    return [rng.choice(shapes)() for _ in range(6000)]


def target_text() -> str:
    """Return the content of `TARGET`: some 60 kB."""
    lines = random.Random(7).choices(_lines(1), k=1200)
    return "\n".join(["class VllmConfig:", *lines, ""])


def _text(rng: random.Random, lines: list[str]) -> bytes:
    return "\n".join(rng.choices(lines, k=rng.randint(60, 1400))).encode()


def _shared_object(rng: random.Random, motifs: list[bytes]) -> bytes:
    parts = [b"\x7fELF\x02\x01\x01" + bytes(9)]
    for _ in range(rng.randint(16, 96)):
        parts.append(rng.randbytes(12 * 1024))
        parts.append(b"".join(rng.choices(motifs, k=5 * 1024)))
    return b"".join(parts)


def _files(seed: int, *, with_target: bool) -> Iterator[tuple[str, bytes]]:
    """Yield files for ever: packages of 40 modules and one shared object."""
    rng = random.Random(seed)
    lines = _lines(1)
    motifs = [rng.randbytes(8) for _ in range(4096)]
    number = 0
    while True:
        package = f"{PACKAGES}/vllm/pkg{seed}_{number:04}"
        for module in range(40):
            yield f"{package}/module_{module:02}.py", _text(rng, lines)
        yield f"{package}/_C.abi3.so", _shared_object(rng, motifs)
        if number == 2 and with_target:
            yield f"{PACKAGES}/vllm/__init__.py", b""
            yield TARGET, target_text().encode()
        number += 1


class _Squeezed(io.RawIOBase):
    """Gzip on its way to a file: hashes of both sides, and how much has come out."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._zip = zlib.compressobj(6, zlib.DEFLATED, 31)
        self.plain, self.stored, self.size = hashlib.sha256(), hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.plain.update(data)
        self._emit(self._zip.compress(data))
        return len(data)

    def end(self) -> None:
        self._emit(self._zip.flush())

    def _emit(self, data: bytes) -> None:
        self._out.write(data)
        self.stored.update(data)
        self.size += len(data)


def _write_layer(folder: Path, seed: int, size: int, *, with_target: bool) -> tuple[str, str, int]:
    """Write a layer of about `size` bytes; returns its digest, diff_id and size."""
    path = folder / "layer"
    made: set[str] = set()
    with path.open("wb") as out:
        squeezed = _Squeezed(out)
        with tarfile.open(fileobj=squeezed, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for name, data in _files(seed, with_target=with_target):
                for member in _members(name, len(data), made):
                    archive.addfile(member, io.BytesIO(data))
                if squeezed.size >= size:
                    break
        squeezed.end()
    digest = squeezed.stored.hexdigest()
    path.rename(folder / digest)
    return f"sha256:{digest}", f"sha256:{squeezed.plain.hexdigest()}", squeezed.size


def _members(name: str, size: int, made: set[str]) -> Iterator[tarfile.TarInfo]:
    """Yield the directories that are new, and the file."""
    for parent in reversed(Path(name).parents[:-1]):
        if str(parent) not in made:
            made.add(str(parent))
            info = tarfile.TarInfo(str(parent))
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, EPOCH
            yield info
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, EPOCH
    yield info


def write_base(folder: Path, base: Base) -> Path:
    """Write `base` as an OCI layout with the tag `v1`; returns the path of its last layer.

    An image of that layer alone has the tag `last-layer`. A folder that is there is taken as it is.
    """
    blobs = folder / "blobs/sha256"
    done = folder / "last-layer"
    if done.exists():
        return blobs / done.read_text()
    blobs.mkdir(parents=True)
    last = len(base.layers) - 1
    written = [
        _write_layer(blobs, seed, size, with_target=seed == last)
        for seed, size in enumerate(base.layers)
    ]
    tops = [_image(blobs, written, "v1"), _image(blobs, written[-1:], "last-layer")]
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": tops}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    path = blobs / written[-1][0].removeprefix("sha256:")
    done.write_text(path.name)
    return path


def _image(blobs: Path, written: list[tuple[str, str, int]], tag: str) -> dict[str, object]:
    """Write config and manifest of an image; returns its descriptor for the index."""
    config = _put(blobs, _config([diff_id for _, diff_id, _ in written]), "config")
    layers = [{"mediaType": _GZIP, "digest": one, "size": size} for one, _, size in written]
    top = _put(blobs, _manifest(config, layers), "manifest")
    return {**top, "annotations": {_REF: tag}}


def _put(blobs: Path, document: dict[str, object], kind: str) -> dict[str, object]:
    raw = json.dumps(document).encode()
    digest = hashlib.sha256(raw).hexdigest()
    (blobs / digest).write_bytes(raw)
    media_type = f"application/vnd.oci.image.{kind}.v1+json"
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(raw)}


def _config(diff_ids: list[str]) -> dict[str, object]:
    return {
        "created": "2025-06-15T15:06:40Z",
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin:/bin"], "Cmd": ["/bin/true"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created_by": "bench"} for _ in diff_ids],
    }


def _manifest(config: dict[str, object], layers: list[dict[str, object]]) -> dict[str, object]:
    media_type = "application/vnd.oci.image.manifest.v1+json"
    return {"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers}
