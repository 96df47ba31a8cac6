"""Whose credentials: files and helpers of docker and podman."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from composer.errors import InputError
from composer.oci.registry.credentials import Credentials, auth_files, find_credentials


def pair(user: str, password: str = "s3cret") -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def helper(directory: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = directory / f"docker-credential-{name}"
    path.write_text(f'#!/bin/sh\nread -r server; echo "$1 $server" >>{directory}/asked\n{script}\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=":")


def test_which_files(tmp_path: Path) -> None:
    runtime, docker = {"XDG_RUNTIME_DIR": "/run/1"}, {"DOCKER_CONFIG": "/d"}
    podman = Path("/run/1/containers/auth.json")
    assert auth_files({}, tmp_path) == (tmp_path / ".docker/config.json",)
    assert auth_files(runtime, tmp_path) == (podman, tmp_path / ".docker/config.json")
    assert auth_files(runtime | docker, tmp_path) == (podman, Path("/d/config.json"))
    assert auth_files({**runtime, "REGISTRY_AUTH_FILE": "/a"}, tmp_path) == (Path("/a"),)


@pytest.mark.parametrize(
    ("path", "user"),
    [
        ("team/app/server", "server"),
        ("team/app/other", "app"),
        ("team/application", "team"),
        ("team", "team"),
        ("teams/app", "host"),
    ],
)
def test_the_longest_key_wins(tmp_path: Path, path: str, user: str) -> None:
    keys = {"r.io": "host", "r.io/team": "team", "r.io/team/app": "app"}
    keys["r.io/team/app/server"] = "server"
    auths = {key: pair(name) for key, name in keys.items()}
    file = write(tmp_path / "auth.json", {"auths": auths})
    assert find_credentials("r.io", path, (file,)).username == user


@pytest.mark.parametrize(
    ("key", "domain"),
    [
        ("https://index.docker.io/v1/", "docker.io"),
        ("docker.io", "docker.io"),
        ("https://registry-1.docker.io", "docker.io"),
        ("https://r.io:5000/v2/", "r.io:5000"),
        ("https://r.io", "r.io"),
        ("http://r.io/", "r.io"),
    ],
)
def test_keys_as_docker_writes_them(tmp_path: Path, key: str, domain: str) -> None:
    file = write(tmp_path / "config.json", {"auths": {key: pair("ann")}})
    found = find_credentials(domain, "library/x", (file,))
    assert (found.username, found.password) == ("ann", "s3cret")
    assert not find_credentials("other.io", "library/x", (file,))


def test_the_first_file_that_knows_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "1", {"auths": {"a.io": pair("one"), "b.io": {}}})
    second = write(tmp_path / "2", {"auths": {"a.io": pair("two"), "b.io": pair("two")}})
    files = (tmp_path / "absent", first, second)
    assert find_credentials("a.io", "x", files).username == "one"
    assert find_credentials("b.io", "x", files).username == "two"


def test_kinds_of_entries(tmp_path: Path) -> None:
    auths = {
        "a.io": {**pair("ann"), "identitytoken": "idt"},
        "b.io": {"registrytoken": "rt"},
        "c.io": {"username": "u", "password": "p:w"},
        "d.io": pair("u", "p:w\0"),
    }
    file = write(tmp_path / "config.json", {"auths": auths})
    assert find_credentials("a.io", "x", (file,)).identity_token == "idt"
    assert find_credentials("b.io", "x", (file,)).registry_token == "rt"
    for domain in ("c.io", "d.io"):
        assert find_credentials(domain, "x", (file,)).basic == "Basic dTpwOnc="


def test_no_secret_is_shown(tmp_path: Path) -> None:
    secret = Credentials("F", "ann", "s3cret", "s3cret", "s3cret")
    assert repr(secret) == "Credentials(source='F')"
    file = write(tmp_path / "f", {"auths": {"a.io": pair("ann")}})
    assert find_credentials("a.io", "x", (file,)).source == f"{file} (a.io)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ('{"auths": []}', None),
        ('{"auths": [1]}', "auths is not an object"),
        ('{"auths": {"a.io": 1}}', "an entry of auths is not an object"),
        ('{"auths": {"a.io": {"auth": "%%s3cret"}}}', "an auth is not base64 of user:password"),
        ("", None),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, found: str | None) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    if found is None:
        assert not find_credentials("a.io", "x", (file,))
        return
    with pytest.raises(InputError) as caught:
        find_credentials("a.io", "x", (file,))
    assert f"found:    {found}" in str(caught.value)
    assert str(file) in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, "one", """echo '{"Username":"h","Secret":"s3cret"}'""", monkeypatch)
    helper(tmp_path, "all", """echo '{"Username":"<token>","Secret":"idt"}'""", monkeypatch)
    file = write(
        tmp_path / "config.json",
        {"credHelpers": {"a.io": "one"}, "credsStore": "all", "auths": {"b.io": pair("ann")}},
    )
    assert find_credentials("a.io", "x", (file,)).basic == "Basic aDpzM2NyZXQ="
    assert find_credentials("b.io", "x", (file,)).username == "ann"
    hub = find_credentials("docker.io", "library/x", (file,))
    assert hub.identity_token == "idt"
    assert hub.source == f"docker-credential-all of {file}"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["get a.io", "get https://index.docker.io/v1/"]


@pytest.mark.parametrize(
    ("script", "source"),
    [
        ("echo credentials not found in native keychain; exit 1", "no credentials (looked in"),
        ("echo the keychain is locked, token=s3cret; exit 1", "failed: the keychain is locked"),
        ("echo '[]'", "failed: its answer is not the JSON it owes"),
    ],
)
def test_a_helper_that_gives_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, source: str
) -> None:
    helper(tmp_path, "odd", script, monkeypatch)
    file = write(tmp_path / "config.json", {"credsStore": "odd"})
    found = find_credentials("a.io", "x", (file,))
    assert not found
    assert source in found.source
    assert "s3cret" not in found.source


def test_a_helper_that_is_not_installed(tmp_path: Path) -> None:
    file = write(tmp_path / "config.json", {"credsStore": "nowhere"})
    found = find_credentials("a.io", "x", (file,))
    assert not found
    assert "docker-credential-nowhere of" in found.source
