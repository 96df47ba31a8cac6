"""Single files of an image in a Docker daemon, without its layers.

The archive API reads files of a container that exists; it need not run, and this one never does.
It is removed when the block ends. What a killed process leaves behind has a label, and is swept
away by the next one.

What the API cannot do: list a directory without sending all that is below it (`table`), and tell
an image's own /etc/hosts, /etc/hostname, /etc/resolv.conf, /etc/mtab, /dev, /proc, /sys and
/.dockerenv from those that dockerd puts into every container. Volumes of the image are copies.
"""

from __future__ import annotations

import contextlib
import posixpath
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError, IntegrityError, UnreachableError
from .daemon import Daemon, DaemonImage, daemon_errors
from .filetree import Entry, LayerTable, PathError, normalise
from .tarread import TarReader
from .tartext import TarFormatError, TarRefusedError

if TYPE_CHECKING:
    from requests import Response

__all__ = ["LABEL", "DaemonFiles", "opened", "sweep"]

LABEL = "dev.compose.reader"
_ABANDONED = 3600  # seconds after which a reader's container has lost its process
_TIMEOUT = 600  # seconds of silence
_CHUNK = 256 * 1024
_ROOM = 64 * 1024 * 1024  # bytes of a file that is read in one piece


@contextlib.contextmanager
def opened(daemon: Daemon, image: DaemonImage) -> Iterator[DaemonFiles]:
    """Make a container of the image that is never started, and remove it again.

    Raises:
        UnreachableError: the daemon does not answer, or refuses.
    """
    sweep(daemon)
    with daemon_errors(daemon.endpoint):
        made = daemon.api.create_container(
            str(image.id),
            command=["/never-started"],  # an image may have none of its own
            labels={LABEL: "remove me"},
            network_disabled=True,
        )
    try:
        yield DaemonFiles(daemon, image, made["Id"])
    finally:
        _remove(daemon, made["Id"])


def sweep(daemon: Daemon, *, older: float = _ABANDONED) -> int:
    """Remove containers of readers that were killed more than `older` seconds ago; how many.

    Raises:
        UnreachableError: the daemon does not answer.
    """
    with daemon_errors(daemon.endpoint):
        found = daemon.api.containers(all=True, filters={"label": LABEL, "status": "created"})
    left = [one["Id"] for one in found if time.time() - one["Created"] >= older]
    for one in left:
        _remove(daemon, one)
    return len(left)


def _remove(daemon: Daemon, container: str) -> None:
    from docker.errors import NotFound  # noqa: PLC0415

    # Its anonymous volumes too (v), which an image with VOLUME makes.
    with daemon_errors(daemon.endpoint), contextlib.suppress(NotFound):
        daemon.api.remove_container(container, v=True, force=True)


@dataclass(frozen=True, slots=True)
class DaemonFiles:
    """The files of an image, by paths in which no link is followed at the end."""

    daemon: Daemon
    image: DaemonImage
    container: str

    def stat(self, path: str) -> Entry | None:
        """Return what is at `path` itself; a regular file is read to hash it.

        Raises:
            PathError: a path that leaves the root. UnreachableError: the daemon does not answer.
        """
        with self._reading(path) as reader:
            return next((entry for _, entry in reader.members()), None) if reader else None

    def read(self, path: str) -> bytes:
        """Return the content of the regular file at `path`.

        Raises:
            PathError: there is no regular file. UnreachableError: the daemon does not answer.
        """
        with self._reading(path, room=_ROOM) as reader:
            if reader is not None:
                next(reader.members(), None)
            if reader is None or not reader.kept:
                raise PathError(f"/{normalise(path)} is no regular file of {self.image.name}")
            return reader.kept[0][1]

    def table(self, path: str) -> LayerTable:
        """Return everything at and below `path`, all of which is sent and hashed.

        Raises:
            PathError: a path that leaves the root. UnreachableError: the daemon does not answer.
        """
        parent = posixpath.dirname(normalise(path))
        with self._reading(path) as reader:
            return LayerTable.of(_below(parent, reader) if reader else ())

    @contextlib.contextmanager
    def _reading(self, path: str, room: int = 0) -> Iterator[TarReader | None]:
        """Ask for an archive of `path`; None where nothing is."""
        wanted = (lambda _path, _entry: True) if room else None
        with daemon_errors(self.daemon.endpoint), contextlib.closing(self._get(path)) as response:
            if response.status_code == 404:
                yield None
                return
            self._check(response, path)
            with self._archive_errors(path):
                yield TarReader(response.iter_content(_CHUNK), wanted, room)

    def _get(self, path: str) -> Response:
        api = self.daemon.api
        url = f"{api.base_url}/v{api.api_version}/containers/{self.container}/archive"
        response: Any = api.get(
            url, params={"path": f"/{normalise(path)}"}, stream=True, timeout=_TIMEOUT
        )
        if response.status_code == 500 and "not a directory" in response.text:
            response.status_code = 404  # a file among the parents: dockerd calls that its own fault
        return response  # type: ignore[no-any-return]

    def _check(self, response: Response, path: str) -> None:
        if response.status_code != 200:
            raise UnreachableError.of(
                f"the Docker daemon does not give /{normalise(path)}",
                where=self.daemon.endpoint.host,
                found=f"{response.status_code}: {response.text.strip()[:500]}",
                fix="remove what is broken (docker ps -a), and run it again",
            )

    @contextlib.contextmanager
    def _archive_errors(self, path: str) -> Iterator[None]:
        where = f"{self.daemon.endpoint.host}: {self.image.name}, /{normalise(path)}"
        try:
            yield
        except TarFormatError as error:
            raise IntegrityError.of(
                "the Docker daemon sent a broken archive", where=where, found=str(error)
            ) from error
        except TarRefusedError as error:
            raise InputError.of(
                "a file of the image cannot be read",
                where=where,
                expected=error.expected,
                found=str(error),
            ) from error


def _below(parent: str, reader: TarReader) -> Iterator[tuple[str, Entry]]:
    for name, entry in reader.members():
        link = posixpath.join(parent, entry.link) if entry.kind == "h" else entry.link
        yield posixpath.join(parent, name), entry._replace(link=link)
