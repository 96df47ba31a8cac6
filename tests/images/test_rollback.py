"""`compose rollback` against a real registry that lost what is to be gone back to."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable

import pytest
import yaml

from tests.support.commands import run, tool
from tests.support.projects import SmallProject, digest_of

from .conftest import Place

Make = Callable[..., SmallProject]
DEPLOY = """
[deploy.prod]
file = "compose.yaml"
kind = "compose"
at = "services.vllm.image"
"""


def image_of(project: SmallProject) -> str:
    text = (project.root / "compose.yaml").read_text()
    return str(yaml.safe_load(text)["services"]["vllm"]["image"])


@pytest.fixture(params=["oci", "docker"])
def project(own_place: Place, on: Make, request: pytest.FixtureRequest) -> SmallProject:
    """A project whose releases v1 and v2 were pushed and pinned."""
    project = on(f"{own_place.netloc}/base/{request.param}:v1")
    images = project.root / "images.toml"
    images.write_text(images.read_text() + DEPLOY)
    (project.root / "compose.yaml").write_text("services: {vllm: {image: 'old:1'}}\n")
    for number in (1, 2):
        project.patch("first", {3: f"release {number}"})
        project.compose("build", "app", "--release", f"v{number}", "--allow-dirty")
        project.compose("push", f"v{number}")
        project.compose("pin", "prod", f"v{number}")
    return project


def collect(place: Place, project: SmallProject, release: str) -> None:
    """Take a release's tag and manifests away and let the registry collect their blobs.

    Not `garbage-collect -m`, which also takes what the indexes of others name.
    """
    repository = image_of(project).partition("/")[2].partition(":")[0]
    manifests = place.data / f"docker/registry/v2/repositories/{repository}/_manifests"
    shutil.rmtree(manifests / "tags" / release)
    text = (project.root / f"lock/releases/{release}.toml").read_text()
    result = tomllib.loads(text)["result"]
    for digest in {result["digest"], *(one["manifest"] for one in result["platforms"])}:
        shutil.rmtree(manifests / "revisions/sha256" / digest.removeprefix("sha256:"))
    config = place.data.parent / "config.yml"
    run([tool("docker-registry"), "garbage-collect", str(config)], cwd=place.data)
    assert not place.blob(result["platforms"][0]["config"]).exists()


def test_the_same_digest_after_a_collection(project: SmallProject, own_place: Place) -> None:
    name = image_of(project).replace(":v2@", ":v1@").partition("@")[0]
    digest = digest_of(own_place.raw(name))
    collect(own_place, project, "v1")
    assert not own_place.has(name)
    done = project.compose("rollback", "prod")
    assert "the store has it" in done.err
    assert "pushed again" in done.err
    assert image_of(project) == f"{name}@{digest}"
    assert digest_of(own_place.raw(name)) == digest
    copy = [tool("skopeo"), "copy", "-q", "--all", "--preserve-digests", "--src-tls-verify=false"]
    run([*copy, f"docker://{name}", f"dir:{project.folder / 'out'}"], cwd=project.folder)


def test_a_dry_run_pushes_nothing(project: SmallProject, own_place: Place) -> None:
    name = image_of(project).replace(":v2@", ":v1@").partition("@")[0]
    collect(own_place, project, "v1")
    before = image_of(project)
    answer = project.compose("rollback", "prod", "--dry-run", "--json").json
    assert (answer["pushed"], answer["dry_run"]) == (True, True)
    assert image_of(project) == before
    assert not own_place.has(name)


def test_a_tag_that_is_another_s_now(project: SmallProject, own_place: Place) -> None:
    name = image_of(project).replace(":v2@", ":v1@").partition("@")[0]
    digest = digest_of(own_place.raw(name))
    collect(own_place, project, "v1")
    copy = [tool("skopeo"), "copy", "-q", "--all", "--src-tls-verify=false"]
    other = f"docker://{image_of(project).replace(':v2@', '@')}"
    run([*copy, "--dest-tls-verify=false", other, f"docker://{name}"], cwd=project.folder)
    project.compose("rollback", "prod")
    expected = f"{name}-{digest.removeprefix('sha256:')[:12]}"
    assert image_of(project) == f"{expected}@{digest}"
    assert digest_of(own_place.raw(expected)) == digest
    assert digest_of(own_place.raw(name)) != digest


def test_a_lost_blob(project: SmallProject, own_place: Place) -> None:
    before = image_of(project)
    release = tomllib.loads((project.root / "lock/releases/v1.toml").read_text())
    config = release["result"]["platforms"][0]["config"]
    shutil.rmtree(project.store)
    own_place.blob(config).unlink()
    done = project.compose("rollback", "prod", ok=False)
    assert done.code == 1
    assert "the bytes of release v1 are nowhere" in done.err
    assert config in done.err
    assert image_of(project) == before


def test_a_registry_that_does_not_answer(project: SmallProject, own_place: Place) -> None:
    for file in ("lock/pins/prod.toml", "compose.yaml"):
        path = project.root / file
        path.write_text(path.read_text().replace(own_place.netloc, "127.0.0.1:1"))
    before = image_of(project)
    done = project.compose("rollback", "prod", "--dry-run")
    assert "was not asked" in done.err
    assert done.last.startswith("127.0.0.1:1/")
    # Nor does the store have it: nothing is written.
    shutil.rmtree(project.store)
    done = project.compose("rollback", "prod", ok=False)
    assert done.code == 3
    assert image_of(project) == before
