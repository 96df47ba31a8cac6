"""Images in a Docker daemon: `docker-daemon:NAME`; what they are, and loading more of them.

A daemon keeps layers unpacked. It knows an image's config and diff_ids; the compressed layers
that a registry has are gone. Two kinds of stores differ in what an image's ID is: the config's
digest in a graph driver's, the manifest's in containerd's. Reading files out of an image is left
to `daemonfiles`. The docker SDK is imported when a daemon is first asked.
Sources: Docker Engine API v1.41; moby, image/tarexport/load.go.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, IntegrityError, UnreachableError
from .digest import Digest, sha256
from .dockerhost import Endpoint
from .dockerhost import endpoint as endpoint_of
from .filetree import Entry
from .manifest import DOCUMENT_LIMIT, Config
from .platform import Platform
from .tarread import TarReader

if TYPE_CHECKING:
    from docker import APIClient

__all__ = ["Daemon", "DaemonImage", "connect", "daemon_errors"]

_CONNECT = 10  # seconds to answer at all
_ANSWER = 900  # seconds of silence: a daemon is quiet while it unpacks a large layer
_CONTAINERD = ["driver-type", "io.containerd.snapshotter.v1"]


@dataclass(frozen=True, slots=True)
class DaemonImage:
    """What a daemon says of an image. `id`: the config's digest, or with containerd another.

    `repo_digests` are `repository@digest` of the manifests it was pulled or pushed with.
    `runtime`: the config's `config` object as the daemon shows it.
    """

    name: str
    id: Digest
    diff_ids: tuple[Digest, ...]
    repo_digests: tuple[str, ...]
    repo_tags: tuple[str, ...]
    platform: Platform
    created: str
    is_containerd: bool
    runtime: Mapping[str, Any] = field(repr=False, hash=False)

    @property
    def config_digest(self) -> Digest | None:
        """The digest of the config's bytes; None where the daemon does not tell."""
        return None if self.is_containerd else self.id


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that has answered. `root`: its directory, on its own machine."""

    api: APIClient
    endpoint: Endpoint
    is_containerd: bool
    driver: str
    root: str

    @classmethod
    def connect(cls, endpoint: Endpoint) -> Daemon:
        """Reach the daemon.

        Raises:
            UnreachableError: it does not answer, or the SDK cannot speak to such an address.
        """
        if endpoint.is_local:
            _probe(endpoint)
        with daemon_errors(endpoint):
            api = _client(endpoint)
            info = api.info()
        status = [list(pair) for pair in info.get("DriverStatus") or ()]
        return cls(
            api,
            endpoint,
            _CONTAINERD in status,
            str(info.get("Driver")),
            str(info.get("DockerRootDir")),
        )

    def close(self) -> None:
        """Let go of the connection."""
        self.api.close()

    def version(self) -> Mapping[str, Any]:
        """Return what the daemon says of its version and machine.

        Raises:
            UnreachableError: it does not answer.
        """
        with daemon_errors(self.endpoint):
            said: Mapping[str, Any] = self.api.version()
        return said

    def image(self, name: str) -> DaemonImage:
        """Return what the daemon says of the image with a name or ID.

        Raises:
            InputError: it has no such image. UnreachableError: it does not answer.
        """
        from docker.errors import ImageNotFound  # noqa: PLC0415

        with daemon_errors(self.endpoint):
            try:
                said = self.api.inspect_image(name)
            except ImageNotFound as error:
                raise InputError.of(
                    f"the Docker daemon has no image {name!r}",
                    where=self.endpoint.host,
                    fix=f"docker pull {name}, or name the base by its registry",
                ) from error
        return self._image(name, said)

    def _image(self, name: str, said: Mapping[str, Any]) -> DaemonImage:
        platform = {key.lower(): said.get(key) for key in ("Os", "Architecture", "Variant")}
        return DaemonImage(
            name,
            Digest.parse(said["Id"]),
            tuple(map(Digest.parse, (said.get("RootFS") or {}).get("Layers") or ())),
            tuple(sorted(said.get("RepoDigests") or ())),
            tuple(sorted(said.get("RepoTags") or ())),
            Platform.of(platform),
            said.get("Created") or "",
            self.is_containerd,
            said.get("Config") or {},
        )

    def config(self, image: DaemonImage) -> Config | None:
        """Return the image's config, its bytes being those of its digest, where it is cheap.

        The API does not give these bytes. A daemon of this machine, with a graph driver, keeps
        them in a file, which root may read.
        """
        if image.is_containerd or not self.endpoint.is_local:
            return None
        store = Path(self.root) / "image" / self.driver / "imagedb" / "content"
        try:
            raw = (store / image.id.algorithm / image.id.hex).read_bytes()
        except OSError:
            return None
        return _config(raw, image)

    def saved_config(self, image: DaemonImage) -> Config:
        """Return the same out of what `docker save` gives, for which the daemon writes all layers.

        Raises:
            IntegrityError: it is not there. UnreachableError: the daemon does not answer.
        """
        for raw in _small_files(self.save(image)):
            if config := _config(raw, image):
                return config
        raise IntegrityError.of(
            "docker save gave no config of the image",
            where=self.endpoint.host,
            expected=f"a config with the diff_ids of {image.name}",
        )

    def save(self, image: DaemonImage) -> Iterator[bytes]:
        """Yield what `docker save` gives: all layers, not compressed.

        Raises:
            UnreachableError: the daemon does not answer.
        """
        url = f"{self.api.base_url}/v{self.api.api_version}/images/{image.name}/get"
        with daemon_errors(self.endpoint), self._streamed(url) as response:
            response.raise_for_status()
            yield from response.iter_content(1024 * 1024)

    def _streamed(self, url: str) -> contextlib.closing[Any]:
        return contextlib.closing(self.api.get(url, stream=True, timeout=_ANSWER))

    def known_layers(self, diff_ids: Sequence[Digest]) -> int:
        """Return how many of these layers, from the first, a docker-archive may leave out.

        dockerd looks up each layer by its chain, which is all diff_ids up to it, before it opens
        the layer's file; so whatever an image of its own begins with is not read. That holds for
        graph drivers. containerd's store unpacks what the archive has, and misses the rest.
        """
        if self.is_containerd:
            return 0
        with daemon_errors(self.endpoint):
            ids = self.api.images(quiet=True, all=True)
            return max((self._shared(one, diff_ids) for one in sorted(set(ids))), default=0)

    def _shared(self, name: str, diff_ids: Sequence[Digest]) -> int:
        try:
            held = self.image(name).diff_ids
        except InputError:
            return 0  # removed since it was listed
        pairs = enumerate(zip(held, diff_ids, strict=False))
        shared = min(len(held), len(diff_ids))
        return next((number for number, (one, other) in pairs if one != other), shared)

    def load(self, chunks: Iterable[bytes]) -> tuple[str, ...]:
        """Load an archive and return the names, or IDs, that the daemon says it loaded.

        Raises:
            UnreachableError: the daemon does not answer, or does not take it.
        """
        names = []
        with daemon_errors(self.endpoint):
            for said in self.api.load_image(iter(chunks), quiet=True):
                if "error" in said:
                    raise UnreachableError.of(
                        "the Docker daemon did not load the image",
                        where=self.endpoint.host,
                        found=str(said["error"]).strip(),
                        fix="run it again; if it lacks a layer, load the whole image",
                    )
                _, loaded, name = said.get("stream", "").partition("Loaded image")
                if loaded:
                    names.append(name.partition(": ")[2].strip())
        return tuple(names)

    def read_back(self, name: str, diff_ids: Sequence[Digest]) -> DaemonImage:
        """Return the image `name`, which must be of these layers.

        Raises:
            IntegrityError: it is another. InputError: there is none.
        """
        image = self.image(name)
        if image.diff_ids != tuple(diff_ids):
            raise IntegrityError.of(
                f"the image {name!r} in the daemon is not the one loaded",
                where=self.endpoint.host,
                expected=", ".join(one.short for one in diff_ids),
                found=", ".join(one.short for one in image.diff_ids),
                fix="load it again, with all layers",
            )
        return image


def connect() -> Daemon:
    """Reach the daemon that DOCKER_HOST, or the docker context in use, names.

    Raises:
        UnreachableError: it does not answer.
    """
    return Daemon.connect(endpoint_of(os.environ, Path.home()))


def _probe(endpoint: Endpoint) -> None:
    """Connect once, before the SDK is loaded, which takes longer and leaves a socket open."""
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(_CONNECT)
            one.connect(endpoint.host.removeprefix("unix://"))
    except OSError as error:
        raise _unreachable(endpoint, error) from error


def _client(endpoint: Endpoint) -> APIClient:
    from docker import APIClient  # noqa: PLC0415
    from docker.errors import DockerException  # noqa: PLC0415
    from docker.tls import TLSConfig  # noqa: PLC0415

    tls: Any = False
    if endpoint.tls is not None:
        pair = (str(endpoint.tls / "cert.pem"), str(endpoint.tls / "key.pem"))
        tls = TLSConfig(
            client_cert=pair if Path(pair[0]).exists() else None,
            ca_cert=str(endpoint.tls / "ca.pem"),
            verify=endpoint.verify,
        )
    try:
        api = APIClient(
            base_url=endpoint.host,
            version="auto",
            timeout=_CONNECT,
            tls=tls,
            use_ssh_client=endpoint.host.startswith("ssh://"),
        )
    except NameError as error:  # how the SDK says that it lacks paramiko
        raise DockerException("the docker SDK cannot speak ssh here") from error
    api.timeout = _ANSWER
    return api


@contextlib.contextmanager
def daemon_errors(endpoint: Endpoint) -> Iterator[None]:
    """Turn what the SDK raises into an error that says which daemon, and what to do."""
    import requests  # noqa: PLC0415 (comes with the SDK)
    from docker.errors import DockerException  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    try:
        yield
    except (DockerException, requests.RequestException, HTTPError, OSError) as error:
        raise _unreachable(endpoint, error) from error


def _unreachable(endpoint: Endpoint, error: Exception) -> UnreachableError:
    return UnreachableError.of(
        "the Docker daemon cannot be used",
        where=f"{endpoint.host} (from {endpoint.said_by})",
        found=str(error) or type(error).__name__,
        fix=_advice(endpoint, error),
    )


def _advice(endpoint: Endpoint, error: Exception) -> str:
    if isinstance(error.__cause__, NameError):
        return "install what the docker SDK needs for ssh: pip install 'docker[ssh]'"
    if endpoint.host.startswith("ssh://"):
        return f"check that this works: docker -H {endpoint.host} version"
    if "Permission denied" in str(error):
        return "join the docker group (newgrp docker), or run as root"
    return "start it (systemctl start docker), or point DOCKER_HOST or the context at another"


def _small_files(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the content of every file of an archive that may be a document."""

    def small(_: str, entry: Entry) -> bool:
        return entry.size <= DOCUMENT_LIMIT

    reader = TarReader(chunks, small, DOCUMENT_LIMIT)
    for _ in reader.members():
        for _, data in reader.kept:
            yield data
        reader.kept.clear()
        reader.room = DOCUMENT_LIMIT


def _config(raw: bytes, image: DaemonImage) -> Config | None:
    """Return `raw` as the image's config, if it is that."""
    with contextlib.suppress(ValueError):
        config = Config.parse(raw)
        expected = image.config_digest or sha256(raw)
        if config.diff_ids == image.diff_ids and config.digest == expected:
            return config
    return None
