"""Read a wheel: its name, metadata and files, with every rule of the format checked at once.

Contents other than the metadata stay in the archive; `WheelFile.chunks` streams them, checked
against RECORD. Where the files go is left to `composer.wheel.install`.
Sources: PyPA "Binary distribution format" (file name, .dist-info, .data, RECORD).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.metadata import RawMetadata
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from ..errors import Fault, InputError, raise_all
from .archive import Packed, damaged, printable, read_table, unpacked
from .metadata import EntryPoint, check_wheel_file, parse_entry_points, parse_metadata
from .record import Claim, parse_record
from .scheme import KINDS

__all__ = ["Wheel", "WheelFile", "read_wheel"]

# "RECORD.jws" and "RECORD.p7s" sign RECORD, so that it cannot list them; nor can it list itself.
_UNLISTED = ("RECORD", "RECORD.jws", "RECORD.p7s")
_METADATA_LIMIT = 64 * 1024 * 1024  # bytes of a metadata file; the largest RECORD known has 2 MB


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file of a wheel: below which directory of the scheme (`kind`) it goes, and its content.

    claim: what RECORD says of it, None for RECORD itself and its signatures.
    """

    archive: Path
    where: str
    kind: str
    path: str
    packed: Packed
    claim: Claim | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in chunks of at most 1 MiB.

        Raises:
            IntegrityError: the content is not what RECORD and the archive say of it.
        """
        if self.claim is None:
            yield from unpacked(self.archive, self.packed, self.where)
            return
        content = hashlib.new(self.claim.algorithm)
        for chunk in unpacked(self.archive, self.packed, self.where):
            content.update(chunk)
            yield chunk
        if content.digest() != self.claim.digest:
            found = Claim(self.claim.algorithm, content.digest(), None)
            raise damaged(self.where, f"{self.claim.text} (RECORD)", found.text)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel whose form is right. `name` is normalised; `files` are sorted by archive name."""

    path: Path
    filename: str
    name: str
    version: Version
    tags: frozenset[Tag]
    metadata: RawMetadata
    purelib: bool
    dist_info: str
    entry_points: tuple[EntryPoint, ...]
    files: tuple[WheelFile, ...]


def read_wheel(path: Path, *, filename: str = "") -> Wheel:
    """Read the wheel at `path`; `filename` is the wheel's own where the path is another.

    Raises:
        InputError: it breaks rules of the format; all of them are listed.
        IntegrityError: its metadata files are damaged.
        UnreachableError: it cannot be read.
    """
    filename = filename or path.name
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        raise InputError.of("not the name of a wheel", where=filename, found=str(error)) from error
    packed, faults = read_table(path)
    faults += _repeated(packed)
    dist_info = _dist_info(packed, name, version, faults)
    if not dist_info:  # without it nothing tells what the other files are
        raise InputError(*_located(faults, filename))
    files = _sort_out(path, filename, packed, partial(_names, name=name, version=version), faults)
    info = _DistInfo(dist_info, files, faults)
    info.check_record(packed)
    purelib = info.check_wheel()
    metadata = info.metadata(name, version)
    entry_points = info.entry_points()
    raise_all(_located(faults, filename))
    files = tuple(info.files.values())
    return Wheel(
        path, filename, name, version, tags, metadata, purelib, dist_info, entry_points, files
    )


def _located(faults: Sequence[Fault], filename: str) -> Iterator[Fault]:
    for fault in faults:
        inner = f": {printable(fault.where)}" if fault.where else ""
        yield replace(fault, where=f"{filename}{inner}")


def _repeated(packed: Sequence[Packed]) -> Iterator[Fault]:
    counts = Counter(one.name for one in packed)
    for name, count in sorted(counts.items()):
        if count > 1:
            yield Fault(what=f"the archive holds the file {count} times", where=name)


def _dist_info(packed: Sequence[Packed], name: str, version: Version, faults: list[Fault]) -> str:
    """Return the .dist-info directory; empty where it cannot be told."""
    tops = {one.name.partition("/")[0] for one in packed if "/" in one.name}
    found = sorted(top for top in tops if top.endswith(".dist-info"))
    expected = f"{name.replace('-', '_')}-{version}.dist-info"
    if len(found) != 1:
        what = "a wheel has exactly one .dist-info directory"
        faults.append(Fault(what=what, expected=expected, found=", ".join(found) or "none"))
        return ""
    if not _names(found[0].removesuffix(".dist-info"), name=name, version=version):
        what = "the .dist-info directory is of another distribution or version"
        faults.append(Fault(what=what, expected=expected, found=found[0]))
    return found[0]


def _names(stem: str, *, name: str, version: Version) -> bool:
    """Tell whether `stem` is `name-version`, in whatever spelling."""
    text, _, number = stem.rpartition("-")
    try:
        return canonicalize_name(text) == name and Version(number) == version
    except InvalidVersion:
        return False


def _sort_out(
    path: Path,
    filename: str,
    packed: Sequence[Packed],
    is_own: Callable[[str], bool],
    faults: list[Fault],
) -> tuple[WheelFile, ...]:
    """Tell the files' places apart. Two files for one place are a fault."""
    placed: dict[tuple[str, str], WheelFile] = {}
    for one in sorted(packed, key=lambda file: file.name):
        try:
            kind, inner = _place(one.name, is_own)
        except ValueError as error:
            faults.append(Fault(what=str(error), where=one.name))
            continue
        file = WheelFile(path, f"{filename}: {one.name}", kind, inner, one)
        other = placed.setdefault((kind, inner), file)
        if other.packed.name != one.name:
            faults.append(Fault(what=f"goes where {other.packed.name!r} goes", where=one.name))
    return tuple(placed.values())


def _place(name: str, is_own: Callable[[str], bool]) -> tuple[str, str]:
    """Return the kind of the file `name`, and its path below that kind's directory.

    Raises:
        ValueError: it is in a .data directory in a way that no installer knows.
    """
    top, _, inner = name.partition("/")
    if not top.endswith(".data"):
        return "purelib", name
    if not is_own(top.removesuffix(".data")):
        raise ValueError("a .data directory of another distribution or version")
    kind, _, inner = inner.partition("/")
    if kind not in KINDS or not inner:
        raise ValueError(f".data has directories {', '.join(KINDS)}, and nothing else")
    return kind if kind != "platlib" else "purelib", inner


class _DistInfo:
    """The files of a wheel, and what those of its .dist-info directory say."""

    def __init__(self, path: str, files: Sequence[WheelFile], faults: list[Fault]) -> None:
        self._path = path
        self._faults = faults
        self.files = {one.packed.name: one for one in files}

    def _read(self, name: str, *, required: bool = True) -> bytes | None:
        """Return a file of the directory; None where it cannot be had."""
        path = f"{self._path}/{name}"
        file = self.files.get(path)
        if file is None and required:
            self._faults.append(Fault(what=f"the wheel has no {name}", where=path))
        elif file is not None and file.packed.size > _METADATA_LIMIT:
            self._faults.append(Fault(what=f"larger than {_METADATA_LIMIT} bytes", where=path))
        elif file is not None and path not in {fault.where for fault in self._faults}:
            return b"".join(file.chunks())
        return None

    def check_record(self, packed: Sequence[Packed]) -> None:
        """Take the claims of RECORD, which must list the files of the archive and no others."""
        if (data := self._read("RECORD")) is None:
            return
        claims, faults = parse_record(data)
        self._faults += faults or _unmatched(self._path, packed, claims)
        for name, file in self.files.items():
            self.files[name] = replace(file, claim=claims.get(name))

    def check_wheel(self) -> bool:
        """Return Root-Is-Purelib of WHEEL."""
        if (data := self._read("WHEEL")) is None:
            return False
        purelib, faults = check_wheel_file(data)
        self._faults += faults
        return purelib

    def metadata(self, name: str, version: Version) -> RawMetadata:
        """Return METADATA."""
        if (data := self._read("METADATA")) is None:
            return {}
        metadata, faults = parse_metadata(data, name, version)
        self._faults += faults
        return metadata

    def entry_points(self) -> tuple[EntryPoint, ...]:
        """Return the scripts of entry_points.txt."""
        points, faults = parse_entry_points(self._read("entry_points.txt", required=False) or b"")
        self._faults += faults
        return points


def _unmatched(
    dist_info: str, packed: Iterable[Packed], claims: Mapping[str, Claim | None]
) -> Iterator[Fault]:
    """Yield where RECORD and the archive differ."""
    unlisted = {f"{dist_info}/{name}" for name in _UNLISTED}
    sizes = {one.name: one.size for one in packed}
    for name in sorted(claims.keys() - sizes.keys() - unlisted):
        yield Fault(what="RECORD lists a file that the archive does not have", where=name)
    for name in sorted(sizes.keys() - claims.keys() - unlisted):
        yield Fault(what="RECORD does not list the file", where=name)
    for name in sorted(sizes.keys() & claims.keys()):
        claim, found = claims[name], f"{sizes[name]} bytes"
        if claim is None and name not in unlisted:
            yield Fault(what="RECORD gives no hash of the file", where=name)
        elif claim is not None and claim.size not in (None, sizes[name]):
            expected = f"{claim.size} bytes (RECORD)"
            yield Fault(what="the file's size differs", where=name, expected=expected, found=found)
