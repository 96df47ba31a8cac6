"""What these tests share: a registry with a base in it, and projects on that base."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.baseimages import BaseImage, image_base, upload
from tests.support.commands import run, tool
from tests.support.distribution import running_registry
from tests.support.projects import SmallProject
from tests.support.tap import Tap

PLATFORMS = ["linux/amd64", "linux/arm64"]


@dataclass(frozen=True, slots=True)
class Place:
    """A registry behind a tap. `data`: the directory of its storage."""

    tap: Tap
    data: Path

    @property
    def netloc(self) -> str:
        """`host:port` of the tap."""
        return self.tap.netloc

    def blob(self, digest: str) -> Path:
        """Return the file of a blob in the registry's storage."""
        encoded = digest.removeprefix("sha256:")
        return self.data / f"docker/registry/v2/blobs/sha256/{encoded[:2]}/{encoded}/data"

    def raw(self, name: str) -> bytes:
        """Return the manifest or index that skopeo finds under a name."""
        command = [tool("skopeo"), "inspect", "--raw", "--tls-verify=false", f"docker://{name}"]
        return run(command, cwd=self.data).out.encode()

    def has(self, name: str) -> bool:
        """Tell whether skopeo finds a name."""
        command = [tool("skopeo"), "inspect", "--raw", "--tls-verify=false", f"docker://{name}"]
        return run(command, cwd=self.data, ok=False).code == 0


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BaseImage]:
    """The base of two platforms, in both families."""
    folder = tmp_path_factory.mktemp("layers")
    return {family: image_base(folder / family, family) for family in ("oci", "docker")}


def fill(netloc: str, images: dict[str, BaseImage], folder: Path) -> None:
    """Put the bases into a registry, the OCI one with skopeo."""
    layout = images["oci"].layout(folder / "layout")
    copy = [tool("skopeo"), "copy", "-q", "--all", "--preserve-digests", "--dest-tls-verify=false"]
    run([*copy, f"oci:{layout}:v1", f"docker://{netloc}/base/oci:v1"], cwd=folder)
    upload(images["docker"], netloc, "base/docker", "v1")


@pytest.fixture(scope="session")
def shared_place(
    tmp_path_factory: pytest.TempPathFactory, images: dict[str, BaseImage]
) -> Iterator[Place]:
    """A registry that no test damages; each pushes to a repository of its own."""
    folder = tmp_path_factory.mktemp("registry")
    with running_registry(folder) as netloc, Tap(netloc).running() as tap:
        fill(netloc, images, folder)
        yield Place(tap, folder / "data")


@pytest.fixture
def place(shared_place: Place) -> Place:
    """The shared registry, with nothing counted yet."""
    shared_place.tap.clear()
    return shared_place


@pytest.fixture
def own_place(tmp_path: Path, images: dict[str, BaseImage]) -> Iterator[Place]:
    """A registry that the test may damage or stop."""
    folder = tmp_path / "registry"
    folder.mkdir()
    with running_registry(folder) as netloc, Tap(netloc).running() as tap:
        fill(netloc, images, folder)
        yield Place(tap, folder / "data")


@pytest.fixture
def on(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., SmallProject]:
    """Return a function that makes a project on an image; `base`: more keys of the base."""
    made = 0

    def make(image: str, **base: Any) -> SmallProject:
        nonlocal made
        made += 1
        spec = {"image": image, **base}
        name = request.node.name.partition("[")[0].replace("_", "-")
        app = {"base": "tiny", "modules": ["first"]}
        if "/base/" in image:
            host = image.removeprefix("docker://").partition("/")[0]
            app["repository"] = f"{host}/{name}/app"
        project = SmallProject(
            tmp_path / f"on-{made}", bases={"tiny": spec}, images={"app": app}
        ).write()
        project.patch("first", {3: "changed"})
        return project

    return make
