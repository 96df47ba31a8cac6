"""A wheel as an installer would leave it, as the members of one layer.

Everything but the contents is known before the first of them is written: paths, modes, sizes
and hashes come from the archive's table and RECORD. No bytecode is written.
Sources: PyPA "Binary distribution format" (installing a wheel), "Recording installed projects"
(INSTALLER, RECORD), "Entry points specification" (use for scripts).
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import Fault, raise_all
from ..oci.filetree import Entry, PathError, directory, regular, resolve
from ..oci.layer import Member
from .metadata import EntryPoint
from .read import Wheel, WheelFile
from .record import Row, format_record, hash_text
from .scheme import Scheme

__all__ = ["Stat", "members"]

Stat = Callable[[str], Entry | None]

_INSTALLER = b"compose\n"
_PLACEHOLDER = b"#!python"  # the start of "#!pythonw" too, which is the same to a POSIX system
_SCRIPT = """\
#!{interpreter}
import sys

from {module} import {root}

if __name__ == "__main__":
    sys.exit({attr}())
"""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A file and its path in the image. `source` names it in errors; `hash` is RECORD's."""

    source: str
    path: str
    size: int
    sha256: str
    hash: str
    executable: bool
    data: bytes | Callable[[], Iterator[bytes]]

    def member(self, mtime: int) -> Member:
        mode = 0o755 if self.executable else 0o644
        return Member(self.path, regular(self.size, self.sha256, mode=mode, mtime=mtime), self.data)


def members(wheel: Wheel, scheme: Scheme, *, mtime: int, stat: Stat) -> tuple[Member, ...]:
    """Return the sorted members of the wheel's layer; contents are read when they are asked for.

    mtime: of all files and of new directories, in seconds since the epoch. stat: what the image
    below has at a path. Its symbolic links to directories are followed, its directories kept.

    Raises:
        InputError: two files for one path, or a file and a directory.
        IntegrityError: a content is not what RECORD says; also later, while contents are read.
    """
    files = [*_wheel_files(wheel, scheme), *_generated_files(wheel, scheme)]
    placed, faults = _settle(files, stat)
    directories = _directories(placed, mtime, stat)
    raise_all([*faults, *_clashes(placed, directories, stat)])
    found = [one.member(mtime) for one in _recorded(wheel, scheme, placed, stat)]
    found += [Member(path, entry) for path, entry in directories.items()]
    return tuple(sorted(found, key=lambda one: one.path))


def _wheel_files(wheel: Wheel, scheme: Scheme) -> Iterator[_Placed]:
    """Yield the wheel's own files, but for those that the installer writes itself."""
    ours = {f"{wheel.dist_info}/RECORD", f"{wheel.dist_info}/INSTALLER"}
    for file in wheel.files:
        if file.packed.name not in ours:
            path = posixpath.join(scheme.directory(file.kind, wheel.name), file.path)
            yield _wheel_file(file, path, scheme.interpreter)


def _wheel_file(file: WheelFile, path: str, interpreter: str) -> _Placed:
    script = file.kind == "scripts"
    executable = script or file.packed.executable
    if script and next(file.chunks(), b"").startswith(_PLACEHOLDER):
        return _hashed(file.where, path, executable, lambda: _with_interpreter(file, interpreter))
    if file.claim is None:
        return _hashed(file.where, path, executable, file.chunks)
    size, claim = file.packed.size, file.claim
    if claim.algorithm == "sha256":
        sha256 = claim.digest.hex()
    else:  # RECORD may keep a hash that is better, a layer's table may not
        sha256 = _hashed(file.where, path, executable, file.chunks).sha256
    return _Placed(file.where, path, size, sha256, claim.text, executable, file.chunks)


def _with_interpreter(file: WheelFile, interpreter: str) -> Iterator[bytes]:
    """Yield a script with its first line replaced."""
    yield f"#!{interpreter}\n".encode()
    body = False
    for chunk in file.chunks():
        if body:
            yield chunk
        else:
            _, newline, rest = chunk.partition(b"\n")
            body = bool(newline)
            yield rest


def _hashed(
    source: str, path: str, executable: bool, data: Callable[[], Iterator[bytes]]
) -> _Placed:
    """Return a file whose content has to be read for its size and hash."""
    size, content = 0, hashlib.sha256()
    for chunk in data():
        size += len(chunk)
        content.update(chunk)
    text = hash_text("sha256", content.digest())
    return _Placed(source, path, size, content.hexdigest(), text, executable, data)


def _written(source: str, path: str, data: bytes, *, executable: bool = False) -> _Placed:
    """Return a file that the installer writes itself."""
    content = hashlib.sha256(data)
    text = hash_text("sha256", content.digest())
    return _Placed(source, path, len(data), content.hexdigest(), text, executable, data)


def _generated_files(wheel: Wheel, scheme: Scheme) -> Iterator[_Placed]:
    installer = f"{scheme.package_root}/{wheel.dist_info}/INSTALLER"
    yield _written(f"{wheel.filename}: INSTALLER", installer, _INSTALLER)
    for point in wheel.entry_points:
        path = posixpath.join(scheme.scripts, point.name)
        data = _script(point, scheme.interpreter)
        yield _written(f"{wheel.filename}: script {point.name}", path, data, executable=True)


def _script(point: EntryPoint, interpreter: str) -> bytes:
    root = point.attr.partition(".")[0]
    return _SCRIPT.format(
        interpreter=interpreter, module=point.module, root=root, attr=point.attr
    ).encode()


def _settle(files: Iterable[_Placed], stat: Stat) -> tuple[dict[str, _Placed], list[Fault]]:
    """Return the files by their resolved paths, and those that have none of their own."""
    real = _Resolver(stat, {})
    placed: dict[str, _Placed] = {}
    faults = []
    for file in files:
        try:
            path = real.path(file.path)
        except PathError as error:
            faults.append(Fault(what=str(error), where=file.source))
            continue
        if path in placed:
            found = placed[path].source
            faults.append(Fault(what=f"two files for /{path}", where=file.source, found=found))
        placed[path] = replace(file, path=path)
    return placed, faults


@dataclass(frozen=True, slots=True)
class _Resolver:
    """Follows the links of an image to the directory of a path, not at the path itself."""

    stat: Stat
    _known: dict[str, str]

    def directory(self, path: str) -> str:
        if (found := self._known.get(path)) is None:
            found = self._known[path] = resolve(self.stat, path)
        return found

    def path(self, path: str) -> str:
        parent, name = posixpath.split(path)
        return posixpath.join(self.directory(parent), name)


def _directories(placed: Iterable[str], mtime: int, stat: Stat) -> dict[str, Entry]:
    """Return every ancestor of the files: as the image has it, or a new one."""
    found: dict[str, Entry] = {}
    for path in placed:
        parent = posixpath.dirname(path)
        while parent and parent not in found:
            found[parent] = stat(parent) or directory(mtime)
            parent = posixpath.dirname(parent)
    return found


def _clashes(
    placed: Mapping[str, _Placed], directories: Mapping[str, Entry], stat: Stat
) -> Iterator[Fault]:
    for path, file in placed.items():
        if path in directories:
            yield Fault(what=f"/{path} is a directory of the same wheel", where=file.source)
        elif (below := stat(path)) is not None and below.is_dir:
            yield Fault(what=f"/{path} is a directory of the image below", where=file.source)
    for path, entry in directories.items():
        if not entry.is_dir and path not in placed:
            yield Fault(
                what="the image below has a file where the wheel needs a directory",
                where=f"/{path}",
            )


def _recorded(
    wheel: Wheel, scheme: Scheme, placed: Mapping[str, _Placed], stat: Stat
) -> Iterator[_Placed]:
    """Yield the files, and RECORD, whose paths are relative to the package root."""
    root = resolve(stat, scheme.package_root)
    path = f"{root}/{wheel.dist_info}/RECORD"
    rows = [Row(posixpath.relpath(path, root))]  # it cannot give a hash of itself
    for file in placed.values():
        rows.append(Row(posixpath.relpath(file.path, root), file.hash, str(file.size)))
        yield file
    yield _written(f"{wheel.filename}: RECORD", path, format_record(rows))
