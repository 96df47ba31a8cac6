"""Images for the Docker daemon of this user."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .oci.daemon import DaemonImage, connect
from .oci.dockerarchive import docker_archive
from .oci.image import Image
from .oci.layout import replacing
from .oci.manifest import Descriptor
from .progress import transfer, watched

__all__ = ["Loaded", "load_image", "save_image"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """An image in a daemon. left_out: how many layers were not sent, because it had them."""

    image: DaemonImage
    left_out: int


def save_image(name: str, path: Path) -> None:
    """Write `docker save` of the daemon's image `name` to a file.

    Raises:
        InputError: the daemon has no such image. UnreachableError: it does not answer, or the
            file cannot be written.
    """
    daemon = connect()
    with replacing(path) as file:
        for chunk in daemon.save(daemon.image(name)):
            file.write(chunk)


def load_image(
    image: Image, tags: Iterable[str], content: Callable[[Descriptor], Iterable[bytes]]
) -> Loaded:
    """Load an image into the daemon, without the layers that it has; read it back.

    Raises:
        UnreachableError: the daemon does not answer, or does not take it.
        IntegrityError: what it has then is another image.
    """
    daemon = connect()
    names = list(tags)
    known = daemon.known_layers(image.config.diff_ids)
    layers = image.manifest.layers
    total = sum(one.size for one in layers[known:])
    with transfer(f"load {names[0]}", total) as advance:
        contents = {one.digest: _asked(content, one, advance) for one in layers[known:]}
        daemon.load(docker_archive(image.config, layers, contents, names))
    return Loaded(daemon.read_back(names[0], image.config.diff_ids), min(known, len(layers)))


def _asked(
    content: Callable[[Descriptor], Iterable[bytes]],
    descriptor: Descriptor,
    advance: Callable[[int], None],
) -> Callable[[], Iterable[bytes]]:
    return lambda: watched(content(descriptor), advance)
