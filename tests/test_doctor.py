"""`compose doctor`: what it finds on machines and registries, and how it says so."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from composer.doctor import Level
from composer.doctor.machine import file_system, free_space, mounted_as
from tests.oci.support import tmpfs
from tests.support.commands import ROOT, Done, compose
from tests.support.distribution import running_registry
from tests.support.registry import Cut, Reply, Simulator

GIB = 1024**3
MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /tmp rw - tmpfs tmpfs rw,size=1g
24 22 0:40 / /home rw master:2 - nfs4 server:/home rw
25 24 8:2 / /home/ann/my\040disk rw - xfs /dev/sdb1 rw
26 22 0:50 / /mnt rw - ext4 /dev/sdc1 rw
27 22 0:51 / /mnt rw - cifs //server/share rw
not a line of it
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/cache", "ext4"),
        ("/tmp", "tmpfs"),
        ("/tmpfiles", "ext4"),
        ("/home/ann", "nfs4"),
        ("/home/ann/my disk/store", "xfs"),
        ("/mnt/store", "cifs"),
    ],
)
def test_the_file_system_a_path_is_on(path: str, kind: str) -> None:
    assert mounted_as(Path(path), MOUNTS) == kind


def test_judgements() -> None:
    assert file_system("ext4").level is Level.OK
    assert file_system("").found == "not known"
    assert "its server" in file_system("nfs4").found
    assert "COMPOSE_STORE" in file_system("tmpfs").fix
    assert (free_space(5 * GIB).level, free_space(GIB).level) == (Level.OK, Level.WARN)
    assert free_space(GIB).found.startswith("1.0 GiB; ")


# -- the machine -------------------------------------------------------------------------------


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """A person without a Docker daemon, and without credentials."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "HOME": str(home),
        "DOCKER_HOST": "unix:///nowhere/docker.sock",
        "DOCKER_CONFIG": str(home / ".docker"),
        "REGISTRY_AUTH_FILE": str(home / "auth.json"),
    }


def doctor(env: dict[str, str], *arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """Run it and return what was found by name."""
    done = compose("doctor", "--json", *arguments, cwd=ROOT, env=env, ok=False)
    assert done.code == code, done
    document = done.json
    assert document["ok"] == (code == 0)
    levels = {one["level"] for one in document["findings"]}
    assert ("fail" in levels) == (code == 1)
    return {one["name"]: one for one in document["findings"]}


def test_a_machine_without_a_daemon(surroundings: dict[str, str], own_store: Path) -> None:
    found = doctor(surroundings)
    depends = {found.pop(name)["level"] for name in ("free space", "file system")}
    assert depends <= {"ok", "warn"}
    assert {name: one["level"] for name, one in found.items()} == {
        "python": "ok",
        "pip": "ok",
        "git": "ok",
        "store": "ok",
        "docker context": "ok",
        "docker daemon": "warn",
    }
    assert {one["about"] for one in found.values()} == {"machine"}
    assert found["store"]["found"] == f"{own_store}, which the first build makes"
    assert found["docker context"]["found"] == "DOCKER_HOST: unix:///nowhere/docker.sock"
    assert found["docker daemon"]["found"] == "not reached: [Errno 2] No such file or directory"
    assert "systemctl start docker" in found["docker daemon"]["fix"]
    assert not own_store.exists(), "nothing is changed"


def test_a_context_that_is_not_there(surroundings: dict[str, str]) -> None:
    del surroundings["DOCKER_HOST"]
    found = doctor({**surroundings, "DOCKER_HOST": "", "DOCKER_CONTEXT": "gone"})
    assert found["docker context"]["level"] == "warn"
    assert "'gone'" in found["docker context"]["found"]
    assert "docker daemon" not in found


def test_a_store_that_cannot_be(surroundings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = {**surroundings, "COMPOSE_STORE": str(tmp_path / "file" / "store")}
    found = doctor(env, code=1)
    assert found["store"]["level"] == "fail"
    assert found["store"]["found"].endswith("file/store cannot be written: Not a directory")
    assert "COMPOSE_STORE" in found["store"]["fix"]


def test_a_store_in_memory(surroundings: dict[str, str], tmp_path: Path) -> None:
    with tmpfs(tmp_path / "memory") as memory:
        found = doctor({**surroundings, "COMPOSE_STORE": str(memory / "store")})
    assert (found["file system"]["level"], found["free space"]["level"]) == ("warn", "warn")
    assert found["file system"]["found"].startswith("tmpfs: ")


def test_programs_that_are_missing_or_broken(surroundings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text("")
    (tmp_path / "pip" / "__main__.py").write_text("raise SystemExit('pip is broken')")
    env = {**surroundings, "PATH": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    found = doctor(env, code=1)
    assert (found["pip"]["level"], found["git"]["level"]) == ("fail", "fail")
    assert found["pip"]["found"] == "pip is broken"
    assert found["git"]["found"] == "git cannot be run: No such file or directory"
    assert found["git"]["fix"] == "apt-get install git"


def test_what_a_person_sees(surroundings: dict[str, str], sim: Simulator) -> None:
    env = {**surroundings, "COMPOSE_STORE": "/"}
    done = compose("doctor", f"{sim.netloc}/app", cwd=ROOT, env=env)
    machine, registry = done.out.split("\n\n")
    assert machine.startswith("machine\n  ok    python          3.")
    assert registry.startswith(f"registry {sim.netloc}\n  ok    reachable       http://")
    assert f"\n{'':24}fix: start it (systemctl start docker)" in machine
    for line in done.out.splitlines():
        assert len(line) <= 80 or " " not in line[24:], line
        assert (
            line.startswith((" " * 24, "  ok    ", "  warn  ", "machine", "registry")) or not line
        )
    assert done.err == "note: what the repository takes was not tried: --write\n"


# -- registries --------------------------------------------------------------------------------


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator().running() as simulator:
        yield simulator


def levels(found: dict[str, dict[str, Any]], about: str) -> dict[str, str]:
    return {one["name"]: one["level"] for one in found.values() if one["about"] == about}


def log_in(env: dict[str, str], sim: Simulator, password: str = "") -> None:
    pair = f"{sim.user[0]}:{password or sim.user[1]}"
    auths = {sim.netloc: {"auth": base64.b64encode(pair.encode()).decode()}}
    Path(env["REGISTRY_AUTH_FILE"]).write_text(json.dumps({"auths": auths}))


def test_a_registry_is_only_read(surroundings: dict[str, str], sim: Simulator) -> None:
    sim.add_blob("app", b"something")
    found = doctor(surroundings, f"{sim.netloc}/app")
    assert levels(found, f"registry {sim.netloc}") == {
        "reachable": "ok",
        "auth": "ok",
        "repository": "ok",
        "referrers": "ok",
    }
    assert found["reachable"]["found"] == f"http://{sim.netloc}, API registry/2.0"
    assert {one.method for one in sim.requests} == {"GET"}
    assert levels(doctor(surroundings, sim.netloc), f"registry {sim.netloc}") == {
        "reachable": "ok",
        "auth": "ok",
    }


def test_what_a_repository_takes(surroundings: dict[str, str], sim: Simulator) -> None:
    found = doctor(surroundings, f"{sim.netloc}/team/app", "--write")
    assert set(levels(found, f"registry {sim.netloc}").values()) == {"ok", "warn"}
    assert found["repository"]["level"] == "warn", "it is not there yet"
    for name in ("push", "mount", "ranges", "plain layers", "OCI index", "left behind"):
        assert found[name]["level"] == "ok", found[name]
    app, beside = f"{sim.netloc}/team/app", f"{sim.netloc}/team/app/compose-doctor"
    assert found["left behind"]["found"].endswith(f"{app} and {beside}")
    left = {name: (set(repo.blobs), set(repo.manifests)) for name, repo in sim.repositories.items()}
    assert set(left) == {"team/app", "team/app/compose-doctor"}
    doctor(surroundings, f"{sim.netloc}/team/app", "--write")
    assert left == {
        name: (set(repo.blobs), set(repo.manifests)) for name, repo in sim.repositories.items()
    }, "trying again leaves nothing more"
    assert sum(map(len, sim.blobs.values())) < 4096
    assert not any(repo.tags for repo in sim.repositories.values())


def test_what_a_registry_cannot_do(surroundings: dict[str, str], sim: Simulator) -> None:
    sim.mount, sim.ranges, sim.referrers, sim.api_version = "202", False, False, ""
    sim.plan("PUT", "/manifests/", Reply(415, body=b"no such thing"), times=9)
    found = doctor(surroundings, f"{sim.netloc}/app", "--write")
    assert found["reachable"]["found"].endswith("API without a version")
    for name in ("mount", "ranges", "referrers", "plain layers", "OCI index"):
        assert found[name]["level"] == "warn", found[name]
    assert "--copy-base" in found["mount"]["fix"]
    assert "no such thing" in found["plain layers"]["found"]
    assert found["push"]["level"] == "ok"


def test_no_repository_can_be_made_below(surroundings: dict[str, str], sim: Simulator) -> None:
    sim.auto_create = False
    sim.repo("app")
    found = doctor(surroundings, f"{sim.netloc}/app", "--write")
    assert found["mount"]["level"] == "warn"
    assert found["mount"]["found"].startswith("not tried: the registry has no such repository")
    assert f"let {sim.netloc}/app/compose-doctor be written to" in found["mount"]["fix"]
    assert found["OCI index"]["level"] == "ok"
    assert found["left behind"]["found"].endswith(f" in {sim.netloc}/app")


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_who_we_are(surroundings: dict[str, str], sim: Simulator, auth: str) -> None:
    sim.auth = auth
    app = f"{sim.netloc}/app"
    nobody = doctor(surroundings, app, "--write")
    assert (nobody["auth"]["level"], nobody["repository"]["level"]) == ("warn", "warn")
    assert f"docker login {sim.netloc}" in nobody["auth"]["fix"]
    assert "push" not in nobody
    log_in(surroundings, sim)
    somebody = doctor(surroundings, app, "--write")
    assert somebody["auth"]["level"] == "ok"
    file = surroundings["REGISTRY_AUTH_FILE"]
    assert somebody["auth"]["found"] == f"accepted: {file} ({sim.netloc})"
    assert somebody["push"]["level"] == "ok"
    log_in(surroundings, sim, "s3cret-wrong")
    wrong = doctor(surroundings, app, code=1)
    assert wrong["auth"]["level"] == "fail"
    assert file in wrong["auth"]["found"]
    everything = json.dumps([nobody, somebody, wrong])
    for secret in ("s3cret", "YW5u", "tok3n"):
        assert secret not in everything


def test_a_repository_open_to_all_in_a_registry_that_is_not(
    surroundings: dict[str, str], sim: Simulator
) -> None:
    sim.auth, sim.anonymous_pull = "bearer", True
    found = doctor(surroundings, f"{sim.netloc}/app")
    assert found["auth"]["level"] == "warn"
    assert found["auth"]["found"].startswith("anonymous: no credentials (looked in ")
    assert found["referrers"]["level"] == "ok"
    pushed = doctor(surroundings, f"{sim.netloc}/app", "--write")
    assert (pushed["push"]["level"], pushed["repository"]["level"]) == ("warn", "warn")
    assert "mount" not in pushed


def test_broken_credentials(surroundings: dict[str, str], sim: Simulator) -> None:
    Path(surroundings["REGISTRY_AUTH_FILE"]).write_text("{")
    found = doctor(surroundings, sim.netloc, code=1)
    assert found["auth"]["level"] == "fail"
    assert "not valid JSON" in found["auth"]["found"]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (Reply(404, body=b"nginx"), "HTTP 404: nginx"),
        (Cut(0), "cannot be reached"),
    ],
)
def test_no_registry_there(
    surroundings: dict[str, str], sim: Simulator, action: Reply | Cut, said: str
) -> None:
    sim.plan("GET", "^/v2/$", action, times=9)
    found = doctor(surroundings, f"{sim.netloc}/app", "--write", code=1)
    assert list(levels(found, f"registry {sim.netloc}").items()) == [("reachable", "fail")]
    assert said in found["reachable"]["found"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ubuntu/x"], "'ubuntu' is not a registry host"),
        (["registry.example/UPPER"], "not a repository name"),
        (["registry.example", "--write"], "only a repository can be written to"),
        (["--write"], "--write needs a repository"),
    ],
)
def test_what_is_no_registry(surroundings: dict[str, str], arguments: list[str], said: str) -> None:
    done: Done = compose("doctor", *arguments, cwd=ROOT, env=surroundings, ok=False)
    assert done.code == 2
    assert said in done.err


def test_the_real_registry(surroundings: dict[str, str], tmp_path: Path) -> None:
    with running_registry(tmp_path) as netloc:
        found = doctor(surroundings, f"{netloc}/team/app", "--write")
        again = doctor(surroundings, f"{netloc}/team/app")
    names = ("reachable", "auth", "push", "mount", "ranges", "plain layers", "OCI index")
    assert {found[name]["level"] for name in names} == {"ok"}
    assert found["reachable"]["found"] == f"http://{netloc}, API registry/2.0"
    assert found["referrers"]["level"] == "warn", "version 2 has no such API"
    assert "push" not in again
