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
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import IntegrityError, UnreachableError
from .digest import Digest
from .manifest import Descriptor, Index
from .mediatype import OCI

__all__ = ["REF_NAME", "Layout", "atomic_write", "reading", "sync_directory"]

REF_NAME = "org.opencontainers.image.ref.name"
_LAYOUT_FILE = b'{"imageLayoutVersion":"1.0.0"}'
_CHUNK = 1024 * 1024
_ABANDONED = 60.0  # seconds after which an unlocked file in ingest/ has lost its writer


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
        with self.open(digest) as file:
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
        except OSError as error:
            raise UnreachableError.of(
                f"the store does not hold {digest}",
                where=str(path),
                found=error.strerror or str(error),
            ) from error

    def damaged(self, digest: Digest, found: str) -> IntegrityError:
        """Return the error for a blob whose bytes are not its own."""
        path = self.path(digest)
        return IntegrityError.of(
            "a blob of the store is damaged",
            where=str(path),
            expected=str(digest),
            found=found,
            fix=f"remove it: rm {path}",
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
        with self.ingest() as ingest:
            content = hashlib.sha256()
            for chunk in chunks:
                content.update(chunk)
                ingest.write(chunk)
            digest = Digest("sha256", content.hexdigest())
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
        """Open a file to write a blob to; it is gone again unless committed."""
        with _storage_errors(self.root):
            self._prepare()
            handle, name = tempfile.mkstemp(dir=self.root / "ingest")
            fcntl.flock(handle, fcntl.LOCK_EX)  # tells `_sweep` that its writer lives
            path = Path(name)
            try:
                with os.fdopen(handle, "wb", buffering=_CHUNK) as file:
                    yield Ingest(self, file, path)
            finally:
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Hold the lock `name`: two processes do not make the same costly thing at once."""
        with _storage_errors(self.root):
            self._prepare()
            path = self.root / "locks" / name
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(handle)

    def _prepare(self) -> None:
        if (self.root / "oci-layout").exists():
            return
        for name in ("blobs/sha256", "ingest", "locks"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        if not (self.root / "index.json").exists():
            atomic_write(self.root / "index.json", Index.make(OCI, ()).raw)
        atomic_write(self.root / "oci-layout", _LAYOUT_FILE)

    def sweep(self) -> None:
        """Remove what writers that were killed have left in `ingest/`."""
        for path in (self.root / "ingest").glob("*"):
            with contextlib.suppress(OSError), path.open("rb") as file:
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()

    def refs(self) -> dict[str, Descriptor]:
        """Return the named manifests and indexes of `index.json`.

        Raises:
            IntegrityError: `index.json` is damaged.
        """
        path = self.root / "index.json"
        try:
            index = Index.parse(path.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise IntegrityError.of(
                "the store's index.json is damaged", where=str(path), found=str(error)
            ) from error
        return {
            one.annotations[REF_NAME]: one for one in index.manifests if REF_NAME in one.annotations
        }

    def tag(self, name: str, descriptor: Descriptor) -> None:
        """Point `name` at a manifest or index whose blobs are all held."""
        with self.exclusive("index"):
            refs = self.refs()
            named = Descriptor(
                descriptor.media_type,
                descriptor.digest,
                descriptor.size,
                descriptor.platform,
                {**descriptor.annotations, REF_NAME: name},
            )
            if refs.get(name) == named:
                return
            refs[name] = named
            index = Index.make(OCI, [refs[key] for key in sorted(refs)])
            atomic_write(self.root / "index.json", index.raw)


@dataclass(slots=True)
class Ingest:
    """A blob on its way into a layout."""

    layout: Layout
    file: BinaryIO
    path: Path

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        self.file.write(data)

    def commit(self, digest: Digest) -> None:
        """Sync and move the file to where `digest`, which is its content's, belongs."""
        target = self.layout.path(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        self.file.flush()
        os.fchmod(self.file.fileno(), 0o644 & ~_umask())
        os.fsync(self.file.fileno())
        self.path.replace(target)
        sync_directory(target.parent)


def _umask() -> int:
    # Reading the umask means setting it; /proc tells without a race between threads.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022


def atomic_write(path: Path, data: bytes) -> None:
    """Replace the file at `path`: a reader sees the old bytes or the new, never a part.

    Raises:
        UnreachableError: the directory cannot be written, or the disk is full.
    """
    with _storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o666 & ~_umask())
                os.fsync(file.fileno())
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory last over a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _storage_errors(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UnreachableError.of(
            "the disk is full" if full else "cannot write",
            where=str(error.filename or where),
            found=error.strerror or str(error),
            fix="free some space, or set COMPOSE_STORE to another file system"
            if full
            else "make it writable, or set COMPOSE_STORE to a directory that is",
        ) from error


def reading(path: Path, size: int = _CHUNK) -> Callable[[], Iterator[bytes]]:
    """Return a callable that yields a file's content in chunks of `size` bytes."""

    def chunks() -> Iterator[bytes]:
        with path.open("rb") as file:
            while chunk := file.read(size):
                yield chunk

    return chunks
