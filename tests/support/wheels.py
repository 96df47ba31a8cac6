"""Synthetic wheels, right by default, with a knob for everything that can be wrong with one."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer.oci.filetree import Entry
from composer.oci.layer import Member
from composer.wheel import Scheme, Wheel, members

__all__ = [
    "FILENAME",
    "MTIME",
    "ROOT",
    "SCHEME",
    "Packed",
    "Rows",
    "build_wheel",
    "content",
    "hash_text",
    "nothing",
    "on",
    "patch",
]

FILENAME = "demo-1.0-py3-none-any.whl"
ROOT = "usr/local/lib/python3.12/dist-packages"
SCHEME = Scheme(ROOT, "/usr/bin/python3.12")
MTIME = 1700000000

Rows = list[tuple[str, str, str]]
_FILE = 0o100000  # S_IFREG


@dataclass(frozen=True, slots=True)
class Packed:
    """How a file lies in the archive; `mode` with the file type's bits."""

    data: bytes
    mode: int = _FILE | 0o644
    method: int = zipfile.ZIP_DEFLATED


def hash_text(data: bytes, algorithm: str = "sha256") -> str:
    """Return a hash as RECORD has it."""
    digest = hashlib.new(algorithm, data).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def build_wheel(
    directory: Path,
    files: Mapping[str, bytes | Packed] | None = None,
    *,
    name: str = "demo",
    version: str = "1.0",
    tag: str = "py3-none-any",
    filename: str = "",
    dist_info: str = "",
    replaced: Mapping[str, bytes | Packed | None] | None = None,
    record: Callable[[Rows], Rows] = lambda rows: rows,
    algorithm: str = "sha256",
    unlisted: Sequence[tuple[str, bytes | Packed]] = (),
    central: Mapping[str, Mapping[str, Any]] | None = None,
    shuffle: Callable[[list[str]], list[str]] = lambda names: names,
) -> Path:
    """Write a wheel into `directory` and return its path.

    files: by archive name; `{info}` and `{data}` stand for the wheel's own directories.
    replaced: files of .dist-info by their last name, None leaves one out. record: changes
    RECORD's rows. unlisted: further files, in the archive but not in RECORD. central: fields of
    the archive's table that lie about a file. shuffle: the order in the archive.
    """
    info = dist_info or f"{name.replace('-', '_')}-{version}.dist-info"
    stem = info.removesuffix(".dist-info")
    contents = {
        _expanded(key, stem): _packed(value)
        for key, value in (files or {f"{name}/__init__.py": b""}).items()
    }
    metadata = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
        **(replaced or {}),
    }
    for key, data in metadata.items():
        if data is not None and key != "RECORD":
            contents[f"{info}/{key}"] = _packed(data)
    if metadata.get("RECORD", b"") is not None:
        rows = [
            (key, hash_text(one.data, algorithm), str(len(one.data)))
            for key, one in contents.items()
        ]
        rows.append((f"{info}/RECORD", "", ""))
        contents[f"{info}/RECORD"] = _packed(metadata.get("RECORD") or _csv(record(rows)))
    path = directory / (filename or f"{name.replace('-', '_')}-{version}-{tag}.whl")
    order = shuffle(list(contents))
    members = [(key, contents[key]) for key in order]
    members += [
        (key.format(info=info, data=f"{stem}.data"), _packed(value)) for key, value in unlisted
    ]
    _write(path, members, central or {})
    return path


def _expanded(name: str, stem: str) -> str:
    return name.replace("{info}", f"{stem}.dist-info").replace("{data}", f"{stem}.data")


def _packed(value: bytes | Packed) -> Packed:
    return value if isinstance(value, Packed) else Packed(value)


def _csv(rows: Rows) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _write(
    path: Path, members: Sequence[tuple[str, Packed]], central: Mapping[str, Mapping[str, Any]]
) -> None:
    infos = []
    with zipfile.ZipFile(path, "w") as archive:
        for name, one in members:
            info = zipfile.ZipInfo("x", (2024, 1, 2, 3, 4, 6))
            info.filename = name  # the constructor would clean it
            info.external_attr = one.mode << 16
            info.compress_type = one.method
            archive.NameToInfo.pop(name, None)  # or a second one would warn
            archive.writestr(info, one.data)
            infos.append(info)
        for info in infos:
            for key, value in central.get(info.filename, {}).items():
                setattr(info, key, value)


def patch(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes that occur once in the file, by as many others."""
    data = path.read_bytes()
    assert data.count(old) == 1
    assert len(old) == len(new)
    path.write_bytes(data.replace(old, new))


def nothing(path: str) -> Entry | None:
    """Say that the image below is empty."""
    return None


def on(
    wheel: Wheel, stat: Callable[[str], Entry | None] = nothing, scheme: Scheme = SCHEME
) -> dict[str, Member]:
    """Return the members by path."""
    return {one.path: one for one in members(wheel, scheme, mtime=MTIME, stat=stat)}


def content(member: Member) -> bytes:
    """Return a member's whole content."""
    return member.data if isinstance(member.data, bytes) else b"".join(member.data())
