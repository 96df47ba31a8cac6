"""A repository of a registry as a `Source` and a `Destination` of images."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ...errors import InputError, UnreachableError
from ..digest import Digest
from ..manifest import Descriptor
from ..reference import Reference
from .download import blob_chunks, blob_range
from .location import Origin, resolve
from .manifests import current, fetch_document, fetch_top, put_manifest
from .remote import Remote
from .upload import Uploads

__all__ = ["Repository"]

_NEXT = re.compile(r'<([^>]*)>\s*;[^,]*\brel="?next"?')
_PAGE = 1000  # tags
_PAGES = 1000
_PAGE_LIMIT = 4 * 1024 * 1024  # bytes


@dataclass(slots=True)
class Repository:
    """What `reference` names. Threads may share it."""

    reference: Reference
    _remote: Remote = field(repr=False)
    _uploads: Uploads = field(repr=False)
    # What was read with the top, so that it is not asked for twice.
    _documents: dict[Digest, bytes] = field(default_factory=dict, repr=False)

    def top(self) -> Descriptor:
        """Return the manifest or index that the reference names now.

        Raises:
            InputError: there is no such image. UnreachableError: it cannot be asked.
            IntegrityError: its bytes are not those of the reference's digest.
        """
        descriptor, raw = fetch_top(self._remote, self.reference)
        self._documents[descriptor.digest] = raw
        return descriptor

    def current(self, name: str) -> Digest | None:
        """Return what a tag or digest names, on the registry's word alone; None: nothing.

        One HEAD, which no registry counts as a pull.

        Raises:
            UnreachableError: no answer, or no permission.
        """
        return current(self._remote, name)

    def document(self, descriptor: Descriptor) -> bytes:
        """Return a manifest, index or config, checked against digest and size.

        Raises:
            IntegrityError: other bytes. UnreachableError: it cannot be had.
        """
        held = self._documents.get(descriptor.digest)
        if held is not None and len(held) == descriptor.size:
            return held
        return fetch_document(self._remote, descriptor)

    def chunks(self, descriptor: Descriptor) -> Iterator[bytes]:
        """Yield a blob, checked to its end; a consumer that stops early has nothing proven.

        Raises:
            IntegrityError: other bytes, fewer or more. UnreachableError: it cannot be had.
        """
        return blob_chunks(self._remote, descriptor)

    def range(self, descriptor: Descriptor, start: int, length: int) -> bytes:
        """Return bytes of a blob, unproven.

        Raises:
            IntegrityError: fewer bytes. UnreachableError: they cannot be had.
        """
        return blob_range(self._remote, descriptor, start, length)

    def has(self, descriptor: Descriptor) -> bool:
        """Tell whether the blob is there.

        Raises:
            UnreachableError: no answer, or no permission.
        """
        return self._uploads.has(descriptor)

    def mount(self, descriptor: Descriptor, source: Reference) -> bool:
        """Take a blob over from another repository; False: refused, or another registry.

        Raises:
            UnreachableError: no answer.
        """
        if source.domain != self.reference.domain:
            return False
        if source.path == self.reference.path:
            return self.has(descriptor)
        return self._uploads.mount(descriptor, source.path)

    def upload(self, descriptor: Descriptor, content: Callable[[], Iterable[bytes]]) -> None:
        """Send a blob; `content` is asked again when an upload starts anew.

        Raises:
            IntegrityError: `content` is not what the descriptor says. InputError: there is no
                such repository. UnreachableError: refused, or no answer.
        """
        self._uploads.upload(descriptor, content)

    def put(self, raw: bytes, media_type: str, tag: str | None = None) -> Digest:
        """Store a manifest or index, by digest or under a tag; equal content is success.

        Raises:
            InputError: the tag names other content and may not be moved. IntegrityError: the
                registry then names other content. UnreachableError: refused, or no answer.
        """
        return put_manifest(self._remote, raw, media_type, tag)

    def tags(self) -> tuple[str, ...]:
        """Return the repository's tags, sorted.

        Raises:
            InputError: there is no such repository. UnreachableError: no answer.
        """
        url: str | None = f"{self._remote.url('tags', 'list')}?n={_PAGE}"
        found: set[str] = set()
        seen: set[str] = set()
        while url is not None and url not in seen and len(seen) < _PAGES:
            seen.add(url)
            names, url = self._page(url)
            found.update(names)
        return tuple(sorted(found))

    def _page(self, url: str) -> tuple[list[str], str | None]:
        import json  # noqa: PLC0415

        answer = self._remote.ask("GET", url, limit=_PAGE_LIMIT)
        if answer.status == 404:
            raise InputError.of(
                "there is no such repository, or it has no tags",
                where=self._remote.name,
                found=str(answer.complaint),
            )
        if answer.status != 200:
            raise self._remote.refused(answer, "the tags cannot be listed")
        try:
            names = json.loads(answer.body).get("tags") or []
        except (ValueError, AttributeError) as error:
            raise UnreachableError.of(
                "the registry's list of tags cannot be read",
                where=self._remote.name,
                found=type(error).__name__,
            ) from error
        link = _NEXT.search(answer.headers.get("Link", ""))
        following = resolve(self._remote.session.endpoint, url, link[1]) if link else None
        if following and Origin.of(following) != Origin.of(url):
            following = None
        return [name for name in names if isinstance(name, str)], following
