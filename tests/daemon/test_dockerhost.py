"""Which daemon is meant, as the docker command decides it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from composer.errors import InputError, UnreachableError
from composer.oci.daemon import Daemon
from composer.oci.dockerhost import DEFAULT_HOST, Endpoint, endpoint


def context(home: Path, name: str, host: str, *, current: bool = True) -> Path:
    """A context as `docker context create` leaves it."""
    key = hashlib.sha256(name.encode()).hexdigest()
    meta = home / ".docker" / "contexts" / "meta" / key
    meta.mkdir(parents=True)
    document = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host}}}
    (meta / "meta.json").write_text(json.dumps(document))
    if current:
        (home / ".docker" / "config.json").write_text(json.dumps({"currentContext": name}))
    return home / ".docker" / "contexts" / "tls" / key / "docker"


def test_the_order(tmp_path: Path) -> None:
    assert endpoint({}, tmp_path).host == DEFAULT_HOST
    context(tmp_path, "farm", "ssh://me@node1")
    context(tmp_path, "other", "tcp://node2:2376", current=False)
    assert endpoint({}, tmp_path) == Endpoint("ssh://me@node1", "the context 'farm'")
    assert endpoint({"DOCKER_CONTEXT": "other"}, tmp_path).host == "tcp://node2:2376"
    assert endpoint({"DOCKER_CONTEXT": "default"}, tmp_path).host == DEFAULT_HOST
    both = {"DOCKER_CONTEXT": "other", "DOCKER_HOST": "unix:///run/mine.sock"}
    assert endpoint(both, tmp_path) == Endpoint("unix:///run/mine.sock", "DOCKER_HOST")
    assert endpoint(both, tmp_path, "tcp://x:1").host == "tcp://x:1"
    elsewhere = {"DOCKER_CONFIG": str(tmp_path / ".docker")}
    assert endpoint(elsewhere, Path("/nonexistent")).host == "ssh://me@node1"


def test_certificates(tmp_path: Path) -> None:
    tls = context(tmp_path, "farm", "tcp://node:2376")
    assert endpoint({}, tmp_path).tls is None
    tls.mkdir(parents=True)
    (tls / "ca.pem").write_text("")
    assert endpoint({}, tmp_path).tls == tls
    found = endpoint({"DOCKER_HOST": "tcp://n:1", "DOCKER_TLS_VERIFY": "1"}, tmp_path)
    assert found == Endpoint("tcp://n:1", "DOCKER_HOST", tmp_path / ".docker")
    found = endpoint({"DOCKER_HOST": "tcp://n:1", "DOCKER_CERT_PATH": "/c"}, tmp_path)
    assert found == Endpoint("tcp://n:1", "DOCKER_HOST", Path("/c"), verify=False)


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no Docker context 'gone'") as caught:
        endpoint({"DOCKER_CONTEXT": "gone"}, tmp_path)
    assert "docker context use default" in caught.value.faults[0].fix
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text("{")
    with pytest.raises(InputError, match="configuration cannot be read"):
        endpoint({}, tmp_path)


@pytest.mark.skipif(shutil.which("docker") is None, reason="docker is not installed")
def test_a_context_that_docker_made(tmp_path: Path) -> None:
    environ = {"DOCKER_CONFIG": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    for command in (
        ["docker", "context", "create", "farm", "--docker", "host=tcp://node3:2375"],
        ["docker", "context", "use", "farm"],
    ):
        subprocess.run(command, env=environ, check=True, capture_output=True)
    assert endpoint(environ, Path("/nonexistent")).host == "tcp://node3:2375"


def test_ssh_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="cannot be used") as caught:
        Daemon.connect(Endpoint("ssh://nobody@127.0.0.1:1", "DOCKER_HOST"))
    fix = caught.value.faults[0].fix
    assert "docker -H ssh://nobody@127.0.0.1:1 version" in fix or "docker[ssh]" in fix
