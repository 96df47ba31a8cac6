"""`compose pin`, `pin --check` and `rollback`, on files of every kind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
import yaml
from dotenv import dotenv_values

from tests.support.commands import run, tool
from tests.support.projects import SmallProject

ROOT = Path(__file__).parent.parent
COMPOSE = """\
# keep me
x-a: &a {b: "1"}
services:
  vllm:
    image: "old:1"   # and me
    environment: *a
"""
KUBERNETES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: vllm}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec:
  template:
    spec:
      initContainers:
      - {name: warm, image: other:1}
      containers:
      - name: vllm
        image: old:1
"""
KUSTOMIZE = "images:\n- name: vllm\n  newName: old\n  newTag: '1'\n"
FILES = {
    "compose": ("compose.yaml", "services.vllm.image", COMPOSE),
    "kubernetes": (
        "k8s.yaml",
        "Deployment/vllm:spec.template.spec.containers[name=vllm].image",
        KUBERNETES,
    ),
    "kustomize": ("kustomization.yaml", "images[name=vllm]", KUSTOMIZE),
    "helm": ("values.yaml", "image", "image:\n  repository: old\n  tag: '1'\n  digest: ''\n"),
    "dotenv": ("prod.env", "IMAGE", "A=1\r\nIMAGE=old:1\r\n"),
    "toml": ("fleet.toml", "fleet.nodes[0].image", '[[fleet.nodes]]\nimage = "old:1" # x\n'),
    "json": ("fleet.json", "image", '{"image" : "old:1",\n "b": 1e5}'),
}


def add_deploy(project: SmallProject, name: str, kind: str, **keys: str) -> Path:
    file, at, text = FILES[kind]
    spec = {"file": file, "kind": kind, "at": at, **keys}
    lines = [f"{key} = {json.dumps(value)}" for key, value in spec.items()]
    images = project.root / "images.toml"
    images.write_text(images.read_text() + f"\n[deploy.{name}]\n" + "\n".join(lines) + "\n")
    (project.root / file).write_bytes(text.encode())
    return project.root / file


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A project with three releases, v1 to v3, and their digests."""
    folder = tmp_path_factory.mktemp("made")
    images = {"app": {"base": "tiny", "modules": ["first"], "repository": "registry.example/app"}}
    project = SmallProject(folder, images=images).write()
    digests = {}
    for number in (1, 2, 3):
        project.patch("first", {3: f"release {number}"})
        done = project.compose("build", "app", "--release", f"v{number}", "--allow-dirty", "--json")
        digests[f"v{number}"] = done.json["digest"]
    return folder, digests


@pytest.fixture
def digests(made: tuple[Path, dict[str, str]]) -> dict[str, str]:
    return made[1]


@pytest.fixture
def project(made: tuple[Path, dict[str, str]], tmp_path: Path) -> SmallProject:
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(made[0]), str(folder)], check=True)
    return SmallProject(folder)


def value(digests: dict[str, str], release: str) -> str:
    return f"registry.example/app:{release}@{digests[release]}"


def as_others_read(kind: str, path: Path) -> str:
    """Return the image, read by a parser that is none of ours."""
    text = path.read_text()
    match kind:
        case "compose":
            return str(yaml.safe_load(text)["services"]["vllm"]["image"])
        case "kubernetes":
            documents = list(yaml.safe_load_all(text))
            return str(documents[1]["spec"]["template"]["spec"]["containers"][0]["image"])
        case "kustomize":
            (entry,) = yaml.safe_load(text)["images"]
            return f"{entry['newName']}:{entry['newTag']}@{entry['digest']}"
        case "helm":
            image = yaml.safe_load(text)["image"]
            return f"{image['repository']}:{image['tag']}@{image['digest']}"
        case "dotenv":
            return str(dotenv_values(path)["IMAGE"])
        case "toml":
            return str(tomllib.loads(text)["fleet"]["nodes"][0]["image"])
        case _:
            return str(json.loads(text)["image"])


@pytest.mark.parametrize("kind", FILES)
def test_pin_and_back(project: SmallProject, digests: dict[str, str], kind: str) -> None:
    path = add_deploy(project, "prod", kind)
    for release in ("v1", "v2", "v3"):
        done = project.compose("pin", "prod", release, "-q")
        assert done.out == value(digests, release) + "\n"
        assert as_others_read(kind, path) == value(digests, release)
    kept = path.read_bytes()
    for release in ("v2", "v1"):
        project.compose("rollback", "prod")
        assert as_others_read(kind, path) == value(digests, release)
        assert project.compose("pin", "--check").code == 0
    if kind not in ("kustomize", "helm"):
        back = kept.replace(value(digests, "v3").encode(), b"old:1")
        assert back == FILES[kind][2].encode()
    done = project.compose("rollback", "prod", ok=False)
    assert done.code == 2
    assert "nothing was pinned to prod before release v1" in done.err
    assert as_others_read(kind, path) == value(digests, "v1")


def test_docker_compose_reads_it(project: SmallProject, digests: dict[str, str]) -> None:
    path = add_deploy(project, "prod", "compose")
    project.compose("pin", "prod", "v2")
    done = run([tool("docker-compose"), "-f", str(path), "config"], cwd=project.root)
    assert yaml.safe_load(done.out)["services"]["vllm"]["image"] == value(digests, "v2")


def test_pinned_already_changes_nothing(project: SmallProject) -> None:
    path = add_deploy(project, "prod", "compose")
    project.compose("pin", "prod", "v1")
    history = project.root / "lock/pins/prod.toml"
    before = (path.read_bytes(), history.read_bytes(), history.stat().st_mtime_ns)
    answer = project.compose("pin", "prod", "v1", "--json").json
    assert answer["changed"] is False
    assert (path.read_bytes(), history.read_bytes(), history.stat().st_mtime_ns) == before


def test_to_a_release_and_dry_run(project: SmallProject, digests: dict[str, str]) -> None:
    path = add_deploy(project, "prod", "compose")
    for release in ("v1", "v2", "v3"):
        project.compose("pin", "prod", release)
    before = (path.read_bytes(), (project.root / "lock/pins/prod.toml").read_bytes())
    done = project.compose("rollback", "prod", "--to", "v1", "--dry-run")
    assert done.last == value(digests, "v1")
    assert "v3 -> v1" in done.out
    assert "tiny/core.py" in done.out
    assert "LOST" not in done.out
    assert (path.read_bytes(), (project.root / "lock/pins/prod.toml").read_bytes()) == before
    answer = project.compose("rollback", "prod", "--to", "v1", "--json").json
    assert (answer["previous"], answer["value"]) == (value(digests, "v3"), value(digests, "v1"))
    done = project.compose("rollback", "prod", "--to", "v9", ok=False)
    assert (done.code, "never pinned to prod" in done.err) == (2, True)


def test_a_file_edited_by_hand(project: SmallProject, digests: dict[str, str]) -> None:
    path = add_deploy(project, "prod", "compose")
    project.compose("pin", "prod", "v1")
    path.write_text(path.read_text().replace(value(digests, "v1"), "hot:fix"))
    done = project.compose("pin", "--check", ok=False)
    assert done.code == 1
    assert "prod was edited by hand" in done.err
    assert "hot:fix" in done.err
    (checked,) = project.compose("pin", "--check", "--json", ok=False).json
    assert (checked["ok"], checked["value"], checked["release"]) == (False, "hot:fix", "v1")
    done = project.compose("rollback", "prod")
    assert "was edited by hand: it says hot:fix" in done.err
    assert as_others_read("compose", path) == value(digests, "v1")
    # An edit that a pin goes over is noted, and is no fault of the history.
    path.write_text(path.read_text().replace(value(digests, "v1"), "hot:fix"))
    project.compose("pin", "prod", "v2")
    assert "edited = true" in (project.root / "lock/pins/prod.toml").read_text()
    project.compose("pin", "--check")


def test_names_that_are_not_there(project: SmallProject) -> None:
    path = add_deploy(project, "prod", "compose")
    done = project.compose("pin", "prud", "v1", ok=False)
    assert (done.code, "there is no deploy file 'prud'" in done.err, "prod" in done.err) == (
        2,
        True,
        True,
    )
    done = project.compose("pin", "prod", "v11", ok=False)
    assert done.code == 2
    assert "there is no release 'v11'" in done.err
    assert "v1" in done.err.splitlines()[-1]
    assert path.read_bytes() == COMPOSE.encode()
    assert not (project.root / "lock/pins/prod.toml").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("services: [", "compose.yaml"),
        ("services:\n  vllm: {}\n", "image"),
        ("services:\n  vllm:\n    image: a:1\n    image: b:1\n", "twice"),
    ],
)
def test_deploy_files_that_are_wrong(project: SmallProject, text: str | None, message: str) -> None:
    path = add_deploy(project, "prod", "compose")
    path.unlink()
    if text is not None:
        path.write_text(text)
    done = project.compose("pin", "prod", "v1", ok=False)
    assert done.code == 2
    assert message in done.err
    assert not (project.root / "lock/pins/prod.toml").exists()
    assert text is None or path.read_text() == text
    assert project.compose("pin", "--check", ok=False).code == 1


def test_a_release_damaged_by_hand(project: SmallProject) -> None:
    path = add_deploy(project, "prod", "compose")
    file = project.root / "lock/releases/v1.toml"
    file.write_text(file.read_text().replace('image = "app"', 'image = "apq"', 1))
    done = project.compose("pin", "prod", "v1", ok=False)
    assert (done.code, "changed by hand" in done.err) == (4, True)
    assert path.read_bytes() == COMPOSE.encode()


def test_bytes_that_are_nowhere(project: SmallProject, digests: dict[str, str]) -> None:
    path = add_deploy(project, "prod", "compose")
    blob = project.store / "blobs/sha256" / digests["v3"].removeprefix("sha256:")
    blob.unlink()
    done = project.compose("pin", "prod", "v3", ok=False)
    assert done.code == 1
    assert "the bytes of release v3 are nowhere" in done.err
    assert "compose build app --locked" in done.err
    assert path.read_bytes() == COMPOSE.encode()


def test_pins_edited_out_of_order(project: SmallProject) -> None:
    add_deploy(project, "prod", "compose")
    for release in ("v1", "v2"):
        project.compose("pin", "prod", release)
    history = project.root / "lock/pins/prod.toml"
    head, first, second = history.read_text().split("[[pin]]")
    history.write_text("[[pin]]".join([head, second + "\n", first]))
    for verb in (["rollback", "prod"], ["pin", "prod", "v3"]):
        done = project.compose(*verb, ok=False)
        assert done.code == 4
        assert "the pins were changed by hand" in done.err
        assert "git checkout -- lock/pins/prod.toml" in done.err


def test_forms(project: SmallProject, digests: dict[str, str]) -> None:
    path = add_deploy(project, "prod", "compose", form="digest")
    project.compose("pin", "prod", "v1")
    assert as_others_read("compose", path) == f"registry.example/app@{digests['v1']}"
    images = project.root / "images.toml"
    images.write_text(images.read_text().replace('form = "digest"', 'form = "image-id"'))
    done = project.compose("pin", "--check", ok=False)
    assert (done.code, "is not image-id" in done.err) == (1, True)
    project.compose("pin", "prod", "v1")
    config = tomllib.loads((project.root / "lock/releases/v1.toml").read_text())
    assert as_others_read("compose", path) == config["result"]["platforms"][0]["config"]
    project.compose("pin", "prod", "v2")
    project.compose("rollback", "prod")
    assert as_others_read("compose", path) == config["result"]["platforms"][0]["config"]


def test_places_that_are_none(project: SmallProject) -> None:
    add_deploy(project, "prod", "compose", at="services..image")
    done = project.compose("pin", "prod", "v1", ok=False)
    assert (done.code, "images.toml" in done.err) == (2, True)


@pytest.mark.parametrize("file", ["../x.yaml", "/etc/x.yaml"])
def test_files_outside_the_project(project: SmallProject, file: str) -> None:
    add_deploy(project, "prod", "compose", file=file)
    done = project.compose("pin", "prod", "v1", ok=False)
    assert done.code == 2
    assert "a deploy file is named relative to the directory of images.toml" in done.err


def test_two_pins_at_once(project: SmallProject, digests: dict[str, str]) -> None:
    path = add_deploy(project, "prod", "compose")
    names = ["v1", "v2", "v3"] * 2
    threads = [
        threading.Thread(target=project.compose, args=("pin", "prod", name)) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = tomllib.loads((project.root / "lock/pins/prod.toml").read_text())["pin"]
    assert {one["release"] for one in history} == {"v1", "v2", "v3"}
    assert as_others_read("compose", path) == history[-1]["value"]
    project.compose("pin", "--check")


# Kills itself after so many replaced files: the entry as pending, the deploy file, the entry.
_KILLED = """
import os, signal, sys
from pathlib import Path
left = int(sys.argv.pop(1))
replace = Path.replace
def counted(self, target):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return replace(self, target)
Path.replace = counted
from composer.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize("verb", ["pin", "rollback"])
@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_killed_anywhere(
    project: SmallProject, digests: dict[str, str], verb: str, step: int
) -> None:
    path = add_deploy(project, "prod", "compose")
    for release in ("v1", "v2"):
        project.compose("pin", "prod", release)
    arguments = ["pin", "prod", "v3"] if verb == "pin" else ["rollback", "prod"]
    goal = "v3" if verb == "pin" else "v1"
    command = [sys.executable, "-c", _KILLED, str(step), *arguments]
    env = {**os.environ, **project.surroundings}
    killed = subprocess.run(command, cwd=project.root, env=env, capture_output=True, check=False)
    assert killed.returncode == (-signal.SIGKILL if step < 3 else 0)
    there = as_others_read("compose", path)
    assert there == value(digests, goal if step >= 2 else "v2")
    checked = project.compose("pin", "--check", ok=False)
    assert checked.code == (1 if step in (1, 2) else 0)
    assert ("was interrupted" in checked.err) == (step in (1, 2))
    # The next run says what became of it, and does what it is asked.
    done = project.compose("pin", "prod", "v3")
    remark = {1: "had not written the file: undone", 2: "had written the file: finished"}.get(step)
    assert ("interrupted" in done.err) == (remark is not None)
    assert (remark or "") in done.err
    assert as_others_read("compose", path) == value(digests, "v3")
    project.compose("pin", "--check")
    project.compose("rollback", "prod")
    written = step >= 2
    expected = "v1" if verb == "rollback" and written else "v2"
    assert as_others_read("compose", path) == value(digests, expected)


def test_a_dry_run_leaves_what_a_kill_left(project: SmallProject) -> None:
    path = add_deploy(project, "prod", "compose")
    for release in ("v1", "v2"):
        project.compose("pin", "prod", release)
    history = project.root / "lock/pins/prod.toml"
    history.write_text(history.read_text() + "pending = true\n")
    before = (history.read_bytes(), path.read_bytes())
    done = project.compose("rollback", "prod", "--dry-run")
    assert "had written the file: finished" in done.err
    assert (history.read_bytes(), path.read_bytes()) == before
    project.compose("rollback", "prod")
    assert "pending" not in history.read_text()


def test_what_is_pinned_in_this_repository() -> None:
    done = run([sys.executable, "-m", "composer", "pin", "--check", "--json"], cwd=ROOT)
    assert [(one["deploy"], one["release"], one["ok"]) for one in done.json] == [
        ("cluster", "v13", True),
        ("prod", "v13", True),
    ]
