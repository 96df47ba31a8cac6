"""Bases with both `image` and `wheels`: what the image says decides which wheels, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from composer.lock import Lock, load
from tests.support.images import layer_members, manifest, own_files
from tests.support.layouts import Files, write_layout
from tests.support.projects import CORE, SmallProject, make_wheel

LIBC = b"\x7fELF\0GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31.\nCopyright\0"
SITE = "usr/local/lib/python3.11/site-packages"
PYTHON: Files = {
    "usr": None,
    "usr/local": None,
    "usr/local/bin": None,
    "usr/local/bin/python3.11": b"\x7fELF",
    "usr/local/bin/python3": "python3.11",
    "usr/local/lib": None,
    "usr/local/lib/python3.11": None,
    SITE: None,
    "usr/lib": None,
    "usr/lib/x86_64-linux-gnu": None,
    "usr/lib/x86_64-linux-gnu/libc.so.6": LIBC,
    "lib": "usr/lib",
}


def _project(tmp_path: Path, *layers: Files, **base: object) -> SmallProject:
    write_layout(tmp_path / "project" / "base", layers or [PYTHON])
    bases = {"tiny": {"image": "oci:base:v1", "wheels": ["tiny==1.0"], **base}}
    project = SmallProject(tmp_path, bases=bases).write()
    project.patch("first", {3: "changed"})
    return project


def _lock(project: SmallProject) -> Lock:
    return load((project.root / "lock/app.lock").read_bytes(), "lock")


def test_the_image_tells_python_package_root_and_glibc(tmp_path: Path) -> None:
    project = _project(tmp_path)
    answer = project.build()
    base = _lock(project).base
    assert (base.python, base.glibc) == ("3.11", "2.31")
    assert (base.package_root, base.interpreter) == (f"/{SITE}", "/usr/local/bin/python3.11")
    assert base.epoch == 1714566600
    (platform,) = _lock(project).platforms
    assert platform.base_layers == 1
    layers = manifest(project.store, answer["digest"])["layers"]
    assert len(layers) == 1 + 1 + 2
    wheel = {member.name for member, _ in layer_members(project.store, layers[1]["digest"])}
    assert f"{SITE}/tiny/core.py" in wheel
    expected = CORE.replace(b"line 3\n", b"changed\n")
    assert own_files(project.store, answer)[f"{SITE}/tiny/core.py"] == expected
    config = manifest(project.store, manifest(project.store, answer["digest"])["config"]["digest"])
    assert config["config"]["Cmd"] == ["python3"]
    assert [entry["created_by"] for entry in config["history"][1:]] == [
        "compose wheel tiny-1.0-py3-none-any.whl",
        "compose first",
        "compose (overlay.json)",
    ]


def test_directories_of_the_image_keep_their_headers(tmp_path: Path) -> None:
    project = _project(tmp_path)
    answer = project.build()
    for layer in manifest(project.store, answer["digest"])["layers"][1:]:
        for member, _ in layer_members(project.store, layer["digest"]):
            if member.name in PYTHON:
                assert (member.mtime, member.mode) == (1700000000, 0o755), member.name


def test_another_store_gives_the_same_image_from_the_lock(tmp_path: Path) -> None:
    project = _project(tmp_path)
    digest = project.build()["digest"]
    other = {"COMPOSE_STORE": str(tmp_path / "other")}
    assert project.build("app", "--locked", **other)["digest"] == digest
    project.patch("first", {5: "edited"})
    project.build()
    assert project.build("app", "--locked", **other)["digest"] != digest


def test_a_wheel_for_a_newer_glibc_than_the_image_has_is_refused(tmp_path: Path) -> None:
    project = _project(tmp_path)
    (project.wheels / "tiny-1.0-py3-none-any.whl").unlink()
    make_wheel(project.wheels, project.files, tag="cp311-cp311-manylinux_2_35_x86_64")
    done = project.compose("build", "app", ok=False)
    assert done.code == 2
    assert "CPython 3.11 on linux/amd64, glibc 2.31" in done.err
    project.bases["tiny"]["glibc"] = "2.35"
    project.write()
    (project.wheels / "tiny-1.0-py3-none-any.whl").unlink()
    project.build()


def test_two_interpreters_are_named_and_one_is_to_be_chosen(tmp_path: Path) -> None:
    second: Files = {
        "usr/local/bin/python3.12": b"\x7fELF",
        "usr/local/lib/python3.12": None,
        "usr/local/lib/python3.12/site-packages": None,
    }
    project = _project(tmp_path, PYTHON, second)
    done = project.compose("build", "app", ok=False)
    assert done.code == 2
    assert "/usr/local/bin/python3.11 and /usr/local/bin/python3.12" in done.err
    assert "name it in the base: interpreter = ..." in done.err
    assert "name it in the base: package_root = ..." in done.err
    project.bases["tiny"]["python"] = "3.12"
    project.write().build()
    assert _lock(project).base.package_root == "/usr/local/lib/python3.12/site-packages"


def test_an_image_without_an_interpreter(tmp_path: Path) -> None:
    project = _project(tmp_path, {"etc": None})
    done = project.compose("build", "app", ok=False)
    assert done.code == 2
    assert "the base's image has no candidates for its interpreter" in done.err


@pytest.mark.parametrize("name", ["Tiny-0.9.dist-info", "tiny-0.9.egg-info"])
def test_a_distribution_that_the_image_has_already(tmp_path: Path, name: str) -> None:
    project = _project(tmp_path, {**PYTHON, f"{SITE}/{name}": None})
    done = project.compose("build", "app", ok=False)
    assert done.code == 2
    assert "the base already has tiny 0.9" in done.err
    assert f"/{SITE}/{name}" in done.err
    assert not (project.root / "lock").exists()
