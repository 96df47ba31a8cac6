"""The project that is composed, and the same change as the other tools take it."""

from __future__ import annotations

import difflib
import hashlib
import shutil
from pathlib import Path

from .bases import TARGET, target_text

__all__ = ["Project"]

_OLD = target_text()
_NEW = _OLD.replace("class VllmConfig:\n", "class VllmConfig:\n    patched = True\n", 1)


class Project:
    """A project in `root` for bases in the registry at `netloc`, and the files for its peers.

    Images are named KIND-BASE: `whole` replaces a file, `patch` patches it.
    """

    def __init__(self, root: Path, netloc: str, bases: list[str]) -> None:
        root.mkdir()
        self.root, self.netloc = root, netloc
        self._write_modules()
        lines = ["schema = 1"]
        for base in bases:
            lines += [f'[bases."{base}"]', f'image = "{netloc}/base/{base}:v1"']
            for kind in ("whole", "patch"):
                lines += [f'[images."{kind}-{base}"]', f'base = "{base}"', f'modules = ["{kind}"]']
        (root / "images.toml").write_text("\n".join(lines) + "\n")
        self.context = root / "context"
        self.context.mkdir()
        dockerfile = f"FROM {{base}}\nCOPY file /{TARGET}\n"
        for base in bases:
            text = dockerfile.format(base=f"{netloc}/base/{base}:v1")
            (self.context / f"Dockerfile.{base}").write_text(text)
        self.edit("")

    def _write_modules(self) -> None:
        preimage = hashlib.sha256(_OLD.encode()).hexdigest()
        diff = difflib.unified_diff(
            _OLD.splitlines(keepends=True), _NEW.splitlines(keepends=True), "a/file", "b/file"
        )
        files = {
            "whole": ("replace", "vllm.py", _NEW),
            "patch": ("patch", "p.patch", "".join(diff)),
        }
        for kind, (act, name, text) in files.items():
            folder = self.root / "modules" / kind
            folder.mkdir(parents=True)
            (folder / name).write_text(text)
            (folder / "module.toml").write_text(
                f'schema = 1\nname = "{kind}"\nsummary = "to be measured"\n'
                f'[[{act}]]\ntarget = "/{TARGET}"\nfile = "{name}"\n'
                f'preimage = ["sha256:{preimage}"]\n'
            )

    @property
    def patch(self) -> Path:
        """The patch, as GNU patch takes it too."""
        return self.root / "modules/patch/p.patch"

    @property
    def file(self) -> Path:
        """The whole new file, as the module has it."""
        return self.root / "modules/whole/vllm.py"

    def edit(self, remark: str) -> None:
        """Change the new file, for `compose` and for its peers."""
        self.file.write_text(_NEW + (f"# {remark}\n" if remark else ""))
        shutil.copy(self.file, self.context / "file")

    def use(self, base: str) -> str:
        """Make `base` the one of the Dockerfile; returns its reference."""
        shutil.copy(self.context / f"Dockerfile.{base}", self.context / "Dockerfile")
        return f"{self.netloc}/base/{base}:v1"

    def unlock(self, image: str) -> None:
        """Forget an image's lock."""
        (self.root / f"lock/{image}.lock").unlink(missing_ok=True)
