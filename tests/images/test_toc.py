"""`compose toc`: the files of an image of every kind of source, and what it says of mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.baseimages import ARCH, PACKAGES, TINY, BaseImage, noise
from tests.support.commands import ROOT, Done, compose
from tests.support.projects import CORE, SmallProject, digest_of

from .conftest import Place

Make = Callable[..., SmallProject]

NAMES = f"""
etc etc/tiny.conf lib opt opt/more.bin opt/venv opt/venv/lib opt/venv/lib/python3.12
opt/venv/lib64 opt/weights.bin usr usr/bin usr/bin/tool usr/lib usr/share {PACKAGES} {TINY}
{TINY}/__init__.py {TINY}/__pycache__ {TINY}/__pycache__/added.cpython-312.pyc
{TINY}/__pycache__/core.cpython-312.opt-1.pyc {TINY}/__pycache__/core.cpython-312.pyc
{TINY}/__pycache__/core2.cpython-312.pyc {TINY}/added.pyc {TINY}/arch.py {TINY}/core.py
{TINY}/hard.py {TINY}/hard_too.py {TINY}/old {TINY}/old/fresh.py
""".split()


def toc(image: str, *arguments: str, cwd: Path, ok: bool = True) -> Done:
    """Run `compose toc` outside any project, on amd64 unless another platform is named."""
    chosen = () if "--platform" in arguments else ("--platform", "linux/amd64")
    return compose("toc", image, *arguments, *chosen, cwd=cwd, ok=ok)


def content(image: str, path: str, cwd: Path) -> bytes:
    """Return the bytes that `compose toc IMAGE FILE` prints."""
    command = [sys.executable, "-m", "composer", "toc", image, path, "--platform", "linux/amd64"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True).stdout


@pytest.fixture
def image(place: Place) -> str:
    """The base in the registry."""
    return f"{place.netloc}/base/oci:v1"


def test_every_kind_of_source_lists_the_same(
    place: Place, images: dict[str, BaseImage], image: str, tmp_path: Path
) -> None:
    base = images["oci"]
    base.layout(tmp_path / "layout")
    base.oci_archive(tmp_path / "base.tar")
    base.docker_archive(tmp_path / "saved.tar", "linux/amd64")
    child = base.children["linux/amd64"]["digest"]
    spelled = [
        image,
        f"docker://{image}",
        f"{place.netloc}/base/docker:v1",
        f"{place.netloc}/base/oci@{child}",
        "oci:layout",
        "oci:layout:v1",
        f"oci:layout@{child}",
        "archive:base.tar",
        "archive:saved.tar",
        f"archive:{tmp_path}/saved.tar:local/tiny:v1",
    ]
    listings = set()
    for number, text in enumerate(spelled):
        (tmp_path / f"store-{number}").mkdir()
        store = {"COMPOSE_STORE": str(tmp_path / f"store-{number}")}
        done = compose("toc", text, "--platform", "linux/amd64", cwd=tmp_path, env=store)
        listings.add(done.out)
    (listing,) = listings
    lines = listing.splitlines()
    shown = [line.partition(" /")[2].partition(" -> ")[0] for line in lines]
    assert shown == sorted(NAMES)
    assert f"-rw-r-----  1000  1001 {len(CORE):>12} 2020-09-13 12:26 /{TINY}/core.py" in lines
    assert "lrwxrwxrwx     0     0            0 2020-09-13 12:26 /lib -> usr/lib" in lines
    assert "-rwsr-xr-x     0     0           10 2020-09-13 12:26 /usr/bin/tool" in lines
    assert f"drwxrwsr-x  1000    50            0 2020-09-13 12:26 /{PACKAGES}" in lines
    assert "drwxrwxrwt     0     0            0 2020-09-13 12:26 /opt/venv/lib/python3.12" in lines


def test_the_content_of_a_file(place: Place, image: str, tmp_path: Path) -> None:
    assert content(image, f"/{TINY}/core.py", tmp_path) == CORE
    assert content(image, "opt/weights.bin", tmp_path) == noise(1_300_000, 1)
    link = "/opt/venv/lib64/python3.12/site-packages/tiny/arch.py"
    assert content(image, link, tmp_path) == ARCH["amd64"]
    assert content(image, f"{TINY}/hard_too.py", tmp_path) == b"one = 1\ntwo = 2\n"
    assert content(image, f"{TINY}/__init__.py", tmp_path) == b""
    place.tap.clear()
    assert content(image, f"/{TINY}/core.py", tmp_path) == CORE
    assert place.tap.blobs() == []


def test_a_file_comes_with_the_listing(
    place: Place, images: dict[str, BaseImage], image: str, tmp_path: Path
) -> None:
    assert content(image, f"/{TINY}/core.py", tmp_path) == CORE
    read = place.tap.blobs()
    layers = [one["digest"] for one in images["oci"].manifest("linux/amd64")["layers"]]
    assert sorted(one for one in read if one in layers) == sorted(layers)


def test_a_directory(image: str, tmp_path: Path) -> None:
    for path in (
        f"/{TINY}/old",
        f"{TINY}/old/",
        "opt/venv/lib64/python3.12/../python3.12/site-packages/tiny/old",
    ):
        lines = toc(image, path, cwd=tmp_path).out.splitlines()
        assert [line.rpartition(" ")[2] for line in lines] == [
            f"/{TINY}/old",
            f"/{TINY}/old/fresh.py",
        ]


def test_json(image: str, tmp_path: Path) -> None:
    found = [json.loads(line) for line in toc(image, "--json", cwd=tmp_path).out.splitlines()]
    assert [one["path"] for one in found] == [f"/{name}" for name in sorted(NAMES)]
    by_path = {one["path"]: one for one in found}
    assert by_path[f"/{TINY}/core.py"] == {
        "path": f"/{TINY}/core.py",
        "kind": "f",
        "mode": 0o640,
        "uid": 1000,
        "gid": 1001,
        "mtime": 1_600_000_000,
        "size": len(CORE),
        "sha256": digest_of(CORE).removeprefix("sha256:"),
        "xattrs": {"user.by": "whéel"},
    }
    assert by_path["/opt/venv/lib64"]["link"] == "lib"
    inodes = {by_path[f"/{TINY}/{name}"]["inode"] for name in ("hard.py", "hard_too.py")}
    assert len(inodes) == 1
    one = toc(image, "/etc/tiny.conf", "--json", cwd=tmp_path).json
    assert (one["path"], one["size"]) == ("/etc/tiny.conf", 12)


@pytest.mark.parametrize("platform", ["linux/arm64", "linux/arm64/v8"])
def test_another_platform(image: str, tmp_path: Path, platform: str) -> None:
    done = toc(image, f"{TINY}/arch.py", "--platform", platform, cwd=tmp_path)
    assert done.out.encode() == ARCH["arm64"]


@pytest.mark.parametrize(
    ("arguments", "code", "texts"),
    [
        (("/etc/tiny.cnf",), 2, ["the image has no /etc/tiny.cnf", "did you mean 'tiny.conf'?"]),
        ((f"{TINY}/gone.py",), 2, [f"the image has no /{TINY}/gone.py"]),
        ((f"{TINY}/core.py/x",), 2, ["core.py is not a directory"]),
        (("../../etc",), 2, ["leaves the image's root"]),
        (("--platform", "linux/s390x"), 2, ["no platform linux/s390x", "linux/amd64 or linux/arm"]),
        (("--platform", "amd64"), 2, ["'amd64' is not a platform"]),
    ],
)
def test_mistakes(
    image: str, tmp_path: Path, arguments: tuple[str, ...], code: int, texts: list[str]
) -> None:
    done = toc(image, *arguments, cwd=tmp_path, ok=False)
    assert (done.code, done.out) == (code, "")
    for text in texts:
        assert text in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("image", "code", "text"),
    [
        ("NotAName", 2, "is not a repository name"),
        ("oci:nowhere", 2, "there is no OCI image layout"),
        ("archive:nowhere.tar", 2, "there is no such archive"),
        ("127.0.0.1:9/a/b:v1", 3, "127.0.0.1:9"),
    ],
)
def test_images_that_are_not_there(image: str, code: int, text: str, tmp_path: Path) -> None:
    done = toc(image, cwd=tmp_path, ok=False)
    assert (done.code, done.out) == (code, "")
    assert text in done.err


def test_a_reader_that_goes_away(image: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "composer", "toc", image, "opt/weights.bin"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*command, "--platform", "linux/amd64"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""


@pytest.mark.parametrize("path", ["opt/weights.bin", "/"])
def test_output_that_cannot_be_written(image: str, tmp_path: Path, path: str) -> None:
    command = [sys.executable, "-m", "composer", "toc", image, path, "--platform", "linux/amd64"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=env, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 3
    assert done.stderr == b"error: cannot write the output: No space left on device\n"


def test_an_image_of_ours_out_of_the_store(place: Place, on: Make, tmp_path: Path) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    answer = project.compose("push", "app", "--json").json
    changed = CORE.replace(b"line 3\n", b"changed\n")
    assert content(answer["reference"], f"/{TINY}/core.py", tmp_path) == changed
    found = json.loads(content(answer["reference"], "/usr/share/compose/overlay.json", tmp_path))
    assert found["modules"][0]["changes"][0]["post"] == digest_of(changed)
