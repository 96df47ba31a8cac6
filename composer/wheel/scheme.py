"""Where an installer puts the files of a wheel, as paths in an image.

Sources: PyPA "Binary distribution format", "The .data directory"; sysconfig's posix schemes.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from .archive import path_fault

__all__ = ["KINDS", "Scheme"]

# The keys of a .data directory. Both library kinds are the package root.
KINDS = ("data", "headers", "platlib", "purelib", "scripts")
_ROOT = re.compile(r"(?:(?P<prefix>.+)/)?lib(?:64)?/(?P<python>python\d+\.\d+t?)/[^/]+")
_SHEBANG_LIMIT = 127  # execve(2): Linux before 5.1 cuts the line there


@dataclass(frozen=True, slots=True)
class Scheme:
    """The places of one interpreter in an image.

    package_root: a path in the image without leading slash, such as
    `usr/local/lib/python3.12/dist-packages`. interpreter: what scripts are run by, absolute.

    Raises:
        ValueError: a package root that is not below `lib/pythonX.Y/`, or an interpreter that a
            `#!` line cannot name.
    """

    package_root: str
    interpreter: str

    def __post_init__(self) -> None:
        if reason := path_fault(self.package_root):
            raise ValueError(f"package root {self.package_root!r} {reason}")
        self._match()
        line = f"#!{self.interpreter}"
        if not self.interpreter.startswith("/") or re.search(r"[\s\0]", line):
            raise ValueError(f"interpreter {self.interpreter!r} is not an absolute plain path")
        if len(line.encode()) > _SHEBANG_LIMIT:
            raise ValueError(f"interpreter {self.interpreter!r} is too long for a '#!' line")

    def _match(self) -> re.Match[str]:
        match = _ROOT.fullmatch(self.package_root)
        if match is None:
            raise ValueError(
                f"package root {self.package_root!r} is not a directory below lib/pythonX.Y/, "
                "such as usr/local/lib/python3.12/dist-packages"
            )
        return match

    @property
    def prefix(self) -> str:
        """What lies above `lib/pythonX.Y/`; empty for the image's root."""
        return self._match()["prefix"] or ""

    @property
    def scripts(self) -> str:
        """The directory of scripts."""
        return posixpath.join(self.prefix, "bin")

    @property
    def data(self) -> str:
        """The root of data files."""
        return self.prefix

    def headers(self, distribution: str) -> str:
        """Return the directory of a distribution's C headers."""
        return posixpath.join(self.prefix, "include", self._match()["python"], distribution)

    def directory(self, kind: str, distribution: str) -> str:
        """Return where the files of `kind`, one of `KINDS`, belong."""
        if kind == "headers":
            return self.headers(distribution)
        return {"scripts": self.scripts, "data": self.data}.get(kind, self.package_root)
