"""How often and how much is read of a base and sent to a registry: the overlay, not the base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.baseimages import TINY, BaseImage
from tests.support.images import layer_members
from tests.support.projects import SmallProject, digest_of

from .conftest import PLATFORMS, Place
from .test_bases import full_module

Make = Callable[..., SmallProject]


def layers_of(base: BaseImage) -> dict[str, list[str]]:
    """Return the digests of a base's layers by platform."""
    return {
        platform: [one["digest"] for one in base.manifest(platform)["layers"]]
        for platform in PLATFORMS
    }


def forget_store(project: SmallProject) -> None:
    """Go on as on another machine: with the project, and nothing held."""
    project.store.rename(project.store.with_name("another-store"))


def test_each_layer_is_streamed_once(place: Place, images: dict[str, BaseImage], on: Make) -> None:
    """Targets of every kind, through links, hard-linked: their content comes with the table."""
    project = on(f"{place.netloc}/base/oci:v1")
    full_module(project)
    project.build()
    counts = Counter(place.tap.blobs())
    layers = layers_of(images["oci"])
    assert {counts[digest] for one in layers.values() for digest in one} == {1}
    assert set(counts.values()) == {1}
    assert not place.tap.methods("POST", "PUT", "PATCH")
    place.tap.clear()
    project.patch("first", {4: "something else"})
    project.build()
    project.compose("lock", "--upgrade-base")
    assert place.tap.blobs() == []


@pytest.mark.parametrize("verb", [("build", "app", "--locked"), ("lock", "--check"), ("lock",)])
def test_a_warm_store_needs_no_network(place: Place, on: Make, verb: tuple[str, ...]) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    project.compose("lock")
    place.tap.clear()
    with place.tap.down():
        project.compose(*verb)
        project.patch("first", {5: "an edit"})
        project.compose("build", "app")
    assert place.tap.exchanges == []


def test_a_locked_build_reads_only_the_layer_with_the_preimage(
    place: Place, images: dict[str, BaseImage], on: Make
) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    digest = project.build()["digest"]
    forget_store(project)
    place.tap.clear()
    assert project.build("app", "--locked")["digest"] == digest
    layers = layers_of(images["oci"])
    known = {digest for one in layers.values() for digest in one}
    # The other platform's preimage is the same file, and held by then.
    assert [one for one in place.tap.blobs() if one in known] == [layers["linux/amd64"][1]]
    assert place.tap.received < 40_000


def test_one_platform_reads_one_platform(
    place: Place, images: dict[str, BaseImage], on: Make
) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    whole = project.build()
    forget_store(project)
    place.tap.clear()
    part = project.build("app", "--locked", "--platform", "linux/arm64")
    assert part["digest"] == whole["digest"]
    assert not set(place.tap.blobs()) & set(layers_of(images["oci"])["linux/amd64"])


def test_a_locked_push_of_added_files_moves_no_layer_of_the_base(
    place: Place, images: dict[str, BaseImage], on: Make
) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    project.module(
        "first",
        contents={"added.py": b"added = True\n"},
        add=[{"target": "tiny/added.py", "file": "added.py"}],
        replace=[
            {"target": "tiny/old/fresh.py", "file": "added.py", "preimage": [digest_of(b"fresh\n")]}
        ],
    )
    project.compose("lock")
    forget_store(project)
    place.tap.clear()
    answer = project.compose("push", "app", "--locked", "--json").json
    layers = {digest for one in layers_of(images["oci"]).values() for digest in one}
    assert not set(place.tap.blobs()) & layers
    assert place.tap.received + place.tap.sent < 100_000
    assert answer["blobs"] == {"mounted": 4, "sent": 4}
    assert answer["sent"] < 50_000
    one = answer["platforms"][0]
    assert {layer["digest"] for layer in one["layers"]}.isdisjoint(layers)
    names = [member.name for member, _ in layer_members(project.store, one["layers"][0]["digest"])]
    assert f"{TINY}/__pycache__/.wh.added.cpython-312.pyc" in names


def test_nothing_is_read_where_nothing_has_changed(
    place: Place, images: dict[str, BaseImage], on: Make
) -> None:
    """Not even the base's index, which the store would otherwise have to hold."""
    project = on(f"{place.netloc}/base/oci:v1")
    answer = project.build()
    (project.store / "blobs/sha256" / images["oci"].digest.removeprefix("sha256:")).unlink()
    place.tap.clear()
    assert project.build() == answer
    assert place.tap.exchanges == []
