"""What a registry may do to content on its way to us."""

from __future__ import annotations

import hashlib
import json

import pytest

from composer.errors import InputError, IntegrityError, UnreachableError
from composer.oci.digest import Digest
from composer.oci.manifest import DOCUMENT_LIMIT, Descriptor
from composer.oci.mediatype import DOCKER, OCI
from tests.support.registry import Cut, Reply, Simulator

from .conftest import Client
from .content import Small, blob, noise


@pytest.fixture
def image(sim: Simulator) -> Small:
    made = Small.make(noise(1_000_000))
    made.put_into(sim, "a/x", "v1")
    return made


@pytest.mark.parametrize("header", ["wrong", "none"])
def test_the_digest_header_is_only_a_hint(
    sim: Simulator, client: Client, image: Small, header: str
) -> None:
    sim.digest_header = header
    assert client.source("a/x:v1").top() == image.manifest.descriptor()
    assert client.source(f"a/x@{image.manifest.digest}").top() == image.manifest.descriptor()


def test_a_manifest_that_the_registry_itself_does_not_know(
    sim: Simulator, client: Client, image: Small
) -> None:
    other = Small.make(b"other").manifest
    headers = {"Content-Type": OCI.manifest, "Docker-Content-Digest": str(image.manifest.digest)}
    sim.plan("GET", "/manifests/", Reply(200, headers, other.raw))
    with pytest.raises(IntegrityError, match="a manifest that it does not know") as caught:
        client.source("a/x:v1").top()
    assert f"expected: {image.manifest.digest}" in str(caught.value)
    assert f"found:    {other.digest}" in str(caught.value)


def test_another_manifest_than_the_digest_says(
    sim: Simulator, client: Client, image: Small
) -> None:
    other = Small.make(b"other").manifest
    sim.plan("GET", "/manifests/", Reply(200, {"Content-Type": OCI.manifest}, other.raw))
    with pytest.raises(IntegrityError, match="other bytes than those asked for"):
        client.source(f"a/x@{image.manifest.digest}").top()


def test_a_sha512_digest(sim: Simulator, client: Client, image: Small) -> None:
    data = image.layers[0]
    digest = Digest("sha512", hashlib.sha512(data).hexdigest())
    sim.blobs[str(digest)] = data
    sim.repo("a/x").blobs.add(str(digest))
    there = Descriptor("", digest, len(data))
    assert b"".join(client.source("a/x").chunks(there)) == data


@pytest.mark.parametrize("sent", ["application/json", "text/plain; charset=utf-8"])
@pytest.mark.parametrize("family", [OCI, DOCKER], ids=lambda family: family.name)
def test_a_content_type_that_says_nothing(
    sim: Simulator, client: Client, sent: str, family: object
) -> None:
    assert family in (OCI, DOCKER)
    media_type = OCI.index if family is OCI else DOCKER.index
    raw = json.dumps({"schemaVersion": 2, "mediaType": media_type, "manifests": []}).encode()
    sim.add_manifest("a/x", raw, media_type, "v1")
    sim.content_type = sent
    assert client.source("a/x:v1").top().media_type == media_type


@pytest.mark.parametrize(
    "raw",
    [
        b'{"schemaVersion": 1, "fsLayers": []}',
        b'{"schemaVersion": 2, "mediaType": "application/vnd.oci.artifact.manifest.v1+json"}',
        b"<html>",
    ],
)
def test_what_is_no_image(sim: Simulator, client: Client, raw: bytes) -> None:
    sim.plan("GET", "/manifests/", Reply(200, {"Content-Type": "text/plain"}, raw))
    with pytest.raises(InputError, match="no image of a kind that can be used"):
        client.source("a/x:v1").top()


def test_an_endless_manifest(sim: Simulator, client: Client) -> None:
    sim.plan("GET", "/manifests/", Reply(200, {}, b" " * (DOCUMENT_LIMIT + 1)))
    with pytest.raises(IntegrityError, match="is too large"):
        client.source("a/x:v1").top()


def test_a_huge_document_is_not_asked_for(sim: Simulator, client: Client) -> None:
    huge = Descriptor(OCI.config, blob(b"").digest, DOCUMENT_LIMIT + 1)
    with pytest.raises(IntegrityError, match="is too large"):
        client.source("a/x:v1").document(huge)
    assert not sim.requests


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("corrupt", "other bytes than those asked for"),
        ("longer", "another size than its descriptor says"),
        ("shorter", "another size than its descriptor says"),
    ],
)
def test_damaged_content(
    sim: Simulator, client: Client, image: Small, damage: str, message: str, chunked: bool
) -> None:
    sim.damage, sim.chunked_answers = damage, chunked
    source = client.source("a/x:v1")
    with pytest.raises(IntegrityError, match=message) as caught:
        list(source.chunks(image.manifest.layers[0]))
    assert caught.value.exit_code == 4
    with pytest.raises(IntegrityError, match=message):
        source.document(image.manifest.config)
    assert not client.time.slept


@pytest.mark.parametrize("chunked", [False, True])
def test_no_more_is_given_on_than_the_size(
    sim: Simulator, client: Client, image: Small, chunked: bool
) -> None:
    sim.damage, sim.chunked_answers = "longer", chunked
    got: list[int] = []
    chunks = client.source("a/x:v1").chunks(image.manifest.layers[0])
    with pytest.raises(IntegrityError, match="another size"):
        got.extend(len(chunk) for chunk in chunks)
    assert sum(got) <= 1_000_000
    assert bool(got) is chunked  # a length that is announced is refused at once


def test_an_empty_blob_is_asked_for_too(client: Client) -> None:
    with pytest.raises(UnreachableError, match="does not hold"):
        list(client.source("a/x").chunks(blob(b"")))


def test_progress_earns_patience(sim: Simulator, client: Client, image: Small) -> None:
    sim.plan("GET", "/blobs/", Cut(60_000, reset=False), times=12)
    chunks = client.source("a/x").chunks(image.manifest.layers[0])
    assert b"".join(chunks) == image.layers[0]


def test_but_not_for_ever(sim: Simulator, client: Client, image: Small) -> None:
    sim.plan("GET", "/blobs/", Cut(1_000, reset=False), times=999)
    with pytest.raises(UnreachableError, match="cannot be reached"):
        list(client.source("a/x").chunks(image.manifest.layers[0]))
    assert len(sim.requests) == 101


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_goes_on(
    sim: Simulator, client: Client, image: Small, ranges: bool, reset: bool
) -> None:
    sim.ranges = ranges
    sim.plan("GET", "/blobs/", Cut(300_000, reset=reset), times=2)
    source = client.source("a/x:v1")
    assert b"".join(source.chunks(image.manifest.layers[0])) == image.layers[0]
    assert len(sim.asked("GET", "/blobs/")) == 3
    starts = [one.headers.get("Range") for one in sim.asked("GET", "/blobs/")]
    last = "bytes=600000-999999" if ranges else "bytes=300000-999999"
    assert reset or starts == [None, "bytes=300000-999999", last]


def test_a_download_that_gets_nowhere_ends(sim: Simulator, client: Client, image: Small) -> None:
    sim.plan("GET", "/blobs/", Cut(0), times=99)
    with pytest.raises(UnreachableError, match="cannot be reached") as caught:
        list(client.source("a/x:v1").chunks(image.manifest.layers[0]))
    assert caught.value.exit_code == 3
    assert len(sim.requests) == 6


def test_a_broken_range_is_read_again(sim: Simulator, client: Client, image: Small) -> None:
    sim.plan("GET", "/blobs/", Cut(10))
    layer = image.manifest.layers[0]
    assert client.source("a/x").range(layer, 5_000, 100) == image.layers[0][5_000:5_100]
    sim.ranges = False
    assert client.source("a/x").range(layer, 5_000, 100) == image.layers[0][5_000:5_100]


def test_a_range_beyond_the_end(client: Client, image: Small) -> None:
    with pytest.raises(IntegrityError, match="another size"):
        client.source("a/x").range(image.manifest.layers[0], 999_999, 2)


def test_another_range_than_the_one_asked_for(sim: Simulator, client: Client, image: Small) -> None:
    headers = {"Content-Range": "bytes 0-9/1000000"}
    sim.plan("GET", "/blobs/", Reply(206, headers, b"0123456789"))
    with pytest.raises(UnreachableError, match="answers another range"):
        client.source("a/x").range(image.manifest.layers[0], 5, 10)


def test_a_document_whose_answer_breaks_is_read_again(
    sim: Simulator, client: Client, image: Small
) -> None:
    sim.plan("GET", "/manifests/", Cut(20), times=2)
    assert client.source("a/x:v1").top() == image.manifest.descriptor()
    assert client.time.slept == [0.125, 0.25]


def test_the_top_is_not_read_twice(sim: Simulator, client: Client, image: Small) -> None:
    source = client.source("a/x:v1")
    assert source.document(source.top()) == image.manifest.raw
    assert len(sim.requests) == 1


def test_the_top_has_the_size_it_has(client: Client, image: Small) -> None:
    source = client.source("a/x:v1")
    top = source.top()
    with pytest.raises(IntegrityError, match="another size"):
        source.document(Descriptor(top.media_type, top.digest, top.size + 1))


def test_stopping_early_does_not_spoil_the_next_request(
    sim: Simulator, client: Client, image: Small
) -> None:
    source = client.source("a/x:v1")
    chunks = source.chunks(image.manifest.layers[0])
    assert next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert source.document(image.manifest.config) == image.config


def test_tags_come_in_pages(sim: Simulator, client: Client, image: Small) -> None:
    names = [f"v{number}" for number in range(25)]
    sim.page = 10
    image.put_into(sim, "a/x", *names)
    assert client.source("a/x").tags() == tuple(sorted(names))
    assert len(sim.requests) == 3


def test_pages_that_lead_back_end(sim: Simulator, client: Client) -> None:
    link = {"Link": '</v2/a/x/tags/list?n=1000>; rel="next"'}
    sim.plan("GET", "/tags/", Reply(200, link, b'{"tags": ["v1", null]}'), times=9)
    assert client.source("a/x").tags() == ("v1",)
    assert len(sim.requests) == 1


def test_pages_on_another_host_are_left(sim: Simulator, client: Client) -> None:
    link = {"Link": '<http://127.0.0.1:9/v2/x>; rel="next"'}
    sim.plan("GET", "/tags/", Reply(200, link, b'{"tags": ["v1"]}'), times=9)
    assert client.source("a/x").tags() == ("v1",)
