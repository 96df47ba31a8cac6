"""Where the files of a tar lie in it, so that they are read without unpacking."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, IntegrityError, UnreachableError
from .decode import compression_of
from .filetree import PathError, normalise

__all__ = ["Span", "TarIndex"]

_CHUNK = 1024 * 1024
_LINK_LIMIT = 40


@dataclass(frozen=True, slots=True)
class Span:
    """A file's content: `size` bytes at `offset` of the archive at `path`."""

    path: Path
    offset: int
    size: int

    def chunks(self) -> Iterator[bytes]:
        """Yield the content; fewer bytes where the archive has been cut since.

        Raises:
            UnreachableError: the archive cannot be read.
        """
        left = self.size
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(self.offset)
                while left and (chunk := file.read(min(left, _CHUNK))):
                    left -= len(chunk)
                    yield chunk
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def head(self, count: int) -> bytes:
        """Return the first `count` bytes."""
        return next(Span(self.path, self.offset, min(count, self.size)).chunks(), b"")


@dataclass(frozen=True, slots=True)
class TarIndex:
    """The files of an archive by name, and the links among them."""

    names: Mapping[str, Span | str]

    @classmethod
    def of(cls, path: Path) -> TarIndex:
        """Read the headers of the archive at `path`.

        Raises:
            InputError: there is no file, or it is compressed or no tar.
            IntegrityError: the archive is cut short.
            UnreachableError: it cannot be read.
        """
        size = _check_file(path)
        try:
            with tarfile.open(path, "r:") as archive:
                names = dict(_members(path, archive))
        except tarfile.TarError as error:
            raise InputError.of(
                "this file is no tar archive, or a damaged one",
                where=str(path),
                found=str(error),
                fix="make it anew: docker save -o FILE IMAGE",
            ) from error
        last = max((span.offset + span.size for span in names.values() if isinstance(span, Span)),
                   default=0)  # fmt: skip
        if last > size:
            raise IntegrityError.of(
                "an archive is cut short",
                where=str(path),
                expected=f"at least {last} bytes",
                found=f"{size} bytes",
                fix="copy it anew",
            )
        return cls(names)

    def find(self, name: str) -> Span | None:
        """Return the file `name`, links followed; None where there is none."""
        for _ in range(_LINK_LIMIT):
            found = self.names.get(posixpath.normpath(name))
            if not isinstance(found, str):
                return found
            name = found
        return None


def _check_file(path: Path) -> int:
    try:
        with path.open("rb") as file:
            kind = compression_of(file.read(16))
            size = path.stat().st_size
    except (FileNotFoundError, IsADirectoryError) as error:
        raise InputError.of(
            "there is no such archive",
            where=str(path),
            found=error.strerror or str(error),
            fix="check the path; docker save -o FILE IMAGE makes one",
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    if kind:
        tool = {"gzip": "gunzip", "zstd": "unzstd", "xz": "unxz", "bzip2": "bunzip2"}[kind]
        raise InputError.of(
            f"the archive as a whole is compressed with {kind}",
            where=str(path),
            expected="a plain tar, whose layers may be compressed",
            fix=f"{tool} {path}",
        )
    return size


def _members(path: Path, archive: tarfile.TarFile) -> Iterator[tuple[str, Span | str]]:
    for one in archive:
        try:
            name = normalise(one.name)
        except PathError as error:
            raise InputError.of(
                "an archive has an entry outside itself", where=str(path), found=str(error)
            ) from error
        if one.isreg():
            yield name, Span(path, one.offset_data, one.size)
        elif one.issym():
            yield name, posixpath.join(posixpath.dirname(name), one.linkname)
        elif one.islnk():
            yield name, one.linkname


def _unreadable(path: Path, error: OSError) -> UnreachableError:
    return UnreachableError.of(
        "cannot read", where=str(path), found=error.strerror or str(error), fix="check its mode"
    )
