"""Images out of an OCI image layout: `oci:DIR[:TAG]`, or `oci:DIR@DIGEST`.

Read-only, and never the store's own `layout`, whose blobs nobody else writes.
Source: OCI image-spec image-layout.md and annotations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, IntegrityError, UnreachableError
from .digest import Digest
from .manifest import Descriptor, Index, Manifest, parse_json
from .mediatype import OCI, family_of_index, family_of_manifest
from .verify import verified, whole

__all__ = ["LayoutSource", "choose", "parse_index", "split_name", "type_of"]

REF_NAME = "org.opencontainers.image.ref.name"
# containerd and docker save write the whole reference here, and its tag alone in REF_NAME.
_FULL_NAME = "io.containerd.image.name"
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LayoutSource:
    """The image `name` (a tag or a digest) of the layout at `root`; without one, the only one."""

    root: Path
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> LayoutSource:
        """Read what follows `oci:`. A directory whose own name has a colon needs no tag."""
        path, name = split_name(text, Path.is_dir)
        return cls(path, name)

    def top(self) -> Descriptor:
        """Return the manifest or index that the name stands for.

        Raises:
            InputError: there is no layout, or no such image in it.
            IntegrityError: its index.json is no index.
        """
        path = self.root / "index.json"
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise InputError.of(
                "there is no OCI image layout",
                where=str(self.root),
                expected="a directory with index.json and blobs/",
                found=f"index.json: {error.strerror}",
                fix="check the path; skopeo copy docker://IMAGE oci:DIR:TAG makes one",
            ) from error
        return choose(parse_index(raw, str(path)), self.name, str(self.root), self._described)

    def document(self, descriptor: Descriptor) -> bytes:
        """Return a manifest, index or config, checked.

        Raises:
            IntegrityError: other bytes. UnreachableError: the layout does not hold it.
        """
        path = self._path(descriptor.digest)
        return whole(_reading(path, descriptor), descriptor, str(path))

    def chunks(self, descriptor: Descriptor) -> Iterator[bytes]:
        """Yield a blob, checked to its end.

        Raises:
            IntegrityError: other bytes. UnreachableError: the layout does not hold it.
        """
        path = self._path(descriptor.digest)
        return verified(_reading(path, descriptor), descriptor, str(path))

    def _path(self, digest: Digest) -> Path:
        return self.root / "blobs" / digest.algorithm / digest.hex

    def _described(self, digest: Digest) -> Descriptor | None:
        """Return the descriptor of a manifest or index that index.json does not list."""
        try:
            size = self._path(digest).stat().st_size
        except OSError:
            return None
        raw = self.document(Descriptor("", digest, size))
        return Descriptor(type_of(raw), digest, size)


def split_name(text: str, exists: Callable[[Path], bool]) -> tuple[Path, str]:
    """Split `PATH[:NAME]` or `PATH@DIGEST`; what exists as a whole is a path."""
    if exists(Path(text)):
        return Path(text), ""
    head, at, digest = text.rpartition("@")
    if at and ":" in digest:
        return Path(head), digest
    # A name may have colons of its own (host:5000/name:tag): the path is the longest that exists.
    parts = text.split(":")
    for count in range(len(parts) - 1, 0, -1):
        path = Path(":".join(parts[:count]))
        if exists(path):
            return path, ":".join(parts[count:])
    head, colon, name = text.rpartition(":")
    return (Path(head), name) if colon and "/" not in name else (Path(text), "")


def parse_index(raw: bytes, where: str) -> Index:
    """Parse a layout's index.json.

    Raises:
        IntegrityError: it is no index.
    """
    try:
        return Index.parse(raw, OCI.index)
    except ValueError as error:
        raise IntegrityError.of(
            "an index.json is damaged", where=where, found=str(error), fix="copy the image anew"
        ) from error


def choose(
    index: Index, name: str, where: str, described: Callable[[Digest], Descriptor | None]
) -> Descriptor:
    """Return the image of a layout that `name` (a tag, digest, or nothing) stands for.

    `described` finds a digest that the index does not list.

    Raises:
        InputError: there is none, or more than one.
    """
    if name and (digest := _as_digest(name)):
        found = [one for one in index.manifests if one.digest == digest]
        found = found[:1] or [one for one in (described(digest),) if one]
    elif name:
        found = [one for one in index.manifests if name in _names(one)]
    else:
        found = list(index.manifests)
    if len({one.digest for one in found}) != 1:
        raise _no_choice(name, where, index.manifests, found)
    return found[0]


def _names(descriptor: Descriptor) -> list[str]:
    annotations = descriptor.annotations
    return [annotations[key] for key in (_FULL_NAME, REF_NAME) if key in annotations]


def _no_choice(
    name: str, where: str, held: Sequence[Descriptor], found: Sequence[Descriptor]
) -> InputError:
    names = [next(iter(_names(one)), str(one.digest)) for one in held]
    what = f"there is no image {name!r}" if name else "no image is named, and there is not just one"
    if len(found) > 1 and name:
        what = f"{name!r} names more than one image"
    return InputError.of(
        what,
        where=where,
        found=", ".join(sorted(names)) or "no image at all",
        fix="append :TAG or @DIGEST of one of them" if names else "copy an image there first",
    )


def _as_digest(name: str) -> Digest | None:
    try:
        return Digest.parse(name)
    except ValueError:
        return None


def type_of(raw: bytes) -> str:
    """Return the media type of a manifest or index, by its own word or its form."""
    document = parse_json(raw, "the manifest")
    stated = document.get("mediaType")
    if isinstance(stated, str) and (family_of_index(stated) or family_of_manifest(stated)):
        return stated
    if "manifests" in document:
        return Index.parse(raw).media_type
    return Manifest.parse(raw).media_type


def _reading(path: Path, descriptor: Descriptor) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise UnreachableError.of(
            f"the layout does not hold {descriptor.digest}",
            where=str(path),
            found=error.strerror or str(error),
            fix="copy the image there anew, with all its layers",
        ) from error
