"""A docker-archive, as `docker load` takes it, with some of its layers left out.

dockerd opens a layer's file only when it does not know the layer's chain, so that an archive for
one daemon needs no more than what that one lacks (`Daemon.known_layers`). Layers may be
compressed. Archives for everyone are `archive`'s.
Sources: Docker image spec v1.2; moby, image/tarexport/load.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from .digest import Digest
from .filetree import regular
from .layer import Member, tar
from .manifest import Config, Descriptor, canonical_json

__all__ = ["docker_archive"]


def docker_archive(
    config: Config,
    layers: Sequence[Descriptor],
    contents: Mapping[Digest, Callable[[], Iterable[bytes]]],
    tags: Sequence[str],
) -> Iterator[bytes]:
    """Yield the archive; a layer whose digest is not in `contents` is named and left out.

    `tags` are references, such as `registry.example/app:v1`.

    Raises:
        ValueError: other numbers of layers and diff_ids, or content of another size.
    """
    if len(layers) != len(config.diff_ids):
        raise ValueError(f"{len(layers)} layers, and {len(config.diff_ids)} diff_ids")
    names = [f"{one.digest.hex}.tar" for one in layers]
    name = f"{config.digest.hex}.json"
    document = canonical_json([{"Config": name, "Layers": names, "RepoTags": sorted(tags)}])
    members = {
        name: Member(name, regular(config.size, config.digest.hex), config.raw),
        "manifest.json": Member("manifest.json", regular(len(document), ""), document),
    }
    for path, one in zip(names, layers, strict=True):
        if one.digest in contents:
            entry = regular(one.size, one.digest.hex)
            members[path] = Member(path, entry, contents[one.digest])
    return tar(members[path] for path in sorted(members))
