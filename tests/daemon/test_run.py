"""The derived image in a real Docker: loaded or pulled, run, and the patched file read inside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer.oci.daemon import Daemon
from composer.oci.dockerhost import Endpoint
from tests.support.commands import run, tool
from tests.support.distribution import running_registry
from tests.support.layouts import Files, write_layout
from tests.support.projects import CORE, SmallProject, digest_of

from .conftest import BUSYBOX

SITE = "usr/lib/python3.12/site-packages"
PATCHED = CORE.replace(b"line 3\n", b"changed\n").decode()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The `host:port` of a registry."""
    with running_registry(tmp_path_factory.mktemp("registry")) as netloc:
        yield netloc


@pytest.fixture
def project(tmp_path: Path, registry: str, endpoint: Endpoint, daemon: Daemon) -> SmallProject:
    """A project on a busybox image with the package `tiny`, which the registry has."""
    if not BUSYBOX.exists():
        pytest.skip("busybox is not installed (apt-get install busybox-static)")
    lower: Files = {
        "id": str(tmp_path).encode(),  # an image of its own for every test
        "bin/busybox": BUSYBOX.read_bytes(),
        "bin/cat": "busybox",
        "usr": None,
        f"{SITE}/tiny/core.py": b"older\n",
        f"{SITE}/tiny/__pycache__/core.cpython-312.pyc": b"stale",
    }
    write_layout(tmp_path / "base", [lower, {f"{SITE}/tiny/core.py": CORE}])
    image = f"{registry}/base-{tmp_path.name.replace('_', '-').lower()}:v1"
    copy = [tool("skopeo"), "copy", "-q", "--dest-tls-verify=false"]
    run([*copy, f"oci:{tmp_path / 'base'}:v1", f"docker://{image}"], cwd=tmp_path)
    made = SmallProject(
        tmp_path,
        bases={"tiny": {"image": image}},
        images={"app": {"base": "tiny", "modules": ["first"], "repository": f"{registry}/derived"}},
        env={"DOCKER_HOST": endpoint.host},
    ).write()
    made.patch("first", {3: "changed"})
    return made


def _docker(project: SmallProject, *arguments: str) -> str:
    env = {**os.environ, "DOCKER_HOST": project.env["DOCKER_HOST"]}
    return run([tool("docker"), *arguments], cwd=project.root, env=env).out


def _cat(project: SmallProject, image: str, path: str) -> str:
    return _docker(project, "run", "--rm", "--network", "none", image, "cat", path)


def test_a_loaded_image_runs(project: SmallProject) -> None:
    first = project.compose("load", "app", "--json").json
    assert first["left_out"] == 0
    assert _cat(project, first["name"], f"/{SITE}/tiny/core.py") == PATCHED
    overlay = json.loads(_cat(project, first["name"], "/usr/share/compose/overlay.json"))
    assert overlay["modules"][0]["changes"][0]["post"] == digest_of(PATCHED.encode())
    assert project.compose("load", "app", "--json").json["left_out"] == 4
    project.patch("first", {3: "again"})
    edited = project.compose("load", "app", "--json").json
    # The base's two layers are there; the module's and overlay.json are new.
    assert edited["left_out"] == 2
    assert edited["id"] != first["id"]
    assert "again" in _cat(project, edited["name"], f"/{SITE}/tiny/core.py")


def test_a_pushed_image_is_pulled_by_its_digest_and_runs(project: SmallProject) -> None:
    pushed = project.compose("push", "app", "--json").json
    assert pushed["blobs"]["mounted"] == 2
    _docker(
        project, "pull", "-q", pushed["reference"].partition(":inputs")[0] + "@" + pushed["digest"]
    )
    image = f"{pushed['reference'].partition(':inputs')[0]}@{pushed['digest']}"
    assert _cat(project, image, f"/{SITE}/tiny/core.py") == PATCHED
    config = json.loads(_docker(project, "image", "inspect", image))[0]
    assert config["Id"] == pushed["platforms"][0]["config"]
    listing = _docker(
        project, "run", "--rm", image, "/bin/busybox", "ls", f"/{SITE}/tiny/__pycache__"
    )
    assert listing == ""


def test_a_base_of_the_daemon_is_the_one_of_its_registry(project: SmallProject) -> None:
    of_registry = project.build()
    image = project.bases["tiny"]["image"]
    _docker(project, "pull", "-q", image)
    project.bases["tiny"]["image"] = f"docker-daemon:{image}"
    project.write()
    of_daemon = project.build()
    assert of_daemon["platforms"][0]["layers"] == of_registry["platforms"][0]["layers"]
    lock = (project.root / "lock/app.lock").read_text()
    assert f'image = "docker-daemon:{image}"' in lock
    assert f'reference = "{image.rpartition(":")[0]}@sha256:' in lock
    # The lock knows where the base is for everyone: no daemon is asked again.
    elsewhere = {"COMPOSE_STORE": str(project.folder / "b"), "DOCKER_HOST": "unix:///nowhere"}
    assert project.build("app", "--locked", **elsewhere)["digest"] == of_daemon["digest"]


def test_a_base_that_only_the_daemon_has(project: SmallProject) -> None:
    of_registry = project.build()
    archive = project.folder / "base.tar"
    copy = [tool("skopeo"), "copy", "-q", f"oci:{project.folder / 'base'}:v1"]
    run([*copy, f"docker-archive:{archive}:only:here"], cwd=project.folder)
    _docker(project, "load", "-q", "-i", str(archive))
    project.bases["tiny"] = {"image": "docker-daemon:only:here", "package_root": f"/{SITE}"}
    project.write()
    loaded = project.compose("load", "app", "--json").json
    assert loaded["left_out"] >= 2  # the base, and what another test may have loaded
    assert _cat(project, loaded["name"], f"/{SITE}/tiny/core.py") == PATCHED
    answer = project.build("app", "--locked")
    ours = [one["diff_id"] for one in of_registry["platforms"][0]["layers"]]
    assert [one["diff_id"] for one in answer["platforms"][0]["layers"]] == ours
    assert _docker(project, "ps", "-aq", "--filter", "label=dev.compose.reader") == ""
    refused = project.compose("push", "app", ok=False)
    assert refused.code == 2
    assert "the base is in a Docker daemon only: --export-base" in refused.err
    pushed = project.compose("push", "app", "--export-base", "--tag", "exported", "--json").json
    name, _, _ = pushed["reference"].rpartition("@")
    _docker(project, "pull", "-q", name)
    assert _cat(project, name, f"/{SITE}/tiny/core.py") == PATCHED
    assert list(project.store.glob("ingest/*")) == []


def test_a_daemon_is_not_searched_for_the_package_root(project: SmallProject) -> None:
    project.bases["tiny"]["image"] = "docker-daemon:tiny:v1"
    project.write()
    done = project.compose("build", "app", ok=False)
    assert done.code == 2
    assert "name it in the base: package_root = ..." in done.err


def test_what_docker_saves_gives_the_same_layers(project: SmallProject) -> None:
    of_registry = project.build()
    image = project.bases["tiny"]["image"]
    _docker(project, "pull", "-q", image)
    _docker(project, "save", image, "-o", str(project.root / "base.tar"))
    project.bases["tiny"]["image"] = "archive:base.tar"
    project.write()
    of_archive = project.build("app", "--output", str(project.folder / "app.tar"))
    assert of_archive["platforms"][0]["layers"] == of_registry["platforms"][0]["layers"]
    loaded = _docker(project, "load", "-q", "-i", str(project.folder / "app.tar"))
    assert "Loaded image: app:latest" in loaded
    assert _cat(project, "app:latest", f"/{SITE}/tiny/core.py") == PATCHED


def test_no_daemon_to_load_into(project: SmallProject) -> None:
    done = project.compose("load", "app", ok=False, DOCKER_HOST="unix:///nowhere/docker.sock")
    assert done.code == 3
    assert "the Docker daemon cannot be used" in done.err
