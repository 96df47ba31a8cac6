"""Whether a registry has the bytes of a release."""

from __future__ import annotations

from .errors import InputError
from .oci.digest import Digest
from .oci.manifest import Manifest
from .oci.mediatype import is_foreign
from .oci.reference import Reference
from .release import Release

__all__ = ["absent"]


def absent(release: Release, repository: Reference) -> list[Digest]:
    """Return what of a release a registry does not answer for: manifests, configs, layers.

    Manifests are read and checked; of blobs it is asked whether they are there.

    Raises:
        UnreachableError: the registry does not answer, or refuses. IntegrityError: a manifest
            is another one than its digest says.
    """
    from .sources import registries

    gone, blobs = [], {}
    manifests = [Digest.parse(one.manifest) for one in release.result.platforms]
    for digest in dict.fromkeys([Digest.parse(release.result.digest), *manifests]):
        there = registries().source(repository.with_tag(None).with_digest(digest))
        try:
            top = there.top()
        except InputError:  # it says that there is no such manifest
            gone.append(digest)
            continue
        if digest in manifests:
            manifest = Manifest.parse(there.document(top), top.media_type)
            own = [blob for blob in manifest.layers if not is_foreign(blob.media_type)]
            blobs.update({blob.digest: blob for blob in (*own, manifest.config)})
    there = registries().source(repository)
    return gone + [blob.digest for blob in blobs.values() if not there.has(blob)]
