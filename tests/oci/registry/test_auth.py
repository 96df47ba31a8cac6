"""Tokens, passwords, scopes; and that no secret leaves us for the wrong host or a message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from composer.errors import UnreachableError
from composer.oci.registry import Registries, Settings
from tests.support.registry import Reply, Simulator

from .conftest import Client
from .content import Small, blob, noise, once

SECRETS = ("s3cret", "tok3n", "id-t0ken", "YW5u")


def assert_clean(error: BaseException) -> str:
    text = str(error) + repr(error)
    assert not [secret for secret in SECRETS if secret in text]
    return str(error)


def test_a_token_is_asked_for_once(sim: Simulator, login: Path) -> None:
    sim.auth = "bearer"
    image = Small.make(b"layer")
    image.put_into(sim, "a/x", "v1")
    source = Client.of(sim.netloc, files=(login,)).source("a/x:v1")
    source.document(source.top())
    source.document(image.manifest.config)
    assert [str(one) for one in sim.requests] == [
        "GET /v2/a/x/manifests/v1",
        "GET /token",
        "GET /v2/a/x/manifests/v1",
        f"GET /v2/a/x/blobs/{image.manifest.config.digest}",
    ]
    assert sim.requests[1].query == {"service": ["sim, the one"], "scope": ["repository:a/x:pull"]}
    assert sim.requests[0].headers["User-Agent"].startswith("compose/")
    assert sim.requests[0].headers["Accept-Encoding"] == "identity"


def test_a_public_image_needs_no_credentials(sim: Simulator) -> None:
    sim.auth, sim.anonymous_pull = "bearer", True
    Small.make(b"layer").put_into(sim, "a/x", "v1")
    Client.of(sim.netloc).source("a/x:v1").top()
    assert "Authorization" not in sim.asked("GET", "/token")[0].headers


def test_an_identity_token_is_posted(sim: Simulator, tmp_path: Path) -> None:
    sim.auth = "bearer"
    Small.make(b"layer").put_into(sim, "a/x", "v1")
    file = tmp_path / "f"
    file.write_text(json.dumps({"auths": {sim.netloc: {"identitytoken": sim.identity_token}}}))
    Client.of(sim.netloc, files=(file,)).source("a/x:v1").top()
    assert len(sim.asked("POST", "/token")) == 1


def test_a_registry_token_is_used_as_it_is(sim: Simulator, tmp_path: Path) -> None:
    sim.auth, sim.tokens["given"] = "bearer", ({("a/x", "pull")}, 9)
    Small.make(b"layer").put_into(sim, "a/x", "v1")
    file = tmp_path / "f"
    file.write_text(json.dumps({"auths": {sim.netloc: {"registrytoken": "given"}}}))
    Client.of(sim.netloc, files=(file,)).source("a/x:v1").top()
    assert not sim.asked("GET", "/token")


def test_a_password_is_sent_at_once_after_the_first_time(sim: Simulator, login: Path) -> None:
    sim.auth = "basic"
    image = Small.make(b"layer")
    image.put_into(sim, "a/x", "v1")
    source = Client.of(sim.netloc, files=(login,)).source("a/x:v1")
    source.top()
    source.document(image.manifest.config)
    assert len(sim.requests) == 3


def test_a_token_that_ended_is_replaced(sim: Simulator, login: Path) -> None:
    sim.auth, sim.expires_in = "bearer", 60
    image = Small.make(b"layer")
    image.put_into(sim, "a/x", "v1")
    client = Client.of(sim.netloc, files=(login,))
    source = client.source("a/x:v1")
    source.top()
    client.time.now += 54
    source.document(image.manifest.config)
    assert len(sim.asked("GET", "/token")) == 1
    client.time.now += 2  # five seconds before its end it is not trusted any more
    source.document(image.manifest.config)
    assert len(sim.asked("GET", "/token")) == 2


@pytest.mark.parametrize("expires_in", [None, 0, -5])
def test_a_token_without_a_lifetime_lasts_a_minute(
    sim: Simulator, login: Path, expires_in: int | None
) -> None:
    sim.auth, sim.expires_in = "bearer", expires_in
    Small.make(b"layer").put_into(sim, "a/x", "v1")
    client = Client.of(sim.netloc, files=(login,))
    for _ in range(2):
        client.source("a/x:v1").top()
    client.time.now += 61
    client.source("a/x:v1").top()
    assert len(sim.asked("GET", "/token")) == 2


@pytest.mark.parametrize("size", [500, 2_000_000, 5_000_000])
def test_a_token_may_end_in_the_middle_of_an_upload(sim: Simulator, login: Path, size: int) -> None:
    sim.auth, sim.token_requests = "bearer", 2
    data = noise(size)
    client = Client.of(sim.netloc, files=(login,), chunked=3_000_000, chunk=400_000)
    there = client.destination("a/x")
    there.upload(blob(data), lambda: [data[: size // 2], data[size // 2 :]])
    assert there.has(blob(data))
    assert sim.blobs[str(blob(data).digest)] == data
    assert len(sim.tokens) > 1


def test_a_push_asks_for_pull_and_push_at_once(sim: Simulator, login: Path) -> None:
    sim.auth = "bearer"
    there = Client.of(sim.netloc, files=(login,)).destination("a/x")
    assert not there.has(blob(b"1"))
    there.upload(blob(b"1"), once(b"1"))
    assert len(sim.asked("GET", "/token")) == 1


def test_a_mount_asks_for_both_repositories(sim: Simulator, login: Path) -> None:
    sim.auth = "bearer"
    sim.add_blob("a/base", b"base")
    client = Client.of(sim.netloc, files=(login,))
    assert client.destination("a/x").mount(blob(b"base"), client.reference("a/base"))
    scopes = ["repository:a/base:pull", "repository:a/x:pull,push"]
    assert sim.asked("GET", "/token")[0].query["scope"] == scopes
    assert client.destination("a/x").has(blob(b"base"))  # with the same token
    assert len(sim.asked("GET", "/token")) == 1


@pytest.mark.parametrize("silently", [False, True])
def test_a_scope_that_is_refused_ends_in_an_upload(
    sim: Simulator, login: Path, silently: bool
) -> None:
    sim.auth, sim.refused_scopes, sim.refused_silently = "bearer", {"a/base"}, silently
    sim.add_blob("a/base", b"base")
    client = Client.of(sim.netloc, files=(login,))
    there = client.destination("a/x")
    assert not there.mount(blob(b"base"), client.reference("a/base"))
    there.upload(blob(b"base"), once(b"base"))
    assert there.has(blob(b"base"))
    asked = [set(one.query["scope"]) for one in sim.asked("GET", "/token")]
    assert {"repository:a/x:pull,push"} in asked


def test_no_permission_names_the_source_of_the_credentials(sim: Simulator, login: Path) -> None:
    sim.auth, sim.refused_scopes = "bearer", {"a/x"}
    with pytest.raises(UnreachableError, match="gives no token") as caught:
        Client.of(sim.netloc, files=(login,)).source("a/x:v1").top()
    text = assert_clean(caught.value)
    assert f"with {login} ({sim.netloc})" in text
    assert "DENIED: no scope for a/x" in text
    assert caught.value.exit_code == 3


def test_a_token_that_does_not_reach_is_no_permission(sim: Simulator, login: Path) -> None:
    sim.auth, sim.refused_scopes, sim.refused_silently = "bearer", {"a/x"}, True
    with pytest.raises(UnreachableError, match="no permission") as caught:
        Client.of(sim.netloc, files=(login,)).destination("a/x").upload(blob(b"1"), once(b"1"))
    text = assert_clean(caught.value)
    assert "UNAUTHORIZED: no access with Bearer ***" in text
    assert f"let these credentials push to it, or log in: docker login {sim.netloc}" in text
    assert len(sim.requests) < 10


def test_a_wrong_password(sim: Simulator, login: Path) -> None:
    sim.auth, sim.user = "bearer", ("ann", "another")
    with pytest.raises(UnreachableError, match="gives no token") as caught:
        Client.of(sim.netloc, files=(login,)).source("a/x:v1").top()
    assert_clean(caught.value)


def test_a_wrong_password_is_sent_once(sim: Simulator, login: Path) -> None:
    sim.auth, sim.user = "basic", ("ann", "another")
    with pytest.raises(UnreachableError, match="cannot be read: no permission") as caught:
        Client.of(sim.netloc, files=(login,)).source("a/x:v1").top()
    assert_clean(caught.value)
    assert len(sim.requests) == 2


def test_a_token_for_reading_is_not_tried_for_writing(sim: Simulator, login: Path) -> None:
    sim.auth = "bearer"
    Small.make(b"layer").put_into(sim, "a/x", "v1")
    client = Client.of(sim.netloc, files=(login,))
    client.source("a/x:v1").top()
    client.destination("a/x").upload(blob(b"1"), once(b"1"))
    assert len(sim.asked("GET", "/token")) == 2
    assert len(sim.asked("POST", "/uploads/")) == 1


def test_a_registry_that_asks_for_more_scopes(sim: Simulator, login: Path) -> None:
    sim.auth, sim.extra_scope = "bearer", "shared/all"
    Small.make(b"layer").put_into(sim, "a/x", "v1")
    Client.of(sim.netloc, files=(login,)).source("a/x:v1").top()
    assert [one.query["scope"] for one in sim.asked("GET", "/token")] == [
        ["repository:a/x:pull"],
        ["repository:a/x:pull", "repository:shared/all:pull"],
    ]


def test_forbidden_is_not_unknown(sim: Simulator) -> None:
    sim.plan("GET", "/manifests/", Reply(403, body=b'{"errors":[{"code":"DENIED"}]}'))
    with pytest.raises(UnreachableError, match="cannot be read: no permission"):
        Client.of(sim.netloc).source("a/x:v1").top()


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"no json", b'{"token": 1}', b'{"token": "a\\nb"}', b'{"token": ""}']
)
def test_a_token_service_that_talks_nonsense(sim: Simulator, body: bytes) -> None:
    sim.auth = "bearer"
    sim.plan("GET", "/token", Reply(200, body=body))
    with pytest.raises(UnreachableError, match=r"the token service of .* gives no token"):
        Client.of(sim.netloc).source("a/x:v1").top()


def test_a_busy_token_service_is_asked_again(sim: Simulator, login: Path) -> None:
    sim.auth = "bearer"
    Small.make(b"layer").put_into(sim, "a/x", "v1")
    sim.plan("GET", "/token", Reply(429, {"Retry-After": "3"}), times=2)
    client = Client.of(sim.netloc, files=(login,))
    client.source("a/x:v1").top()
    assert client.time.slept == [3.125, 3.25]


def test_a_dead_token_service_is_not_asked_for_ever(sim: Simulator, login: Path) -> None:
    realm = 'Bearer realm="http://127.0.0.1:9/token",service="s"'
    sim.plan("GET", "/v2/", Reply(401, {"WWW-Authenticate": realm}), times=99)
    client = Client.of(sim.netloc, files=(login,))
    with pytest.raises(UnreachableError, match=r"127.0.0.1:9 cannot be reached"):
        client.source("a/x:v1").top()
    assert len(client.time.slept) == 2


@pytest.mark.parametrize("realm", ["http://auth.example/token", "/token", "ftp://a/b", ""])
def test_a_password_goes_to_no_service_without_tls(sim: Simulator, login: Path, realm: str) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{realm}",service="s"'}
    sim.plan("GET", "/v2/", Reply(401, challenge), times=9)
    with pytest.raises(UnreachableError, match=r"must not be sent to|no permission"):
        Client.of(sim.netloc, files=(login,)).source("a/x:v1").top()
    assert all("Authorization" not in one.headers for one in sim.requests)


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_a_redirect_to_another_host_gets_no_authorization(
    sim: Simulator, login: Path, auth: str
) -> None:
    sim.auth = auth
    image = Small.make(noise(100_000))
    image.put_into(sim, "a/x", "v1")
    with Simulator().running() as elsewhere:
        image.put_into(elsewhere, "a/x")
        sim.redirect_blobs = f"http://{elsewhere.netloc}"
        source = Client.of(sim.netloc, files=(login,)).source("a/x:v1")
        source.document(source.top())
        source.document(image.manifest.config)
        assert b"".join(source.chunks(image.manifest.layers[0])) == image.layers[0]
        assert len(elsewhere.requests) == 2
        assert all("Authorization" not in one.headers for one in elsewhere.requests)


@pytest.mark.parametrize("auth", ["", "basic"])
def test_another_hosts_challenge_is_not_answered(sim: Simulator, login: Path, auth: str) -> None:
    sim.auth = auth
    image = Small.make(b"layer")
    image.put_into(sim, "a/x", "v1")
    with Simulator(auth="basic").running() as elsewhere:
        sim.redirect_blobs = f"http://{elsewhere.netloc}"
        source = Client.of(sim.netloc, files=(login,)).source("a/x:v1")
        with pytest.raises(UnreachableError, match="no permission") as caught:
            list(source.chunks(image.manifest.layers[0]))
        assert "h1dden" not in str(caught.value)
        assert ["Authorization" in one.headers for one in elsewhere.requests] == [False]


def test_redirects_end(sim: Simulator) -> None:
    image = Small.make(b"layer")
    image.put_into(sim, "a/x", "v1")
    sim.redirect_blobs = f"http://{sim.netloc}"
    with pytest.raises(UnreachableError, match="round in circles") as caught:
        list(Client.of(sim.netloc).source("a/x:v1").chunks(image.manifest.layers[0]))
    assert "h1dden" not in str(caught.value)
    assert len(sim.requests) == 6


def test_no_secret_is_in_a_repr(sim: Simulator, login: Path) -> None:
    sim.auth = "bearer"
    Small.make(b"layer").put_into(sim, "a/x", "v1")
    client = Client.of(sim.netloc, files=(login,), environ={"HTTPS_PROXY": "http://u:s3cret@p:1"})
    source = client.source("a/x:v1")
    source.top()
    session = client.registries._session(sim.netloc)
    shown = repr((source, client.registries, session, session.authority, source._remote))
    assert not [secret for secret in SECRETS if secret in shown]


def test_settings_come_from_the_environment(tmp_path: Path) -> None:
    environ = {"COMPOSE_INSECURE_REGISTRIES": "lab:5000, other ,", "DOCKER_CONFIG": "/d"}
    settings = Settings.of(environ, tmp_path)
    assert settings.plain == {"lab:5000", "other"}
    assert settings.files == (Path("/d/config.json"),)
    assert Registries.from_environment().settings.certs
