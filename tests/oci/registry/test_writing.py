"""What a registry may do to content on its way from us."""

from __future__ import annotations

import time

import pytest

from composer.errors import InputError, IntegrityError, UnreachableError
from composer.oci.mediatype import OCI
from composer.oci.registry import Parcel, deliver
from tests.support.registry import Cut, Reply, Simulator

from .conftest import Client
from .content import Small, blob, noise, once

MANIFEST = Small.make(b"layer")


@pytest.fixture
def chunky(sim: Simulator) -> Client:
    """A client for which a megabyte is large."""
    return Client.of(sim.netloc, chunked=1_000_000, chunk=300_000)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("query", [False, True])
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_places_of_uploads(
    sim: Simulator, chunky: Client, relative: bool, query: bool, size: int
) -> None:
    sim.relative_location, sim.location_query = relative, query
    data = noise(size)
    chunky.destination("a/x").upload(blob(data), once(data))
    last = sim.asked("PUT")[-1]
    assert last.query["digest"] == [str(blob(data).digest)]
    assert last.query.get("_state") == (["abc="] if query else None)


@pytest.mark.parametrize("status", ["202", "401", "403", "404", "405", "501"])
def test_a_mount_that_is_refused_is_an_upload(sim: Simulator, client: Client, status: str) -> None:
    sim.mount = status
    sim.add_blob("a/base", b"base")
    parcel = Parcel(blob(b"base"), once(b"base"), client.reference("a/base"))
    [how] = deliver(client.destination("a/x"), [parcel])
    assert how.value == "sent"
    assert str(blob(b"base").digest) in sim.repo("a/x").blobs
    assert len(sim.asked("POST")) == {"202": 1, "401": 3, "403": 3}.get(status, 2)


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_question_that_is_not_answered_is_no_no(
    sim: Simulator, client: Client, status: int
) -> None:
    sim.plan("HEAD", "", Reply(status), times=99)
    there = client.destination("a/x")
    with pytest.raises(UnreachableError, match="cannot be asked for a blob"):
        there.has(blob(b"1"))
    with pytest.raises(UnreachableError, match="cannot be asked for v1"):
        there.current("v1")


def test_a_mount_at_a_busy_registry(sim: Simulator, client: Client) -> None:
    sim.plan("POST", "", Reply(503), times=99)
    with pytest.raises(UnreachableError, match="cannot take a blob over"):
        client.destination("a/x").mount(blob(b"1"), client.reference("a/base"))


def test_no_mount_between_registries(sim: Simulator, client: Client) -> None:
    elsewhere = client.reference("a/base").parse("other.io/a/base")
    assert not client.destination("a/x").mount(blob(b"base"), elsewhere)
    assert not sim.requests


def test_a_mount_from_the_same_repository_is_a_look(sim: Simulator, client: Client) -> None:
    sim.add_blob("a/x", b"base")
    assert client.destination("a/x").mount(blob(b"base"), client.reference("a/x:v1"))
    assert [one.method for one in sim.requests] == ["HEAD"]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("after", [0, 1, 2, 100_000, 299_999, 300_000])
def test_a_broken_chunk_goes_on_where_it_broke(
    sim: Simulator, chunky: Client, after: int, kept: bool
) -> None:
    sim.plan("PATCH", "/uploads/", Cut(after, kept=kept), skip=1)
    data = noise(1_000_000)
    chunky.destination("a/x").upload(blob(data), lambda: [data[:7], data[7:]])
    assert sim.blobs[str(blob(data).digest)] == data
    assert len(sim.asked("POST")) == 1


@pytest.mark.parametrize("after", [0, 1, 200_000])
def test_a_first_chunk_that_breaks(sim: Simulator, chunky: Client, after: int) -> None:
    sim.plan("PATCH", "/uploads/", Cut(after))
    data = noise(1_000_000)
    chunky.destination("a/x").upload(blob(data), once(data))
    assert sim.blobs[str(blob(data).digest)] == data


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_registry_in_the_middle(sim: Simulator, chunky: Client, status: int) -> None:
    sim.plan("PATCH", "/uploads/", Reply(status, {"Retry-After": "2"}), skip=1, times=2)
    sim.plan("PUT", "/uploads/", Reply(status))
    data = noise(1_000_000)
    chunky.destination("a/x").upload(blob(data), once(data))
    assert sim.blobs[str(blob(data).digest)] == data
    assert chunky.time.slept[:2] == [2.125, 2.25]


def test_an_upload_that_is_forgotten_begins_anew(sim: Simulator, chunky: Client) -> None:
    sim.plan("PATCH", "/uploads/", Reply(404), skip=2)
    data = noise(1_000_000)
    chunky.destination("a/x").upload(blob(data), once(data))
    assert sim.blobs[str(blob(data).digest)] == data
    assert len(sim.asked("POST")) == 2


def test_an_upload_that_lost_what_it_had(sim: Simulator, chunky: Client) -> None:
    sim.plan("PATCH", "/uploads/", Cut(0), skip=1)
    sim.plan("GET", "/uploads/", Reply(204, {"Range": "0-10"}))
    data = noise(1_000_000)
    chunky.destination("a/x").upload(blob(data), once(data))
    assert sim.blobs[str(blob(data).digest)] == data
    assert len(sim.asked("POST")) == 2
    assert all(one.headers["Content-Range"][:3] != "11-" for one in sim.asked("PATCH"))


def test_an_upload_that_is_out_of_step(sim: Simulator, chunky: Client) -> None:
    sim.plan("PATCH", "/uploads/", Reply(416), skip=1)
    data = noise(1_000_000)
    chunky.destination("a/x").upload(blob(data), once(data))
    assert sim.blobs[str(blob(data).digest)] == data


@pytest.mark.parametrize("size", [1_000, 900_000])
def test_a_blob_in_one_that_breaks_is_sent_again(sim: Simulator, chunky: Client, size: int) -> None:
    sim.plan("PUT", "/uploads/", Cut(500), times=2)
    data = noise(size)
    chunky.destination("a/x").upload(blob(data), lambda: [data[:3], data[3:]])
    assert sim.blobs[str(blob(data).digest)] == data


def test_only_the_answer_was_lost(sim: Simulator, client: Client) -> None:
    sim.add_blob("a/x", b"data")
    sim.plan("PUT", "/uploads/", Cut(4))
    client.destination("a/x").upload(blob(b"data"), once(b"data"))
    assert len(sim.asked("PUT")) == 1


def test_an_upload_that_always_breaks_ends(sim: Simulator, chunky: Client) -> None:
    sim.plan("PATCH", "/uploads/", Cut(0), times=999)
    data = noise(1_000_000)
    with pytest.raises(UnreachableError):
        chunky.destination("a/x").upload(blob(data), once(data))
    assert len(sim.requests) < 100


def test_the_registrys_least_chunk_is_kept_to(sim: Simulator, chunky: Client) -> None:
    sim.min_chunk = 500_000
    data = noise(1_500_000)
    chunky.destination("a/x").upload(blob(data), once(data))
    assert [one.headers["Content-Range"] for one in sim.asked("PATCH")] == [
        "0-499999",
        "500000-999999",
        "1000000-1499999",
    ]


def test_a_repository_that_must_be_made_first(sim: Simulator, client: Client) -> None:
    sim.auto_create = False
    with pytest.raises(InputError, match="no such repository") as caught:
        client.destination("a/x").upload(blob(b"1"), once(b"1"))
    assert "create the repository first" in str(caught.value)


def test_a_push_of_a_manifest_is_three_requests(sim: Simulator, client: Client) -> None:
    for data in (MANIFEST.config, *MANIFEST.layers):
        sim.add_blob("a/x", data)
    put(client, MANIFEST)
    assert [one.method for one in sim.requests] == ["HEAD", "PUT", "HEAD"]


def put(client: Client, image: Small, tag: str | None = "v1") -> None:
    client.destination("a/x").put(image.manifest.raw, OCI.manifest, tag)


def test_an_equal_manifest_is_not_put_again(sim: Simulator, client: Client) -> None:
    MANIFEST.put_into(sim, "a/x", "v1")
    sim.immutable_tags = True
    put(client, MANIFEST)
    assert [one.method for one in sim.requests] == ["HEAD"]


@pytest.mark.parametrize("header", ["wrong", "none"])
def test_an_equal_manifest_under_an_immutable_tag_and_no_digest_to_go_by(
    sim: Simulator, client: Client, header: str
) -> None:
    MANIFEST.put_into(sim, "a/x", "v1")
    sim.immutable_tags, sim.digest_header = True, header
    put(client, MANIFEST)


def test_a_registry_without_head(sim: Simulator, client: Client) -> None:
    MANIFEST.put_into(sim, "a/x")
    sim.head_manifests = False
    put(client, MANIFEST)
    assert sim.repo("a/x").tags == {"v1": str(MANIFEST.manifest.digest)}


def test_an_immutable_tag_of_other_content(sim: Simulator, client: Client) -> None:
    other = Small.make(b"other")
    MANIFEST.put_into(sim, "a/x", "v1")
    other.put_into(sim, "a/x")
    sim.immutable_tags = True
    with pytest.raises(InputError, match="does not let it be moved") as caught:
        put(client, other)
    assert f"expected: {other.manifest.digest}" in str(caught.value)
    assert f"found:    {MANIFEST.manifest.digest}" in str(caught.value)
    assert "--tag" in str(caught.value)


@pytest.mark.parametrize("tag", ["v1", None])
def test_a_manifest_that_the_registry_did_not_keep(
    sim: Simulator, client: Client, tag: str | None
) -> None:
    sim.plan("PUT", "/manifests/", Reply(201))
    with pytest.raises(IntegrityError, match="took a manifest and names another") as caught:
        put(client, MANIFEST, tag)
    assert "found:    nothing" in str(caught.value)


def test_a_manifest_that_is_refused(sim: Simulator, client: Client) -> None:
    body = b'{"errors":[{"code":"MANIFEST_INVALID","message":"no","detail":"layers"}]}'
    sim.plan("PUT", "/manifests/", Reply(400, body=body))
    with pytest.raises(UnreachableError, match=r"MANIFEST_INVALID: no \(layers\)"):
        put(client, MANIFEST)


def test_the_first_failure_of_many_is_raised(sim: Simulator, client: Client) -> None:
    parcels = [Parcel(blob(bytes([one])), once(bytes([one, one]))) for one in range(20)]
    with pytest.raises(IntegrityError, match="another size") as caught:
        deliver(client.destination("a/x"), parcels)
    assert blob(b"\0").digest.hex in str(caught.value)
    assert len(sim.asked("HEAD")) <= 8  # none is begun after a failure


def test_deliveries_overlap(sim: Simulator, client: Client) -> None:
    sim.delay = 0.05
    parcels = [Parcel(blob(bytes([one])), once(bytes([one]))) for one in range(8)]
    start = time.monotonic()
    deliver(client.destination("a/x"), parcels)
    assert len(sim.requests) == 24
    assert time.monotonic() - start < 0.8  # 1.2 s one after the other
