"""`compose push`: what is mounted, sent and refused; tags; what a registry then names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from composer.lock import load
from tests.support.baseimages import BaseImage
from tests.support.commands import run, tool
from tests.support.distribution import running_registry
from tests.support.projects import SmallProject, digest_of
from tests.support.tap import Tap

from .conftest import Place

Make = Callable[..., SmallProject]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Another registry, without the base."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with running_registry(folder) as netloc, Tap(netloc).running() as tap:
        yield Place(tap, folder / "data")


@pytest.fixture
def project(place: Place, on: Make) -> SmallProject:
    """A project on the base in the registry, locked and built."""
    project = on(f"{place.netloc}/base/oci:v1")
    project.build()
    place.tap.clear()
    return project


def test_the_default_tag_is_of_the_inputs(project: SmallProject, place: Place) -> None:
    answer = project.compose("push", "app", "--json").json
    lock = load((project.root / "lock/app.lock").read_bytes(), "lock")
    name, _, digest = answer["reference"].partition("@")
    assert name.endswith(f"/test-the-default-tag-is-of-the-inputs/app:inputs-{lock.inputs[7:19]}")
    assert digest == lock.digest == digest_of(place.raw(name))
    assert re.fullmatch("inputs-[0-9a-f]{12}", name.rpartition(":")[2])


def test_layers_of_the_base_are_mounted_from_its_repository(
    project: SmallProject, place: Place, images: dict[str, BaseImage]
) -> None:
    answer = project.compose("push", "app", "--json").json
    # Of three layers a platform two are the same on both; ours are, and the configs are not.
    assert answer["blobs"] == {"mounted": 4, "sent": 4}
    assert place.tap.blobs() == []
    mounts = [one for one in place.tap.methods("POST") if "mount=" in one.path]
    assert len(mounts) == 4
    assert all("from=base%2Foci" in one.path for one in mounts)
    assert {one.status for one in mounts} == {201}
    ours = {layer["digest"] for one in answer["platforms"] for layer in one["layers"]}
    sizes = [layer["size"] for layer in answer["platforms"][0]["layers"]]
    assert len(ours) == 2
    assert sum(sizes) < answer["sent"] < sum(sizes) + 10_000


def test_a_push_of_the_same_sends_nothing(project: SmallProject, place: Place) -> None:
    first = project.compose("push", "app", "--json").json
    place.tap.clear()
    again = project.compose("push", "app", "--json").json
    assert again["reference"] == first["reference"]
    assert (again["sent"], again["blobs"]) == (0, {"mounted": 4, "held": 4})
    assert not place.tap.methods("PUT", "PATCH")
    assert all("mount=" in one.path for one in place.tap.methods("POST"))


def test_the_same_repository_as_the_base(project: SmallProject, place: Place) -> None:
    done = project.compose("push", "app", "--to", f"{place.netloc}/base/oci", "--tag", "derived")
    assert done.out.splitlines()[0].startswith("4 mounted, 4 sent; ")
    assert digest_of(place.raw(f"{place.netloc}/base/oci:derived")) == done.last.rpartition("@")[2]
    assert not [one for one in place.tap.exchanges if "mount=" in one.path]


def test_a_tag_and_another_repository(project: SmallProject, place: Place) -> None:
    to = f"{place.netloc}/another/place"
    done = project.compose("push", "app", "-q", "--to", to, "--tag", "v1.2_3")
    assert done.out.startswith(f"{to}:v1.2_3@sha256:")
    assert digest_of(place.raw(f"{to}:v1.2_3")) == done.last.rpartition("@")[2]
    assert not any("/app/" in one.path for one in place.tap.exchanges)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--tag", "a b"), "'a b' is not a tag"),
        (("--tag", ""), "'' is not a tag"),
        (("--to", "127.0.0.1:9/UPPER"), "is not a repository name"),
        (("--to", "127.0.0.1:9/a:v1"), "a repository has no tag and no digest"),
    ],
)
def test_names_that_are_none(
    project: SmallProject, place: Place, arguments: tuple[str, str], what: str
) -> None:
    done = project.compose("push", "app", *arguments, ok=False)
    assert (done.code, done.out) == (2, "")
    assert what in done.err
    assert place.tap.exchanges == []


def test_no_repository(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    project.images["app"].pop("repository")
    project.write()
    done = project.compose("push", "app", ok=False)
    assert (done.code, done.out) == (2, "")
    assert "image app has no repository to push to" in done.err
    assert "give it one: repository = ... in [images.app], or --to" in done.err
    assert place.tap.exchanges == []


def test_a_registry_without_the_base_is_refused(
    project: SmallProject, place: Place, elsewhere: Place, images: dict[str, BaseImage]
) -> None:
    to = f"{elsewhere.netloc}/refused/app"
    done = project.compose("push", "app", "--to", to, "--tag", "v1", ok=False)
    assert (done.code, done.out) == (2, "")
    assert f"error: {to} does not have 4 layers of the base" in done.err
    assert f"layers that can be mounted from {place.netloc}/base/oci:v1" in done.err
    base = images["oci"]
    layers = {
        one["digest"]: one["size"]
        for platform in base.children
        for one in base.manifest(platform)["layers"]
    }
    assert f"send them ({sum(layers.values())} bytes): --copy-base" in done.err
    assert all(digest in done.err for digest in layers)
    assert not elsewhere.has(f"{to}:v1")
    assert not [one for one in elsewhere.tap.methods("PUT") if "/manifests/" in one.path]


def test_the_base_is_copied_where_that_is_asked_for(
    project: SmallProject, elsewhere: Place, tmp_path: Path
) -> None:
    to = f"{elsewhere.netloc}/copied/app"
    answer = project.compose("push", "app", "--to", to, "--tag", "v1", "--copy-base", "--json").json
    assert answer["blobs"] == {"sent": 8}
    assert answer["sent"] > 2_500_000
    copy = [tool("skopeo"), "copy", "-q", "--all", "--preserve-digests", "--src-tls-verify=false"]
    run([*copy, f"docker://{to}:v1", f"dir:{tmp_path / 'out'}"], cwd=tmp_path)
    assert digest_of((tmp_path / "out/manifest.json").read_bytes()) == answer["digest"]
    # Now that they are there, they are found.
    project.patch("first", {6: "more"})
    done = project.compose("push", "app", "--to", to, "--json")
    assert done.json["blobs"] == {"held": 4, "sent": 4}


@pytest.mark.parametrize("kind", ["oci", "archive", "saved"])
def test_a_base_that_is_in_no_registry(
    elsewhere: Place, images: dict[str, BaseImage], on: Make, tmp_path: Path, kind: str
) -> None:
    base = images["oci"]
    text = {
        "oci": lambda: f"oci:{base.layout(tmp_path / 'layout')}",
        "archive": lambda: f"archive:{base.oci_archive(tmp_path / 'base.tar')}",
        "saved": lambda: f"archive:{base.docker_archive(tmp_path / 's.tar', 'linux/amd64')}",
    }[kind]()
    project = on(text)
    to = f"{elsewhere.netloc}/{kind}/app"
    refused = project.compose("push", "app", "--to", to, ok=False)
    assert refused.code == 2
    assert f"{to} does not have" in refused.err
    assert "layers that can be mounted from the base" in refused.err
    answer = project.compose("push", "app", "--to", to, "--copy-base", "--json").json
    name = answer["reference"].partition("@")[0]
    assert digest_of(elsewhere.raw(name)) == answer["digest"]
    copy = [tool("skopeo"), "copy", "-q", "--all", "--preserve-digests", "--src-tls-verify=false"]
    run([*copy, f"docker://{name}", f"dir:{tmp_path / 'out'}"], cwd=tmp_path)


def test_what_was_pushed_and_the_store_agree(project: SmallProject, place: Place) -> None:
    answer = project.compose("push", "app", "--json").json
    name = answer["reference"].partition("@")[0]
    repository = name.rpartition(":")[0]
    for digest in (answer["digest"], *(one["manifest"] for one in answer["platforms"])):
        held = (project.store / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes()
        assert place.raw(f"{repository}@{digest}") == held
