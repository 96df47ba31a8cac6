"""One suite for every registry: the simulator, and the distribution project's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer.errors import InputError, IntegrityError, UnreachableError
from composer.oci.digest import sha256
from composer.oci.manifest import Index
from composer.oci.mediatype import DOCKER, OCI
from composer.oci.ports import Destination, Source
from composer.oci.registry import Delivered, Parcel, deliver
from tests.support.distribution import running_registry
from tests.support.registry import Simulator

from .conftest import Client
from .content import Small, blob, noise, once

# ann:s3cret-pa55, bcrypt of cost 5
HTPASSWD = "ann:$2b$05$OCcShx9ZmgqRmEW453KoQuMSseowx6GxgCmyNuEpsxkkVYBCAleqe"


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_registry(tmp_path_factory.mktemp("registry")) as netloc:
        yield netloc


@pytest.fixture(params=["simulator", "distribution"])
def any_client(request: pytest.FixtureRequest) -> Client:
    if request.param == "simulator":
        sim: Simulator = request.getfixturevalue("sim")
        return Client.of(sim.netloc, chunked=300_000, chunk=100_000)
    netloc: str = request.getfixturevalue("distribution")
    return Client.of(netloc, chunked=300_000, chunk=100_000)


def push(client: Client, name: str, image: Small, tag: str | None = "v1") -> None:
    there: Destination = client.destination(name)
    for data in (image.config, *image.layers):
        there.upload(blob(data), once(data))
    assert there.put(image.manifest.raw, OCI.manifest, tag) == image.manifest.digest


def test_an_image_comes_back_as_it_went(any_client: Client) -> None:
    image = Small.make(b"first layer", noise(2_000_000))
    push(any_client, "a/round-trip", image)
    source: Source = any_client.source("a/round-trip:v1")
    assert source.top() == image.manifest.descriptor()
    assert source.document(image.manifest.descriptor()) == image.manifest.raw
    assert source.document(image.manifest.config) == image.config
    for descriptor, data in zip(image.manifest.layers, image.layers, strict=True):
        assert b"".join(source.chunks(descriptor)) == data


def test_an_image_is_found_by_its_digest(any_client: Client) -> None:
    image = Small.make(b"layer")
    push(any_client, "a/by-digest", image, tag=None)
    assert any_client.source(f"a/by-digest@{image.manifest.digest}").top().size == (
        image.manifest.size
    )


@pytest.mark.parametrize("family", [OCI, DOCKER], ids=lambda family: family.name)
def test_an_index_of_either_family(any_client: Client, family: object) -> None:
    index = Index.make(DOCKER if family is DOCKER else OCI, [])
    there = any_client.destination("a/index")
    there.put(index.raw, index.media_type, index.family.name.lower())
    top = any_client.source(f"a/index:{index.family.name.lower()}").top()
    assert (top.media_type, top.digest) == (index.media_type, index.digest)


def test_what_is_not_there_is_a_wrong_input(any_client: Client) -> None:
    push(any_client, "a/there", Small.make(b"x"))
    with pytest.raises(InputError, match=r"there is no image .*/a/there:v2") as caught:
        any_client.source("a/there:v2").top()
    assert "MANIFEST_UNKNOWN" in str(caught.value)
    with pytest.raises(InputError, match=r"there is no image .*/a/nowhere:v1"):
        any_client.source("a/nowhere:v1").top()
    with pytest.raises(InputError, match="there is no such repository"):
        any_client.source("a/nowhere").tags()


def test_a_blob_that_is_not_there(any_client: Client) -> None:
    push(any_client, "a/there", Small.make(b"x"))
    source = any_client.source("a/there:v1")
    absent = blob(b"never pushed")
    with pytest.raises(UnreachableError, match="does not hold a part of the image"):
        list(source.chunks(absent))
    with pytest.raises(UnreachableError, match="does not hold a part of the image"):
        source.document(absent)
    assert not source.has(absent)


def test_a_size_that_is_not_the_blobs(any_client: Client) -> None:
    push(any_client, "a/size", Small.make(b"0123456789"))
    source = any_client.source("a/size:v1")
    for size in (9, 11):
        wrong = blob(b"0123456789").__class__("", sha256(b"0123456789"), size)
        with pytest.raises(IntegrityError, match=f"expected: +{size} bytes"):
            list(source.chunks(wrong))


def test_an_empty_blob(any_client: Client) -> None:
    there = any_client.destination("a/empty")
    there.upload(blob(b""), list)
    assert there.has(blob(b""))
    assert list(there.chunks(blob(b""))) == []


def test_a_part_of_a_blob(any_client: Client) -> None:
    data = noise(50_000)
    there = any_client.destination("a/range")
    there.upload(blob(data), once(data))
    assert there.range(blob(data), 1_000, 500) == data[1_000:1_500]
    assert there.range(blob(data), 0, 50_000) == data
    assert there.range(blob(data), 49_999, 1) == data[-1:]


@pytest.mark.parametrize("size", [299_999, 300_000, 300_001, 700_000])
def test_large_blobs_go_in_chunks(any_client: Client, size: int) -> None:
    data = noise(size, seed=size)
    there = any_client.destination("a/chunks")
    there.upload(blob(data), lambda: [data[:77], data[77:250_000], data[250_000:]])
    assert b"".join(there.chunks(blob(data))) == data


@pytest.mark.parametrize("size", [10, 400_000])
def test_wrong_content_is_not_stored(any_client: Client, size: int) -> None:
    right, wrong = noise(size, seed=1), noise(size, seed=2)
    there = any_client.destination("a/wrong")
    with pytest.raises(IntegrityError, match="received other bytes than the blob's digest says"):
        there.upload(blob(right), once(wrong))
    assert not there.has(blob(right))


@pytest.mark.parametrize("size", [10, 2_000_000])
@pytest.mark.parametrize("change", [-1, 1])
def test_content_of_another_size_is_not_sent(any_client: Client, size: int, change: int) -> None:
    data = noise(size + change)
    there = any_client.destination("a/sized")
    with pytest.raises(IntegrityError, match=f"expected: +{size} bytes"):
        there.upload(blob(noise(size)), once(data))


def test_a_blob_is_mounted_from_another_repository(any_client: Client) -> None:
    data = noise(1_000, seed=5)
    any_client.destination("a/base").upload(blob(data), once(data))
    there = any_client.destination("a/derived")
    assert not there.has(blob(data))
    assert there.mount(blob(data), any_client.reference("a/base"))
    assert b"".join(there.chunks(blob(data))) == data


def test_a_mount_of_what_is_not_there(any_client: Client) -> None:
    data = b"not in the base"
    there = any_client.destination("a/derived-2")
    assert not there.mount(blob(data), any_client.reference("a/base"))
    there.upload(blob(data), once(data))  # goes on where the mount left off
    assert there.has(blob(data))


def test_a_delivery_of_everything(any_client: Client) -> None:
    held, mounted, sent, odd = b"held", b"mounted", noise(400_000), b"not ours"
    any_client.destination("d/base").upload(blob(mounted), once(mounted))
    there = any_client.destination("d/ours")
    there.upload(blob(held), once(held))
    base = any_client.reference("d/base")
    parcels = [
        Parcel(blob(held), once(held)),
        Parcel(blob(mounted), mount_from=base),
        Parcel(blob(sent), once(sent), mount_from=base),
        Parcel(blob(odd), mount_from=base),
    ]
    results = [Delivered.HELD, Delivered.MOUNTED, Delivered.SENT, Delivered.REFUSED]
    assert deliver(there, parcels) == results
    assert all(there.has(blob(one)) for one in (held, mounted, sent))


def test_a_second_push_of_a_tag(any_client: Client) -> None:
    first, second = Small.make(b"1"), Small.make(b"2")
    push(any_client, "a/again", first)
    push(any_client, "a/again", first)
    assert any_client.source("a/again").current("v1") == first.manifest.digest
    push(any_client, "a/again", second)
    assert any_client.source("a/again").current("v1") == second.manifest.digest
    assert any_client.source("a/again").current("v9") is None


def test_a_manifest_without_its_blobs_is_refused(any_client: Client) -> None:
    image = Small.make(b"never sent")
    there = any_client.destination("a/incomplete")
    there.upload(blob(image.config), once(image.config))
    with pytest.raises(UnreachableError, match="lacks a part of the image") as caught:
        there.put(image.manifest.raw, OCI.manifest, "v1")
    assert image.manifest.layers[0].digest.hex in str(caught.value)


def test_tags_are_listed(any_client: Client) -> None:
    image = Small.make(b"tagged")
    for tag in ("v2", "v1", "latest"):
        push(any_client, "a/tags", image, tag)
    assert any_client.source("a/tags").tags() == ("latest", "v1", "v2")


def test_a_password_opens_the_real_registry(tmp_path: Path) -> None:
    login = tmp_path / "auth.json"
    with running_registry(tmp_path, HTPASSWD) as netloc:
        login.write_text(json.dumps({"auths": {netloc: {"auth": "YW5uOnMzY3JldC1wYTU1"}}}))
        push(Client.of(netloc, files=(login,)), "a/private", Small.make(b"layer"))
        top = Client.of(netloc, files=(login,)).source("a/private:v1").top()
        assert top.digest == Small.make(b"layer").manifest.digest
        with pytest.raises(UnreachableError, match=r"no permission\n.*with no credentials"):
            Client.of(netloc).source("a/private:v1").top()
        login.write_text(json.dumps({"auths": {netloc: {"auth": "YW5uOndyb25nLW9uZQ=="}}}))
        with pytest.raises(UnreachableError, match="no permission") as caught:
            Client.of(netloc, files=(login,)).source("a/private:v1").top()
        assert str(login) in str(caught.value)
        assert "wrong-one" not in str(caught.value)
        assert "YW5u" not in str(caught.value)
