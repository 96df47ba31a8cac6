"""For which interpreter, and where, wheels are installed: declared, or read in an image."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import Fault, InputError, raise_all
from .imagebase import LayerFiles
from .oci.filetree import PathError
from .oci.platform import Platform
from .spec import BaseSpec

if TYPE_CHECKING:
    from .wheel import Scheme
    from .wheelhouse import WheelTarget

__all__ = ["LIBC", "WheelPlace", "declared", "found_in"]

# The glibc of Ubuntu 22.04, on which vLLM's own image is built; `glibc` of a base says another.
_GLIBC = "2.35"
LIBC = "/libc.so.6"  # how the path of glibc ends in every distribution
_INTERPRETER = re.compile(r"(?:usr/(?:local/)?)?bin/python(3\.\d+)\Z")
_ROOT = re.compile(r"(?:.*/)?lib(?:64)?/python(3\.\d+)/(?:site|dist)-packages\Z")
# What every libc.so.6 prints when it is run; glibc, csu/version.c.
_RELEASE = re.compile(rb"GNU C Library [^\n]*release version (2\.\d+)")
_OLD_NAME = re.compile(r"libc-(2\.\d+)\.so\Z")


@dataclass(frozen=True, slots=True)
class WheelPlace:
    """CPython `python` with `glibc`; `package_root` without leading slash; `interpreter` with."""

    python: str
    glibc: str
    package_root: str
    interpreter: str

    def target(self, platform: Platform, where: str) -> WheelTarget:
        """Return what wheels must fit.

        Raises:
            InputError: a version or platform that wheels are not made for.
        """
        from .wheelhouse import WheelTarget

        try:
            return WheelTarget(self.python, platform, self.glibc)
        except ValueError as error:
            raise InputError.of(str(error), where=where) from error

    def scheme(self, where: str) -> Scheme:
        """Return where an installer puts what.

        Raises:
            InputError: no package root, or an interpreter that no script can name.
        """
        from .wheel import Scheme

        try:
            return Scheme(self.package_root, self.interpreter)
        except ValueError as error:
            raise InputError.of(str(error), where=where) from error


def declared(spec: BaseSpec, where: str) -> WheelPlace:
    """Return what a base of wheels alone says.

    Raises:
        InputError: the package root is not that of its Python.
    """
    python, root = spec.python or "", (spec.package_root or "").lstrip("/")
    folder = f"lib/python{python}/"
    if f"/{folder}" not in f"/{root}":
        raise InputError.of(
            "the package root is not that of the base's Python",
            where=where,
            expected=f"a directory below {folder}",
            found=f"/{root}",
        )
    # Debian keeps packages of the system's interpreter below /usr/local/lib as "dist-packages".
    system = posixpath.basename(root) == "dist-packages"
    prefix = "usr" if system else root.partition(folder)[0].rstrip("/")
    interpreter = spec.interpreter or "/" + posixpath.join(prefix, "bin", f"python{python}")
    return WheelPlace(python, spec.glibc or _GLIBC, root, interpreter)


def found_in(
    files: LayerFiles, read: Callable[[str], bytes], spec: BaseSpec, where: str
) -> WheelPlace:
    """Return what an image has, where the base does not say it.

    Raises:
        InputError: the image has no interpreter, package root or glibc, or several: all faults.
    """
    paths = [path for path, _ in files.tree.walk()]
    found = {
        "interpreter": _wanted(spec.interpreter, _matching(_INTERPRETER, paths, spec.python)),
        "package_root": _wanted(spec.package_root, _matching(_ROOT, paths, spec.python)),
        "glibc": [spec.glibc] if spec.glibc else _glibc(files, read, paths),
    }
    raise_all(
        Fault(
            what=f"the base's image has {'several' if values else 'no'} candidates for its {key}",
            where=where,
            found=" and ".join(values) or "none",
            fix=f"name it in the base: {key} = ...",
        )
        for key, values in found.items()
        if len(values) != 1
    )
    (interpreter,), (root,), (glibc,) = found.values()
    python = spec.python or interpreter.rpartition("python")[2]
    return WheelPlace(python, glibc, root.lstrip("/"), interpreter)


def _wanted(said: str | None, candidates: Sequence[str]) -> Sequence[str]:
    return [said] if said else candidates


def _matching(pattern: re.Pattern[str], paths: Iterable[str], python: str | None) -> list[str]:
    return [
        f"/{path}"
        for path in paths
        if (match := pattern.match(path)) and python in (None, match[1])
    ]


def _glibc(files: LayerFiles, read: Callable[[str], bytes], paths: Iterable[str]) -> list[str]:
    versions = set()
    for path in paths:
        if not f"/{path}".endswith(LIBC):
            continue
        try:
            real = files.tree.resolve(path)
        except PathError:
            continue
        entry = files.stat(real)
        if old := _OLD_NAME.search(real):
            versions.add(old[1])
        elif entry is not None and entry.is_file and (match := _RELEASE.search(read(real))):
            versions.add(match[1].decode())
    return sorted(versions)
