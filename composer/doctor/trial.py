"""What a repository takes, tried with an image of a few bytes. What was tried stays there.

The bytes are always the same, so that trying again leaves nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import ComposeError
from ..oci.digest import sha256
from ..oci.filetree import regular
from ..oci.layer import Member, tar
from ..oci.manifest import Config, Descriptor, Index, Manifest
from ..oci.mediatype import OCI
from ..oci.reference import Reference
from ..oci.registry import Registries, Repository
from ..oci.registry.probe import Probe
from ..text import size
from .finding import Finding, Level

__all__ = ["Trial"]

_BESIDE = "compose-doctor"
_TEXT = b"left by `compose doctor --write`; nothing needs it\n"
_LAYER = b"".join(tar([Member(_BESIDE, regular(len(_TEXT), sha256(_TEXT).hex), _TEXT)]))


def _image() -> tuple[Config, Manifest, Index]:
    config = Config.make(
        {
            "architecture": "amd64",
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [str(sha256(_LAYER))]},
            "history": [{"created_by": "compose doctor"}],
        }
    )
    layer = Descriptor(OCI.layer, sha256(_LAYER), len(_LAYER))
    manifest = Manifest.make(OCI, config=config.descriptor(OCI), layer_documents=[layer.document()])
    index = Index.make(OCI, [manifest.descriptor(config.platform)])
    return config, manifest, index


@dataclass(slots=True)
class Trial:
    """Writes to a repository, and to one below it, from which a blob is mounted."""

    about: str
    target: Reference
    registries: Registries
    probe: Probe
    _left: list[str] = field(default_factory=list)

    def findings(self) -> Iterator[Finding]:
        """Try one thing after the other; without permission to push nothing else is tried."""
        config, manifest, index = _image()
        here = self.registries.destination(self.target)
        layer = manifest.layers[0]
        try:
            self._send(here, manifest.config, config.raw)
        except ComposeError as error:
            yield Finding.of(self.about, "push", self._level(), error)
            return
        yield Finding(self.about, "push", Level.OK, f"{self.target.repository} takes blobs")
        yield self._mount(here, layer)
        try:
            if not here.has(layer):
                self._send(here, layer, _LAYER)
        except ComposeError as error:
            yield Finding.of(self.about, "push", Level.FAIL, error)
            return
        yield self._range(layer)
        for name, raw, media_type, meaning in (
            ("plain layers", manifest.raw, OCI.manifest, "a layer that is not compressed"),
            ("OCI index", index.raw, OCI.index, "an image of several platforms"),
        ):
            yield self._put(here, name, raw, media_type, meaning)
        total = size(len(config.raw) + len(_LAYER) + len(manifest.raw) + len(index.raw))
        where = " and ".join(dict.fromkeys(self._left))
        found = f"{total} without a tag, for the registry's garbage collection, in {where}"
        yield Finding(self.about, "left behind", Level.OK, found)

    def _level(self) -> Level:
        """Credentials that are missing are no failure; those that do not suffice are one."""
        return Level.FAIL if self.probe.who() else Level.WARN

    def _send(self, where: Repository, blob: Descriptor, data: bytes) -> None:
        where.upload(blob, lambda: [data])
        self._left.append(where.reference.repository)

    def _mount(self, here: Repository, layer: Descriptor) -> Finding:
        """Mount the layer from a repository below, as a base's layers are from the base's."""
        name = "mount"
        beside = Reference(self.target.domain, f"{self.target.path}/{_BESIDE}")
        try:
            self._send(self.registries.destination(beside), layer, _LAYER)
        except ComposeError as error:
            found = Finding.of(self.about, name, Level.WARN, error)
            fix = f"to try it, let {beside.repository} be written to"
            return Finding(self.about, name, Level.WARN, f"not tried: {found.found}", fix)
        try:
            mounted = here.mount(layer, beside)
        except ComposeError as error:
            return Finding.of(self.about, name, Level.WARN, error)
        if mounted:
            return Finding(self.about, name, Level.OK, "blobs are taken over between repositories")
        fix = "push to the base's own repository, or send its layers once: push --copy-base"
        return Finding(self.about, name, Level.WARN, "refused between repositories", fix)

    def _range(self, layer: Descriptor) -> Finding:
        name = "ranges"
        try:
            answer = self.probe.range(layer.digest, 3, 9)
        except ComposeError as error:
            return Finding.of(self.about, name, Level.WARN, error)
        if answer.status == 206 and answer.body == _LAYER[3:10]:
            return Finding(self.about, name, Level.OK, "parts of a blob can be read")
        why = "the whole blob comes" if answer.status == 200 else str(answer.complaint)
        found = f"none: {why}; a download that breaks begins anew"
        return Finding(self.about, name, Level.WARN, found)

    def _put(
        self, here: Repository, name: str, raw: bytes, media_type: str, meaning: str
    ) -> Finding:
        try:
            digest = here.put(raw, media_type)
        except ComposeError as error:
            found = Finding.of(self.about, name, Level.WARN, error)
            fix = f"{meaning} needs another registry"
            return Finding(self.about, name, Level.WARN, found.found, found.fix or fix)
        self._left.append(here.reference.repository)
        return Finding(self.about, name, Level.OK, f"{meaning} is taken (sha256:{digest.short})")
