"""A real dockerd: what its images are, their files, and loading with layers left out."""

from __future__ import annotations

import gc
import signal
import socket as sockets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer.daemons import load_image
from composer.errors import InputError, IntegrityError, UnreachableError
from composer.oci.archivesource import ArchiveSource
from composer.oci.daemon import Daemon
from composer.oci.daemonfiles import LABEL, DaemonFiles, opened, sweep
from composer.oci.digest import sha256
from composer.oci.dockerarchive import docker_archive
from composer.oci.dockerhost import Endpoint
from composer.oci.filetree import Entry, PathError
from composer.oci.image import AddedLayer, Image, derive
from composer.oci.layer import Layer, encode_layer
from composer.oci.layout import Layout, reading
from composer.oci.manifest import Config, Descriptor, Manifest
from composer.oci.mediatype import OCI
from composer.progress import using
from tests.oci.support import CREATED, file, folder, image, store_layer
from tests.support.progress import Heard, Listener

from .conftest import BUSYBOX, CAPABILITY, GREETING


def readers(daemon: Daemon) -> int:
    return len(daemon.api.containers(all=True, filters={"label": LABEL}))


def test_identity(daemon: Daemon) -> None:
    image = daemon.image("tiny:v1")
    assert daemon.image(str(image.id)).diff_ids == image.diff_ids
    assert image.repo_tags == ("tiny:v1",)
    assert image.repo_digests == ()
    assert str(image.platform).startswith("linux/")
    assert not image.is_containerd
    config = daemon.config(image)
    assert config is not None
    assert config.digest == image.config_digest == image.id
    assert config.diff_ids == image.diff_ids
    assert len(image.diff_ids) == 1
    assert daemon.saved_config(image).raw == config.raw


def test_no_such_image(daemon: Daemon) -> None:
    with pytest.raises(InputError, match="has no image 'nope:v1'") as caught:
        daemon.image("nope:v1")
    assert "docker pull nope:v1" in caught.value.faults[0].fix


@pytest.fixture
def files(daemon: Daemon) -> Iterator[DaemonFiles]:
    with opened(daemon, daemon.image("tiny:v1")) as found:
        yield found
    assert readers(daemon) == 0


XATTRS = (("security.capability", CAPABILITY.decode("utf-8", "surrogateescape")),)
GREETS = Entry("f", 0o750, 1000, 100, 1234, len(GREETING), sha256(GREETING).hex, "", XATTRS)


def test_single_files(files: DaemonFiles) -> None:
    assert files.stat("opt/greeting") == GREETS
    assert files.stat("/bin/greeting") == GREETS  # links among the parents are followed
    assert files.read("opt/greeting") == GREETING
    assert files.read("opt/empty") == b""
    assert files.read("opt/busybox") == (
        BUSYBOX.read_bytes() if BUSYBOX.exists() else b"no busybox here"
    )
    assert files.stat("opt") == Entry("d", 0o755, mtime=1000)
    link = files.stat("opt/link")
    assert link is not None
    assert (link.kind, link.link) == ("l", "greeting")


def test_what_is_not_there(files: DaemonFiles) -> None:
    assert files.stat("opt/nope") is None
    assert files.stat("opt/greeting/below") is None
    for path in ("opt/nope", "opt", "opt/link"):
        with pytest.raises(PathError, match=f"/{path} is no regular file of tiny:v1"):
            files.read(path)
    with pytest.raises(PathError):
        files.stat("../etc")


def test_a_directory_is_sent_whole(files: DaemonFiles) -> None:
    table = files.table("opt")
    names = ["opt", "opt/busybox", "opt/empty", "opt/greeting", "opt/hard", "opt/link"]
    assert sorted(table.entries) == names
    pair = {table.entries[name].kind for name in ("opt/busybox", "opt/hard")}
    assert pair in ({"f", "h"}, {"f"})
    assert files.table("nope").entries == {}
    assert len(files.table("").entries) > len(names)


def test_the_container_goes_on_failure(daemon: Daemon) -> None:
    def fail() -> None:
        with opened(daemon, daemon.image("tiny:v1")):
            assert readers(daemon) == 1
            raise RuntimeError("in between")

    with pytest.raises(RuntimeError, match="in between"):
        fail()
    assert readers(daemon) == 0


def test_what_a_killed_process_left_is_swept(daemon: Daemon, endpoint: Endpoint) -> None:
    script = (
        "import os, signal\n"
        "from composer.oci.daemon import Daemon\n"
        "from composer.oci.daemonfiles import opened\n"
        "from composer.oci.dockerhost import Endpoint\n"
        f"daemon = Daemon.connect(Endpoint({endpoint.host!r}, ''))\n"
        "with opened(daemon, daemon.image('tiny:v1')):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    assert readers(daemon) == 1
    assert sweep(daemon) == 0  # it may be another's, and at work
    assert sweep(daemon, older=-60) == 1
    assert readers(daemon) == 0


def on_top_of(daemon: Daemon, content: bytes) -> tuple[Image, bytes]:
    """An image with one layer on that of `tiny:v1`, and the layer's bytes."""
    config = daemon.config(daemon.image("tiny:v1"))
    assert config is not None
    base = Manifest.make(
        OCI,
        config=config.descriptor(OCI),
        layer_documents=[Descriptor(OCI.layer, one, 10).document() for one in config.diff_ids],
    )
    stored = bytearray()
    layer: Layer = encode_layer([folder("opt"), file("opt/new", content)], stored.extend)
    return derive(Image(base, config), [AddedLayer(layer, "a test")], created=CREATED), bytes(
        stored
    )


def test_load_without_the_layers_it_has(daemon: Daemon) -> None:
    image, layer = on_top_of(daemon, b"new\n")
    diff_ids = image.config.diff_ids
    assert daemon.known_layers(diff_ids) == 1
    assert daemon.known_layers(diff_ids[1:]) == 0
    contents = {image.manifest.layers[1].digest: lambda: [layer]}
    archive = docker_archive(image.config, image.manifest.layers, contents, ["tiny:v2"])
    assert daemon.load(archive) == ("tiny:v2",)
    found = daemon.read_back("tiny:v2", diff_ids)
    assert found.id == image.config.digest
    assert daemon.known_layers(diff_ids) == 2
    with opened(daemon, found) as files:
        assert files.read("opt/new") == b"new\n"
        assert files.read("opt/greeting") == GREETING
    with pytest.raises(IntegrityError, match="not the one loaded"):
        daemon.read_back("tiny:v1", diff_ids)


def test_load_without_a_layer_it_lacks(daemon: Daemon) -> None:
    image, _ = on_top_of(daemon, b"never sent\n")
    archive = docker_archive(image.config, image.manifest.layers, {}, ["tiny:v3"])
    with pytest.raises(UnreachableError, match="did not load the image") as caught:
        daemon.load(archive)
    assert "load the whole image" in caught.value.faults[0].fix
    with pytest.raises(InputError, match="has no image"):
        daemon.image("tiny:v3")


def test_what_docker_saves_is_a_source(daemon: Daemon, tmp_path: Path) -> None:
    image = daemon.image("tiny:v1")
    path = tmp_path / "saved.tar"
    with path.open("wb") as out:
        for chunk in daemon.api.get_image("tiny:v1"):
            out.write(chunk)
    source = ArchiveSource(path, "tiny:v1")
    manifest = Manifest.parse(source.document(source.top()))
    config = Config.parse(source.document(manifest.config))
    assert config.diff_ids == image.diff_ids
    for layer, diff_id in zip(manifest.layers, config.diff_ids, strict=True):
        assert sha256(b"".join(source.chunks(layer))) == diff_id


def test_no_daemon(tmp_path: Path) -> None:
    where = Endpoint(f"unix://{tmp_path}/none.sock", "DOCKER_HOST")
    with pytest.raises(UnreachableError, match="cannot be used") as caught:
        Daemon.connect(where)
    (fault,) = caught.value.faults
    assert fault.where == f"unix://{tmp_path}/none.sock (from DOCKER_HOST)"
    assert "systemctl start docker" in fault.fix


def test_something_else_at_the_address() -> None:
    with sockets.socket() as other:
        other.bind(("127.0.0.1", 0))  # it does not listen
        where = Endpoint(f"tcp://127.0.0.1:{other.getsockname()[1]}", "DOCKER_HOST")
        with pytest.raises(UnreachableError, match="cannot be used"):
            Daemon.connect(where)


# The SDK leaves a socket open that it could not connect.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_daemon_that_goes_away(socket: Path, tmp_path: Path) -> None:
    link = tmp_path / "docker.sock"
    link.symlink_to(socket)
    daemon = Daemon.connect(Endpoint(f"unix://{link}", "a test"))
    daemon.close()
    link.unlink()
    with pytest.raises(UnreachableError, match="cannot be used"):
        daemon.known_layers([sha256(b"")])
    daemon.close()
    del daemon
    gc.collect()


def test_how_far_a_load_is_can_be_seen(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", endpoint.host)
    layout = Layout(tmp_path)
    layers = [store_layer(layout, [file("etc/progress", b"%d" % one)]) for one in range(2)]
    made = image(layers)
    listener = Listener()
    with using(listener):
        load_image(made, ["progress:v1"], lambda one: reading(layout.path(one.digest))())
        again = load_image(made, ["progress:v2"], lambda one: reading(layout.path(one.digest))())
    total = sum(one.size for one, _ in layers)
    assert listener.heard[0] == Heard("load progress:v1", total, total, True)
    left = sum(one.size for one, _ in layers[again.left_out :])
    assert listener.heard[1:] == [Heard("load progress:v2", left, left, True)]
