"""The `inputs` digest: what decides an image's bytes, as a document written by hand.

The document is versioned and names each input; a dump of some model would change whenever the
model does. What does not reach the image (READMEs, markers, effect scripts, destinations,
comments in a patch) is not in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .oci.digest import Digest, sha256
from .oci.manifest import canonical_json

if TYPE_CHECKING:
    from .module import Module
    from .spec import BaseSpec

__all__ = ["FORMAT", "cache_suffix", "content", "inputs", "platform_inputs", "source"]

# The version of the byte format of everything we write: layers, configs, manifests.
FORMAT = 1


class _Change(Protocol):
    @property
    def module(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def pre(self) -> Digest | None: ...
    @property
    def post(self) -> Digest | None: ...


def platform_inputs(
    *,
    base: Digest,
    base_name: str,
    epoch: int,
    modules: Sequence[str],
    changes: Iterable[_Change],
) -> dict[str, Any]:
    """Return what decides one platform's files: its base and what each module leaves on it."""
    return {
        "base": str(base),
        "base_name": base_name,
        "epoch": epoch,
        "modules": list(modules),
        "changes": [
            [one.module, one.kind, one.target, one.path, str(one.pre or ""), str(one.post or "")]
            for one in changes
        ],
    }


def inputs(
    *,
    platforms: Mapping[str, Mapping[str, Any]],
    knobs: Sequence[tuple[str, str, Sequence[str], str]],
    config: Mapping[str, Any],
) -> Digest:
    """Return the digest of an image's inputs.

    platforms: platform -> `platform_inputs`. knobs: (module, name, values, value in force).
    config: env, labels, entrypoint, cmd, workdir and cache_namespace as declared.
    """
    document = {
        "compose-inputs": 1,
        "format": FORMAT,
        "platforms": dict(platforms),
        "knobs": [[module, name, list(values), value] for module, name, values, value in knobs],
        "config": dict(config),
    }
    return sha256(canonical_json(document))


def content(module: Module) -> Digest:
    """Return the digest of what a module says and brings, on whatever base."""
    document = {
        "compose-module": 1,
        "name": module.name,
        "requires": list(module.requires),
        "changes": sorted(
            [
                one.kind,
                one.target,
                hashlib.sha256(one.data).hexdigest(),
                sorted(str(preimage) for preimage in one.preimages),
            ]
            for one in module.changes
        ),
        "reads": sorted(
            [one.target, sorted(str(preimage) for preimage in one.preimages)]
            for one in module.reads
        ),
        "knobs": [[one.name, list(one.values), one.default] for one in module.knobs],
    }
    return sha256(canonical_json(document))


def source(
    *,
    base: BaseSpec,
    pins: Iterable[tuple[str, str]],
    epoch: int | None,
    modules: Iterable[Module],
    knobs: Mapping[str, str],
    config: Mapping[str, Any],
) -> Digest:
    """Return the digest of everything a lock is resolved from: equal means nothing to resolve.

    pins: (platform, digest) of what the base is pinned to, in order.
    """
    document = {
        "compose-source": 1,
        "format": FORMAT,
        "base": {
            "image": base.image or "",
            "wheels": list(base.wheels),
            "platforms": list(base.platforms),
            "python": base.python or "",
            "package_root": base.package_root or "",
            "interpreter": base.interpreter or "",
            "glibc": base.glibc or "",
        },
        "pins": [list(pin) for pin in pins],
        "epoch": epoch,
        "modules": [str(content(module)) for module in modules],
        "knobs": dict(knobs),
        "config": dict(config),
    }
    return sha256(canonical_json(document))


def cache_suffix(diff_ids: Iterable[Digest], changes: Iterable[_Change]) -> str:
    """Return the name of a compile cache that only an image of the same code may use."""
    last = {one.path: str(one.post or "") for one in changes}
    document = {
        "compose-cache": 1,
        "base": [str(one) for one in diff_ids],
        "files": sorted([path, post] for path, post in last.items()),
    }
    return f"compose-{sha256(canonical_json(document)).short}"
