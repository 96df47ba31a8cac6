"""The image of the real wheel, seen by other tools: they agree with lock and overlay.json."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from composer import releases
from composer.lock import load
from tests.support.commands import ROOT, compose, run, tool
from tests.support.images import layer_members, manifest, overlay_document, own_files
from tests.support.real import PACKAGES, RealProject, copy_project

pytestmark = pytest.mark.real

STOCK = "fb07f95658ae0ee6e6c16c0f36e90f9179e8761221a45d4bf1aebe8bcf63cdcb"
IMAGES = ("glm53", "glm53-async")


@dataclass(frozen=True, slots=True)
class Built:
    """Where the images are, and what their builds printed."""

    root: Path
    store: Path
    answers: dict[str, Any]


@pytest.fixture(scope="module")
def built(real_project: RealProject) -> Built:
    """Both images, as their locks say."""
    answers = {image: real_project.build(image, "--locked") for image in IMAGES}
    return Built(real_project.root, real_project.store, answers)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("image", IMAGES)
def test_build_gives_the_digest_of_the_committed_lock(built: Built, image: str) -> None:
    lock = load((ROOT / "lock" / f"{image}.lock").read_bytes(), image)
    assert built.answers[image]["digest"] == lock.digest
    assert built.answers[image]["inputs"] == lock.inputs


@pytest.mark.parametrize(("image", "name"), [("glm53", "v13"), ("glm53-async", "v14")])
def test_build_gives_the_digest_of_the_release(built: Built, image: str, name: str) -> None:
    release = releases.read(ROOT, name)
    assert release is not None
    assert release.image == image
    assert release.result.digest == built.answers[image]["digest"]


def test_pin_and_rollback_as_readme_shows(built: Built, tmp_path: Path) -> None:
    root = copy_project(tmp_path / "project")
    file = root / "deploy/compose.yaml"
    before = file.read_bytes()
    env = {"COMPOSE_STORE": str(built.store)}
    compose("pin", "prod", "v14", cwd=root, env=env)
    digests = [built.answers[image]["digest"].encode() for image in IMAGES]
    named = [name + digest for name, digest in zip([b":v13@", b":v14@"], digests, strict=True)]
    assert file.read_bytes() == before.replace(*named)
    compose("rollback", "prod", cwd=root, env=env)
    assert file.read_bytes() == before


@pytest.mark.parametrize("image", IMAGES)
def test_skopeo_reads_the_store(built: Built, image: str) -> None:
    seen = json.loads(
        run([tool("skopeo"), "inspect", f"oci:{built.store}:{image}"], cwd=built.root).out
    )
    answer = built.answers[image]
    assert seen["Digest"] == answer["digest"]
    assert seen["Architecture"] == "amd64"
    ours = [layer["digest"] for layer in answer["platforms"][0]["layers"]]
    assert seen["Layers"][1:] == ours
    assert seen["Labels"]["dev.compose.inputs"] == answer["inputs"]
    assert "VLLM_GLM53_ASYNC_DFLASH=0" in seen["Env"] or image == "glm53"


def test_umoci_unpacks_what_overlay_json_says(built: Built, tmp_path: Path) -> None:
    command = [tool("umoci"), "unpack", "--rootless", "--image", f"{built.store}:glm53-async"]
    run([*command, str(tmp_path / "bundle")], cwd=tmp_path)
    root = tmp_path / "bundle" / "rootfs"
    document = json.loads((root / "usr/share/compose/overlay.json").read_bytes())
    last = {
        change["path"]: change["post"]
        for module in document["modules"]
        for change in module["changes"]
    }
    assert sorted(Path(path).name for path in last) == ["async_dflash.py", "vllm.py"]
    for path, post in last.items():
        assert f"sha256:{_sha256(root / path.lstrip('/'))}" == post
    patched = root / PACKAGES / "vllm/config/vllm.py"
    assert _sha256(patched) != STOCK
    assert not list(patched.parent.glob("__pycache__/vllm.*.pyc"))
    assert (root / "usr/local/bin/vllm").read_text().startswith("#!/usr/bin/python3.12\n")
    shutil.rmtree(tmp_path / "bundle")


def test_plain_tar_extraction_of_the_layers_agrees(built: Built, tmp_path: Path) -> None:
    answer = built.answers["glm53-async"]
    for layer in answer["platforms"][0]["layers"]:
        digest = layer["digest"].removeprefix("sha256:")
        archive = built.store / "blobs/sha256" / digest
        run([tool("tar"), "-xzf", str(archive), "-C", str(tmp_path)], cwd=tmp_path)
    for module in overlay_document(built.store, answer)["modules"]:
        for change in module["changes"]:
            path = tmp_path / change["path"].lstrip("/")
            final = own_files(built.store, answer)[change["path"].lstrip("/")]
            assert path.read_bytes() == final
    lock = load((ROOT / "lock/glm53-async.lock").read_bytes(), "lock")
    last = {change.path: change.post for change in lock.platforms[0].changes}
    for path, post in last.items():
        assert f"sha256:{_sha256(tmp_path / path.lstrip('/'))}" == post


def test_the_base_layer_is_what_the_wheel_holds(built: Built) -> None:
    answer = built.answers["glm53"]
    layers = manifest(built.store, answer["digest"])["layers"]
    files = {
        member.name: hashlib.sha256(data).hexdigest()
        for member, data in layer_members(built.store, layers[0]["digest"])
        if member.isfile()
    }
    assert files[f"{PACKAGES}/vllm/config/vllm.py"] == STOCK
    # 4,835 files in the wheel; INSTALLER and the script of its entry point come on top
    assert len(files) == 4835 + 2
