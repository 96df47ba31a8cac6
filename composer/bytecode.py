"""What Python would run instead of a changed source file, and how an image avoids it.

An interpreter trusts a `.pyc` by the source's mtime and size, or not at all by looking at the
source; imports a legacy `m.pyc` when `m.py` is gone; and prefers an extension module or a
package to `m.py`. Sources: PEP 3147, PEP 552, importlib `FileFinder`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator

from .oci.digest import Digest

__all__ = ["Names", "is_source", "mtime", "shadows", "stale"]

# (directory, stem) -> the names in it that start with the stem and a dot
Names = Callable[[str, str], Collection[str]]

_RANGE = 2**24  # seconds, 194 days
_SUFFIX = ".py"


def is_source(path: str) -> bool:
    """Tell whether `path` is a Python source file."""
    return path.endswith(_SUFFIX)


def stale(path: str, names: Names) -> Iterator[str]:
    """Yield the bytecode files of source `path` that exist, by the directory listing `names`."""
    folder, file = posixpath.split(path)
    stem = file.removesuffix(_SUFFIX)
    cache = posixpath.join(folder, "__pycache__")
    legacy = re.compile(rf"{re.escape(stem)}\.pyc\Z")
    cached = re.compile(rf"{re.escape(stem)}\.[^.]+(?:\.opt-[^.]+)?\.pyc\Z")
    for where, pattern in ((folder, legacy), (cache, cached)):
        for name in names(where, stem):
            if pattern.match(name):
                yield posixpath.join(where, name)


def shadows(path: str, names: Names) -> Iterator[str]:
    """Yield what an import would find before source `path`: extension modules and packages."""
    folder, file = posixpath.split(path)
    stem = file.removesuffix(_SUFFIX)
    extension = re.compile(rf"{re.escape(stem)}(?:\.(?:cpython-[^.]+|abi3))?\.so\Z")
    for name in names(folder, stem):
        if extension.match(name):
            yield posixpath.join(folder, name)
    package = posixpath.join(folder, stem)
    initial = re.compile(r"__init__\.(?:py|pyc|so|(?:cpython-[^.]+|abi3)\.so)\Z")
    if any(initial.match(name) for name in names(package, "__init__")):
        yield package


def mtime(epoch: int, postimage: Digest) -> int:
    """Return the mtime, in seconds, of a changed source file.

    Two versions of a file must not look alike to bytecode kept elsewhere
    (PYTHONPYCACHEPREFIX), even at equal size; so the content decides how far before `epoch` the
    time lies. Never later: some programs mistrust files from the future.
    """
    return max(epoch, _RANGE) - int(postimage.hex[:12], 16) % _RANGE
