"""`compose push RELEASE`: the bytes that were made once, whatever the project says now."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from composer.oci.reference import Reference
from composer.pushes import references
from tests.support.commands import run, tool
from tests.support.projects import SmallProject, digest_of

from .conftest import Place

Make = Callable[..., SmallProject]


def release(project: SmallProject, name: str) -> str:
    """Build and release what the project is now, and return its digest."""
    done = project.compose("build", "app", "--release", name, "--allow-dirty", "--json")
    digest: str = done.json["digest"]
    return digest


@pytest.fixture(params=["oci", "docker"])
def project(place: Place, on: Make, request: pytest.FixtureRequest) -> SmallProject:
    """A project on the base in the registry, of either family and two platforms."""
    return on(f"{place.netloc}/base/{request.param}:v1")


def test_its_bytes_and_its_name(project: SmallProject, place: Place, tmp_path: Path) -> None:
    digest = release(project, "v1")
    project.patch("first", {3: "other"})
    other = release(project, "v2")
    place.tap.clear()
    answer = project.compose("push", "v1", "--json").json
    reference = Reference.parse(answer["reference"])
    assert (reference.tag, str(reference.digest)) == ("v1", digest)
    assert answer["release"] == "v1"
    assert answer["blobs"]["mounted"] == 4
    name = str(reference.with_digest(None))
    assert digest_of(place.raw(name)) == digest != other
    # Every byte is there: skopeo reads all platforms.
    copy = [tool("skopeo"), "copy", "-q", "--all", "--preserve-digests", "--src-tls-verify=false"]
    run([*copy, f"docker://{name}", f"dir:{tmp_path / 'out'}"], cwd=tmp_path)
    assert references(project.root, digest) == (reference.with_digest(None),)
    assert references(project.root, other) == ()


def test_of_a_project_that_cannot_be_resolved_any_more(project: SmallProject, place: Place) -> None:
    digest = release(project, "v1")
    shutil.rmtree(project.root / "modules")
    done = project.compose("push", "v1", "-q")
    assert done.last.endswith(f"/app:v1@{digest}")


def test_another_tag_and_repository(project: SmallProject, place: Place) -> None:
    digest = release(project, "v1")
    to = f"{place.netloc}/elsewhere/{project.folder.name}"
    done = project.compose("push", "release:v1", "-q", "--to", to, "--tag", "prod")
    assert done.last == f"{to}:prod@{digest}"
    assert digest_of(place.raw(f"{to}:prod")) == digest


def test_what_the_store_lacks(project: SmallProject, place: Place) -> None:
    digest = release(project, "v1")
    layers = project.compose("build", "app", "--json").json["platforms"][0]["layers"]
    blob = project.store / "blobs/sha256" / layers[0]["digest"].removeprefix("sha256:")
    raw = blob.read_bytes()
    blob.unlink()
    place.tap.clear()
    done = project.compose("push", "v1", ok=False)
    assert (done.code, done.out) == (3, "")
    assert "the store does not hold what release v1 is made of" in done.err
    assert layers[0]["digest"] in done.err
    assert "make it: `compose build app --locked`" in done.err
    assert place.tap.exchanges == []
    # As it says.
    project.compose("build", "app", "--locked")
    assert blob.read_bytes() == raw
    assert project.compose("push", "v1", "-q").last.endswith(digest)


def test_a_blob_that_is_damaged(project: SmallProject, place: Place) -> None:
    release(project, "v1")
    layers = project.compose("build", "app", "--json").json["platforms"][0]["layers"]
    blob = project.store / "blobs/sha256" / layers[0]["digest"].removeprefix("sha256:")
    raw = bytearray(blob.read_bytes())
    raw[100] ^= 1
    blob.write_bytes(raw)
    done = project.compose("push", "v1", ok=False)
    assert (done.code, done.out) == (4, "")
    assert layers[0]["digest"] in done.err
    assert not place.has(f"{place.netloc}/test-a-blob-that-is-damaged/app:v1")
    assert not (project.root / "lock/pushes.toml").exists()


def test_a_registry_without_the_base(project: SmallProject, own_place: Place) -> None:
    digest = release(project, "v1")
    to = f"{own_place.netloc}/fresh/app"
    refused = project.compose("push", "v1", "--to", to, ok=False)
    assert refused.code == 2
    assert f"{to} does not have 4 layers of the base" in refused.err
    done = project.compose("push", "v1", "--to", to, "--copy-base", "--json")
    assert done.json["blobs"] == {"held": 4, "sent": 4}  # ours are small, and came first
    assert digest_of(own_place.raw(f"{to}:v1")) == digest


def test_names(project: SmallProject, place: Place) -> None:
    digest = release(project, "app")
    done = project.compose("push", "app", ok=False)
    assert (done.code, done.out) == (2, "")
    assert "'app' is an image and a release" in done.err
    assert "image:app or release:app" in done.err
    assert project.compose("push", "release:app", "-q").last.endswith(f"/app:app@{digest}")
    assert ":inputs-" in project.compose("push", "image:app", "-q").last
    unknown = project.compose("push", "apq", ok=False)
    assert unknown.code == 2
    assert "there is no image and no release 'apq'" in unknown.err
    assert "app" in unknown.err.splitlines()[-1]


def test_a_push_of_an_image_is_recorded_too(project: SmallProject, place: Place) -> None:
    answer = project.compose("push", "app", "--json").json
    reference = Reference.parse(answer["reference"])
    assert references(project.root, answer["digest"]) == (reference.with_digest(None),)
