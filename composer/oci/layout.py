"""An OCI image layout on disk, safe against kills, full disks and other writers.

Every write goes to a file of its own in `ingest/`, is hashed while it is copied, synced, and
renamed into place: a blob is there whole or not at all. Every read is checked against digest
and size. `index.json` changes under an exclusive lock.
Source: OCI image-spec image-layout.md.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import IntegrityError, UnreachableError
from .digest import Digest
from .manifest import Descriptor, Index, canonical_json, parse_json
from .mediatype import OCI

__all__ = [
    "REF_NAME",
    "Layout",
    "atomic_write",
    "exclusive",
    "reading",
    "replacing",
    "storage_errors",
    "sync_directory",
]

REF_NAME = "org.opencontainers.image.ref.name"
_LAYOUT_FILE = b'{"imageLayoutVersion":"1.0.0"}'
_CHUNK = 1024 * 1024
_ABANDONED = 60.0  # seconds after which an unlocked temporary file has lost its writer
_ADVICE = ", or set COMPOSE_STORE to another directory"


@dataclass(frozen=True, slots=True)
class Layout:
    """The image layout at `root`; made on the first write."""

    root: Path

    def path(self, digest: Digest) -> Path:
        """Return where the blob lies, or would lie."""
        return self.root / "blobs" / digest.algorithm / digest.hex

    def has(self, digest: Digest, size: int | None = None) -> bool:
        """Tell whether the blob is held, with `size` bytes where that is given."""
        try:
            found = self.path(digest).stat().st_size
        except OSError:
            return False
        return size is None or found == size

    def read(self, digest: Digest, *, limit: int = 64 * 1024 * 1024) -> bytes:
        """Return a blob, checked; `limit` in bytes.

        Raises:
            UnreachableError: the store does not hold it, or it cannot be read.
            IntegrityError: the bytes are not those of `digest`.
        """
        with self.open(digest) as file, _reading_errors(self.path(digest)):
            data = file.read(limit + 1)
        if len(data) > limit:
            raise IntegrityError.of(f"blob {digest} is larger than {limit} bytes")
        found = hashlib.new(digest.algorithm, data).hexdigest()
        if found != digest.hex:
            raise self.damaged(digest, f"{digest.algorithm}:{found}")
        return data

    def open(self, digest: Digest) -> BinaryIO:
        """Open a blob that is large; the caller checks what it reads.

        Raises:
            UnreachableError: the store does not hold it, or it cannot be read.
        """
        path = self.path(digest)
        try:
            return path.open("rb")
        except FileNotFoundError as error:
            raise UnreachableError.of(
                f"the store does not hold {digest}",
                where=str(path),
                found=error.strerror or str(error),
            ) from error
        except OSError as error:
            raise _unreadable(path, error) from error

    def damaged(self, digest: Digest, found: str) -> IntegrityError:
        """Return the error for a blob whose bytes are not its own."""
        path = self.path(digest)
        return IntegrityError.of(
            "a blob of the store is damaged",
            where=str(path),
            expected=str(digest),
            found=found,
            fix=f"remove it: rm {shlex.quote(str(path))}",
        )

    def put(self, data: bytes) -> Digest:
        """Store `data` and return its digest; the content is stored at that digest."""
        digest = Digest("sha256", hashlib.sha256(data).hexdigest())
        if not self.has(digest, len(data)):
            with self.ingest() as ingest:
                ingest.write(data)
                ingest.commit(digest)
        return digest

    def put_chunks(self, chunks: Iterable[bytes], expected: Digest | None = None) -> Digest:
        """Store a stream and return its digest.

        Raises:
            IntegrityError: the stream's digest is not `expected`; nothing is stored.
        """
        algorithm = expected.algorithm if expected else "sha256"
        with self.ingest() as ingest:
            content = hashlib.new(algorithm)
            for chunk in chunks:
                content.update(chunk)
                ingest.write(chunk)
            digest = Digest(algorithm, content.hexdigest())
            if expected not in (None, digest):
                raise IntegrityError.of(
                    "the bytes received are not those asked for",
                    expected=str(expected),
                    found=str(digest),
                )
            ingest.commit(digest)
        return digest

    @contextlib.contextmanager
    def ingest(self) -> Iterator[Ingest]:
        """Open a file to write a blob to; it is gone again unless committed.

        Raises:
            UnreachableError: the store cannot be written, or the disk is full.
        """
        self._prepare()
        with storage_errors(self.root, _ADVICE):
            file, path = _create(self.root / "ingest" / "blob")
        try:
            yield Ingest(self, file, path)
        finally:
            with contextlib.suppress(OSError):  # what is not committed need not reach the disk
                file.close()
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Hold the lock `name`: two processes do not make the same costly thing at once."""
        self._prepare()
        with self._locked(name):
            yield

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with storage_errors(self.root, _ADVICE):
            file = (self.root / "locks" / name).open("ab")
        with file:
            with storage_errors(self.root, _ADVICE):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _prepare(self) -> None:
        with storage_errors(self.root, _ADVICE):
            # Each time: a layout that another tool made has no ingest/ and no locks/.
            for name in ("blobs/sha256", "ingest", "locks"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
        if (self.root / "oci-layout").exists():
            return
        with self._locked("index"):  # or a late comer would empty the index of an early one
            if not (self.root / "index.json").exists():
                atomic_write(self.root / "index.json", Index.make(OCI, ()).raw)
            atomic_write(self.root / "oci-layout", _LAYOUT_FILE)

    def sweep(self) -> None:
        """Remove what writers that were killed have left behind."""
        for path in [*self.root.glob("ingest/*"), *self.root.glob(".*.tmp-*")]:
            with contextlib.suppress(OSError), path.open("rb") as file:
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()

    def refs(self) -> dict[str, Descriptor]:
        """Return the named manifests and indexes of `index.json`.

        Raises:
            IntegrityError: `index.json` is damaged.
            UnreachableError: it cannot be read.
        """
        index = self._index()
        return {
            one.annotations[REF_NAME]: one for one in index.manifests if REF_NAME in one.annotations
        }

    def _index(self) -> Index:
        path = self.root / "index.json"
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return Index.make(OCI, ())
        except OSError as error:
            raise _unreadable(path, error) from error
        try:
            return Index.parse(raw)
        except ValueError as error:
            raise IntegrityError.of(
                "the store's index.json is damaged", where=str(path), found=str(error)
            ) from error

    def tag(self, name: str, descriptor: Descriptor) -> None:
        """Point `name` at a manifest or index whose blobs are all held."""
        named = replace(descriptor, annotations={**descriptor.annotations, REF_NAME: name})
        if self.refs().get(name) == named:
            return
        with self.exclusive("index"):
            # What other tools wrote there is kept as it is.
            document = parse_json(self._index().raw, "index.json")
            others = [one for one in document["manifests"] if _ref_name(one) not in (None, name)]
            unnamed = [one for one in document["manifests"] if _ref_name(one) is None]
            refs = sorted([*others, named.document()], key=lambda one: str(_ref_name(one)))
            document["manifests"] = [*unnamed, *refs]
            atomic_write(self.root / "index.json", canonical_json(document))


def _ref_name(manifest: Mapping[str, Any]) -> str | None:
    name: str | None = (manifest.get("annotations") or {}).get(REF_NAME)
    return name


@dataclass(slots=True)
class Ingest:
    """A blob on its way into a layout."""

    layout: Layout
    file: BinaryIO
    path: Path

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes.

        Raises:
            UnreachableError: the disk is full, or cannot be written.
        """
        with storage_errors(self.layout.root, _ADVICE):
            self.file.write(data)

    def commit(self, digest: Digest) -> None:
        """Sync and move the file to where `digest`, which is its content's, belongs.

        Raises:
            UnreachableError: the disk is full, or cannot be written.
        """
        target = self.layout.path(digest)
        with storage_errors(self.layout.root, _ADVICE):
            target.parent.mkdir(parents=True, exist_ok=True)
            self.file.flush()
            os.fsync(self.file.fileno())
            self.path.replace(target)
            sync_directory(target.parent)


def _create(stem: Path) -> tuple[BinaryIO, Path]:
    """Open a new file beside or below `stem`, locked for as long as its writer lives."""
    path = stem.with_name(f"{stem.name}.tmp-{os.urandom(8).hex()}")
    # Not mkstemp, whose files are 0600 whatever the umask says.
    file = path.open("xb", buffering=_CHUNK)
    with contextlib.suppress(OSError):  # where nothing can be locked, `sweep` removes nothing
        fcntl.flock(file, fcntl.LOCK_EX)  # tells `sweep` to leave it
    return file, path


def atomic_write(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace the file at `path`: a reader sees the old bytes or the new, never a part.

    A link stays a link to the file that is replaced, and an existing file keeps its mode.

    Raises:
        UnreachableError: the directory cannot be written, or the disk is full.
    """
    with storage_errors(path.parent):
        path.resolve().parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=durable) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of the one at `path` once it is whole.

    A link stays a link to the file that is replaced, and an existing file keeps its mode. What is
    not `durable` is not synced: a power cut may damage it, so that its readers must check it.

    Raises:
        UnreachableError: the directory cannot be written, or the disk is full.
    """
    path = path.resolve()
    with storage_errors(path.parent):
        file, temporary = _create(path.with_name(f".{path.name}"))
        try:
            with file:
                with contextlib.suppress(FileNotFoundError):
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        if durable:
            sync_directory(path.parent)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes out of a directory, which is made, for as long as they ask the same.

    Raises:
        UnreachableError: it cannot be made or opened.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # where nothing can be locked, the rename still is whole
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Make the names in a directory last over a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def storage_errors(where: Path, advice: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UnreachableError.of(
            "the disk is full" if full else "cannot write",
            where=str(error.filename or where),
            found=error.strerror or str(error),
            fix=("free some space" if full else "make it writable") + advice,
        ) from error


@contextlib.contextmanager
def _reading_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UnreachableError:
    return UnreachableError.of("cannot read", where=str(path), found=error.strerror or str(error))


def reading(path: Path, size: int = _CHUNK) -> Callable[[], Iterator[bytes]]:
    """Return a callable that yields a file's content in chunks of `size` bytes."""

    def chunks() -> Iterator[bytes]:
        with path.open("rb") as file:
            while chunk := file.read(size):
                yield chunk

    return chunks
