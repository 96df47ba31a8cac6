"""Small projects on a base of a tiny wheel, found without any network."""

from __future__ import annotations

import base64
import difflib
import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from .commands import Done, compose

__all__ = ["CORE", "SmallProject", "diff", "digest_of", "make_wheel"]

ROOT = "/usr/local/lib/python3.12/dist-packages"
CORE = b"".join(b"line %d\n" % number for number in range(1, 21))


def digest_of(data: bytes) -> str:
    """Return `sha256:…` of data."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def diff(before: bytes, after: bytes, *, context: int = 0) -> bytes:
    """Return a unified diff of text files that end with a newline."""
    lines = difflib.unified_diff(
        before.decode().splitlines(keepends=True),
        after.decode().splitlines(keepends=True),
        "a/file",
        "b/file",
        n=context,
    )
    return "".join(lines).encode()


def make_wheel(
    folder: Path, files: Mapping[str, bytes], *, version: str = "1.0", tag: str = "py3-none-any"
) -> Path:
    """Write the wheel of a distribution `tiny` with `files` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"tiny-{version}.dist-info"
    pure = str(tag.endswith("-any")).lower()
    members = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode(),
    }
    record = io.StringIO()
    for name, data in members.items():
        encoded = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.write(f"{name},sha256={encoded},{len(data)}\n")
    record.write(f"{info}/RECORD,,\n")
    path = folder / f"tiny-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**members, f"{info}/RECORD": record.getvalue().encode()}.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


@dataclass(slots=True)
class SmallProject:
    """A project below `folder`; `write` it, then run `compose` in it."""

    folder: Path
    files: dict[str, bytes] = field(default_factory=lambda: {"tiny/core.py": CORE})
    bases: dict[str, Any] = field(
        default_factory=lambda: {
            "tiny": {
                "wheels": ["tiny==1.0"],
                "platforms": ["linux/amd64"],
                "python": "3.12",
                "package_root": ROOT,
            }
        }
    )
    images: dict[str, Any] = field(
        default_factory=lambda: {"app": {"base": "tiny", "modules": ["first"]}}
    )
    env: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """Where images.toml is."""
        return self.folder / "project"

    @property
    def store(self) -> Path:
        """The store."""
        return self.folder / "store"

    @property
    def wheels(self) -> Path:
        """The only place where pip looks."""
        return self.folder / "wheels"

    def write(self) -> SmallProject:
        """Write the wheel and images.toml."""
        make_wheel(self.wheels, self.files)
        self.root.mkdir(parents=True, exist_ok=True)
        document = {"schema": 1, "bases": self.bases, "images": self.images}
        (self.root / "images.toml").write_text(tomli_w.dumps(document))
        return self

    def module(self, module: str, *, contents: Mapping[str, bytes], **keys: Any) -> Path:
        """Write a module's folder: `contents` by file name, `keys` of its module.toml."""
        folder = self.root / "modules" / module
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in contents.items():
            (folder / name).write_bytes(data)
        document = {"schema": 1, "name": module, "summary": f"module {module}", **keys}
        (folder / "module.toml").write_text(tomli_w.dumps(document))
        return folder

    def patch(
        self, module: str, edits: Mapping[int, str], *, before: bytes = CORE, **keys: Any
    ) -> bytes:
        """Write a module that replaces lines (from 1) of tiny/core.py; return the result."""
        lines = before.split(b"\n")
        for number, text in edits.items():
            lines[number - 1] = text.encode()
        after = b"\n".join(lines)
        entry = {"target": "tiny/core.py", "file": "core.patch", "preimage": [digest_of(before)]}
        self.module(module, contents={"core.patch": diff(before, after)}, patch=[entry], **keys)
        return after

    @property
    def surroundings(self) -> dict[str, str]:
        """The environment: a store of its own, no package index but the folder of wheels."""
        return {
            "COMPOSE_STORE": str(self.store),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_RETRIES": "0",
            **self.env,
        }

    def compose(self, *arguments: str, ok: bool = True, **env: str) -> Done:
        """Run `compose` in the project, in its surroundings."""
        return compose(*arguments, cwd=self.root, env={**self.surroundings, **env}, ok=ok)

    def build(self, image: str = "app", *flags: str, **env: str) -> Any:
        """Build an image and return what `--json` prints."""
        return self.compose("build", image, "--json", *flags, ok=True, **env).json
