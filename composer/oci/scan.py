"""One pass over a layer: its file table, its diff_id, and the content of the files asked for.

One thread reads, checks and inflates; the caller's hashes the archive and the files in it. Of a
layer of any size a few pieces are held, the table, and what was asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..errors import ComposeError, InputError, IntegrityError
from .decode import LIMITS, Limits, inflate
from .digest import Digest
from .filetree import Entry, LayerTable, PathError, normalise, resolve
from .tarread import TarReader, Wanted
from .tartext import TarFormatError, TarRefusedError
from .worker import ahead

__all__ = ["ROOM", "Scanned", "Wanted", "scan"]

ROOM = 64 * 1024 * 1024  # bytes of content held at most: sources and metadata, not weights


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a layer holds. `size` in bytes of the archive, inflated.

    `contents` has the wanted regular files that are in the table, under their paths there.
    """

    table: LayerTable
    diff_id: Digest
    size: int
    contents: Mapping[str, bytes]


def scan(
    chunks: Iterable[bytes],
    media_type: str,
    *,
    where: str,
    wanted: Wanted | None = None,
    room: int = ROOM,
    limits: Limits = LIMITS,
) -> Scanned:
    """Read a layer to its end. `where` names it in errors.

    `wanted` is asked, for each regular file, with its path as the archive has it (normalised;
    links among its parents not followed) and its entry, which lacks the sha256. A hard link has
    no content: want the file that it names. `room` in bytes limits what is kept in all.

    Raises:
        IntegrityError: the layer is damaged or cut short, or inflates beyond `limits`; or what
            `chunks` raises, which is preferred: a fault in bytes that are not the layer's own
            says nothing of the layer.
        InputError: the layer has an entry that no image may have.
    """
    faults: list[ComposeError] = []
    source = _noting(chunks, faults)
    archive = _Archive(where, limits)
    try:
        with ahead(inflate(source, media_type, where=where, limits=limits)) as pieces:
            reader = TarReader(archive.hashed(pieces), wanted, room, archive.expanded)
            table = _table(reader, where)
    except ComposeError as error:
        for _ in source:
            pass
        if faults and faults[0] is not error:  # it came while an earlier piece was looked at
            raise faults[0] from error
        raise
    return Scanned(table, archive.diff_id(), archive.size, _contents(reader, table))


def _noting(chunks: Iterable[bytes], faults: list[ComposeError]) -> Iterator[bytes]:
    try:
        yield from chunks
    except ComposeError as error:
        faults.append(error)
        raise


class _Archive:
    """Hashes and counts the pieces of an archive on their way."""

    def __init__(self, where: str, limits: Limits) -> None:
        self.size = 0
        self._where, self._limits = where, limits
        self._hash = hashlib.sha256()

    def hashed(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.size += len(piece)
            self._hash.update(piece)
            yield piece

    def diff_id(self) -> Digest:
        return Digest("sha256", self._hash.hexdigest())

    def expanded(self, size: int) -> None:
        """Check what the sparse files come to, as if the holes were compressed."""
        if limit := self._limits.broken(size, self.size):
            raise IntegrityError.of(
                "a layer's sparse files have holes without end",
                where=self._where,
                expected=limit,
                found=f"{size} bytes in an archive of {self.size} so far",
            )


def _table(reader: TarReader, where: str) -> LayerTable:
    try:
        return LayerTable.of(reader.members())
    except TarFormatError as error:
        raise IntegrityError.of(
            "a layer's archive is malformed",
            where=_entry(where, reader.name),
            found=str(error),
            fix="build the image anew with a current tool, or use another base",
        ) from error
    except (TarRefusedError, PathError) as error:
        raise InputError.of(
            "a layer has an entry that no image may have",
            where=_entry(where, reader.name),
            expected=getattr(error, "expected", "names inside the image"),
            found=str(error),
            fix="build the image anew without it, or use another base",
        ) from error


def _entry(where: str, name: str) -> str:
    shown = name if len(name) <= 200 else f"{name[:200]}…"
    return f"{where}, at or after entry {shown!r}" if name else f"{where}, at its first entry"


def _contents(reader: TarReader, table: LayerTable) -> dict[str, bytes]:
    """Return what was kept, under the paths of the table, where a later entry may have won."""
    contents = {}
    for name, data in reader.kept:
        path = resolve(table.entries.get, normalise(name))
        entry: Entry | None = table.entries.get(path)
        if entry and entry.is_file and entry.sha256 == hashlib.sha256(data).hexdigest():
            contents[path] = data
    return contents
