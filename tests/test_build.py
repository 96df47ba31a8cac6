"""`compose build` and `compose lock` as whole processes on a small base: what they make, what
they refuse, and what is left behind when something outside goes wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer.lock import load
from tests.support.commands import ROOT, run, tool
from tests.support.images import layer_members, manifest, overlay_document, own_files
from tests.support.projects import CORE, SmallProject, diff, digest_of, make_wheel

PACKAGES = "usr/local/lib/python3.12/dist-packages"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a file system")


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    """A project whose module `first` changes line 3 of tiny/core.py."""
    project = SmallProject(tmp_path).write()
    project.patch("first", {3: "changed"})
    return project


def _whole(store: Path) -> None:
    """Check that every blob of a store is what its name says."""
    blobs = list(store.glob("blobs/sha256/*"))
    assert blobs
    for path in blobs:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name


def test_lock_build_and_image_agree(project: SmallProject) -> None:
    answer = project.build()
    lock = load((project.root / "lock/app.lock").read_bytes(), "lock")
    assert answer["digest"] == lock.digest == answer["platforms"][0]["manifest"]
    assert [one["module"] for one in answer["platforms"][0]["layers"]] == [
        "first",
        "(overlay.json)",
    ]
    expected = CORE.replace(b"line 3\n", b"changed\n")
    assert own_files(project.store, answer)[f"{PACKAGES}/tiny/core.py"] == expected
    (change,) = overlay_document(project.store, answer)["modules"][0]["changes"]
    assert change == {
        "kind": "patch",
        "target": "tiny/core.py",
        "path": f"/{PACKAGES}/tiny/core.py",
        "pre": digest_of(CORE),
        "post": digest_of(expected),
    }
    config = manifest(project.store, manifest(project.store, answer["digest"])["config"]["digest"])
    assert config["created"] == "1980-01-01T00:00:00Z"
    assert config["config"]["Labels"]["dev.compose.modules"] == "first"
    _whole(project.store)


def test_the_digest_of_a_small_image_is_pinned(project: SmallProject) -> None:
    """A change of these is a change of the byte format: bump FORMAT and say so."""
    answer = project.build()
    assert answer["inputs"] == GOLDEN["inputs"]
    assert answer["digest"] == GOLDEN["digest"]
    assert [one["diff_id"] for one in answer["platforms"][0]["layers"]] == GOLDEN["diff_ids"]


GOLDEN: dict[str, object] = {
    "inputs": "sha256:52903018daf9548520cb3b40af605eb2019f6833e23b7a9cc959aa2e294323c9",
    "digest": "sha256:4431839d7a5f6f4062b50a145f38dc9435c1b44fb0f311e536a0de6b53e9eff5",
    "diff_ids": [
        "sha256:93548904d5277e037ebe9266d617d8a9c4b64f955886c1dcecc98d5557e6f498",
        "sha256:d72f19fa024fbf3f4b74f9464b198902dfb4ebbeb77d95611088df9ce89ade7f",
    ],
}


def test_locked_refuses_what_is_missing_or_stale(project: SmallProject) -> None:
    missing = project.compose("build", "app", "--locked", ok=False)
    assert (missing.code, missing.out) == (1, "")
    assert "error: the lock of app is missing\n  where:    lock/app.lock\n" in missing.err
    project.build()
    before = (project.root / "lock/app.lock").read_bytes()
    project.patch("first", {4: "elsewhere"})
    stale = project.compose("build", "app", "--locked", ok=False)
    assert stale.code == 1
    assert "the lock of app is stale" in stale.err
    assert "module first changed" in stale.err
    assert "run `compose lock app` and commit the result" in stale.err
    assert project.compose("lock", "--check", ok=False).code == 1
    assert (project.root / "lock/app.lock").read_bytes() == before
    project.compose("lock", "app")
    assert project.compose("lock", "--check").out == "1 locks are current\n"
    project.compose("build", "app", "--locked")


def test_what_does_not_reach_the_image_does_not_change_it(project: SmallProject) -> None:
    digest = project.build()["digest"]
    module = project.root / "modules/first"
    (module / "README.md").write_text("why\n")
    text = (module / "module.toml").read_text()
    (module / "module.toml").write_text(
        text + '\n[[marker]]\npresent = ["on"]\n[effect]\nscript = "effect.py"\n'
    )
    assert project.build()["digest"] == digest


def test_an_edit_that_keeps_size_and_mtime_is_noticed(project: SmallProject) -> None:
    path = project.root / "modules/first/core.patch"
    first = project.build()["digest"]
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"changed", b"CHANGED"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    answer = project.build()
    assert answer["digest"] != first
    assert b"CHANGED" in own_files(project.store, answer)[f"{PACKAGES}/tiny/core.py"]


def test_a_result_that_differs_from_its_lock_is_an_integrity_error(project: SmallProject) -> None:
    digest = project.build()["digest"]
    path = project.root / "lock/app.lock"
    other = "sha256:" + "0" * 64
    path.write_text(path.read_text().replace(digest, other))
    for arguments in (("build", "app"), ("build", "app", "--locked"), ("lock",)):
        done = project.compose(*arguments, ok=False)
        assert done.code == 4
        assert "the same inputs gave another result" in done.err
        assert other in done.err
        assert digest in done.err


@pytest.mark.parametrize("text", ["<<<<<<< HEAD\nschema = 1\n", 'schema = 1\nimage = "app"\n', ""])
def test_a_damaged_lock_is_an_integrity_error(project: SmallProject, text: str) -> None:
    project.build()
    (project.root / "lock/app.lock").write_text(text)
    done = project.compose("build", "app", ok=False)
    assert done.code == 4
    assert "lock/app.lock:1" in done.err


def test_every_fault_of_every_module_is_reported_and_nothing_written(tmp_path: Path) -> None:
    project = SmallProject(
        tmp_path,
        images={"app": {"base": "tiny", "modules": ["first", "second", "third"]}},
    ).write()
    project.patch("first", {3: "one"})
    project.patch("second", {3: "two"})
    missing = {"target": "tiny/cores.py", "file": "f", "preimage": [digest_of(b"")]}
    project.module("third", contents={"f": b"x"}, replace=[missing])
    done = project.compose("build", "app", ok=False)
    assert (done.code, done.out) == (2, "")
    assert "module second: collides with module first on tiny/core.py" in done.err
    assert "hunk 1, line 3, meets what it does there" in done.err
    assert "module third: target tiny/cores.py is missing" in done.err
    assert "did you mean 'core.py'?" in done.err
    assert done.err.rstrip().endswith("2 faults")
    assert not (project.root / "lock").exists()


def test_several_modules_on_one_file_in_any_order(tmp_path: Path) -> None:
    digests = set()
    for number, order in enumerate((["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"])):
        project = SmallProject(
            tmp_path / str(number), images={"app": {"base": "tiny", "modules": order}}
        ).write()
        after = project.patch("a", {3: "from a"})
        project.patch("b", {12: "from b"})
        project.patch("c", {4: "from c"}, before=after, requires=["a"])
        answer = project.build()
        digests.add(answer["digest"])
        core = own_files(project.store, answer)[f"{PACKAGES}/tiny/core.py"]
        assert core.split(b"\n")[2:4] == [b"from a", b"from c"]
        assert core.split(b"\n")[11] == b"from b"
    assert len(digests) == 1


def test_added_file_beside_an_orphan_pyc(tmp_path: Path) -> None:
    files = {
        "tiny/core.py": CORE,
        "tiny/new.pyc": b"legacy",
        "tiny/__pycache__/new.cpython-312.pyc": b"orphan",
        "tiny/__pycache__/core.cpython-312.pyc": b"stale",
        "tiny/__pycache__/core.cpython-312.opt-1.pyc": b"stale",
        "tiny/__pycache__/core2.cpython-312.pyc": b"of another",
    }
    project = SmallProject(tmp_path, files=files).write()
    entry = {"target": "tiny/new.py", "file": "new.py"}
    patch = {"target": "tiny/core.py", "file": "core.patch", "preimage": [digest_of(CORE)]}
    contents = {"new.py": b"new\n", "core.patch": diff(CORE, CORE.replace(b"line 3", b"3"))}
    project.module("first", contents=contents, add=[entry], patch=[patch])
    answer = project.build("app", "--output", str(tmp_path / "app.tar"))
    unpacked = tmp_path / "bundle"
    image = f"{project.store}:app"
    run([tool("umoci"), "unpack", "--rootless", "--image", image, str(unpacked)], cwd=tmp_path)
    left = {path.name for path in (unpacked / "rootfs").rglob("*.pyc")}
    assert left == {"core2.cpython-312.pyc"}
    names = [
        member.name
        for member, _ in layer_members(project.store, answer["platforms"][0]["layers"][0]["digest"])
    ]
    assert f"{PACKAGES}/tiny/__pycache__/.wh.core.cpython-312.pyc" in names


@pytest.mark.parametrize(
    "name", ["core.so", "core.cpython-312-x86_64-linux-gnu.so", "core.abi3.so"]
)
def test_an_extension_module_of_the_same_stem_is_refused(tmp_path: Path, name: str) -> None:
    project = SmallProject(tmp_path, files={"tiny/core.py": CORE, f"tiny/{name}": b"\x7fELF"})
    project.write().patch("first", {3: "never run"})
    done = project.compose("build", "app", ok=False)
    assert done.code == 2
    assert f"an import finds /{PACKAGES}/tiny/{name} before it" in done.err


def test_a_file_that_is_not_utf8_is_patched(tmp_path: Path) -> None:
    core = CORE.replace(b"line 7\n", b"caf\xe9 \xff\r\n")
    project = SmallProject(tmp_path, files={"tiny/core.py": core}).write()
    patch = b"--- a\n+++ b\n@@ -7 +7 @@\n-caf\xe9 \xff\r\n+caf\xe9 \xfe\r\n"
    entry = {"target": "tiny/core.py", "file": "core.patch", "preimage": [digest_of(core)]}
    project.module("first", contents={"core.patch": patch}, patch=[entry])
    answer = project.build()
    expected = core.replace(b"\xff", b"\xfe")
    assert own_files(project.store, answer)[f"{PACKAGES}/tiny/core.py"] == expected


def test_another_wheel_than_the_locked_one_is_an_integrity_error(project: SmallProject) -> None:
    project.build()
    make_wheel(project.wheels, {"tiny/core.py": CORE + b"tampered\n"})
    done = project.compose(
        "build", "app", "--locked", ok=False, COMPOSE_STORE=str(project.folder / "b")
    )
    assert done.code == 4
    wheel = load((project.root / "lock/app.lock").read_bytes(), "lock").base.wheels[0]
    assert wheel.digest in done.err
    assert "tiny==1.0" in done.err


def test_a_wheel_of_another_platform_is_refused(tmp_path: Path) -> None:
    project = SmallProject(tmp_path).write()
    project.patch("first", {3: "changed"})
    (project.wheels / "tiny-1.0-py3-none-any.whl").unlink()
    make_wheel(project.wheels, project.files, tag="cp312-cp312-manylinux_2_17_aarch64")
    done = project.compose("build", "app", ok=False)
    assert done.code == 2
    assert "linux/amd64" in done.err
    assert not (project.root / "lock").exists()


def test_no_network_with_a_cold_and_a_warm_store(project: SmallProject) -> None:
    closed = {
        "PIP_NO_INDEX": "",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_FIND_LINKS": "",
    }
    done = project.compose("build", "app", ok=False, **closed)
    assert done.code == 3
    assert not (project.root / "lock").exists()
    digest = project.build()["digest"]
    project.patch("first", {3: "offline"})
    refreshed = project.build(**closed)
    assert refreshed["digest"] != digest


def test_a_base_moves_only_when_told_to(tmp_path: Path) -> None:
    project = SmallProject(tmp_path)
    project.bases["tiny"]["wheels"] = ["tiny>=1.0"]
    project.write().patch("first", {3: "changed"})
    digest = project.build()["digest"]
    make_wheel(project.wheels, {**project.files, "tiny/more.py": b""}, version="1.1")
    project.patch("first", {3: "changed", 5: "too"})
    project.build()
    locked = load((project.root / "lock/app.lock").read_bytes(), "lock")
    assert [one.version for one in locked.base.wheels] == ["1.0"]
    assert locked.digest != digest
    moved = project.compose("lock", "--upgrade-base").out
    locked = load((project.root / "lock/app.lock").read_bytes(), "lock")
    assert [one.version for one in locked.base.wheels] == ["1.1"]
    assert "app: base tiny sha256:" in moved


def test_two_platforms_make_an_index_and_one_can_be_materialised_alone(tmp_path: Path) -> None:
    project = SmallProject(tmp_path)
    project.bases["tiny"]["platforms"] = ["linux/arm64", "linux/amd64"]
    project.write().patch("first", {3: "changed"})
    whole = project.build()
    assert [one["platform"] for one in whole["platforms"]] == ["linux/amd64", "linux/arm64"]
    index = manifest(project.store, whole["digest"])
    assert [one["digest"] for one in index["manifests"]] == [
        one["manifest"] for one in whole["platforms"]
    ]
    lock = (project.root / "lock/app.lock").read_bytes()
    other = {"COMPOSE_STORE": str(project.folder / "other")}
    part = project.build("app", "--platform", "linux/arm64", "--locked", **other)
    assert part["digest"] == whole["digest"]
    assert part["platforms"] == whole["platforms"][1:]
    assert (project.root / "lock/app.lock").read_bytes() == lock
    unknown = project.compose("build", "app", "--platform", "linux/s390x", ok=False)
    assert unknown.code == 2
    assert "image app has no platform linux/s390x" in unknown.err


def test_the_archive_is_what_skopeo_reads(project: SmallProject) -> None:
    archive = project.folder / "app.tar"
    answer = project.build("app", "--output", str(archive))
    seen = json.loads(
        run([tool("skopeo"), "inspect", f"oci-archive:{archive}"], cwd=project.folder).out
    )
    assert seen["Digest"] == answer["digest"]
    again = project.folder / "again.tar"
    project.build("app", "--output", str(again))
    assert again.read_bytes() == archive.read_bytes()
    with tarfile.open(archive) as tar:
        member = tar.extractfile("manifest.json")
        assert member is not None
        (entry,) = json.load(member)
        assert set(entry["Layers"]) <= set(tar.getnames())


def test_an_archive_that_cannot_be_written(project: SmallProject) -> None:
    done = project.compose(
        "build", "app", "--output", str(project.folder / "no/such/app.tar"), ok=False
    )
    assert done.code == 3
    assert "cannot write" in done.err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


@needs_root
def test_disk_full(tmp_path: Path, small_disk: Path) -> None:
    # Random bytes: the wheel fits, what it unpacks to does not, nor what is downloaded twice.
    files = {"tiny/core.py": CORE, "tiny/data.bin": os.urandom(900_000)}
    project = SmallProject(tmp_path, files=files).write()
    project.patch("first", {3: "changed"})
    done = project.compose("build", "app", ok=False, COMPOSE_STORE=str(small_disk / "store"))
    assert done.code == 3
    assert "the disk is full" in done.err
    assert not (project.root / "lock").exists()
    assert list(small_disk.glob("store/ingest/*")) == []
    project.build()


@needs_root
def test_store_that_cannot_be_written(project: SmallProject, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = project.compose("build", "app", ok=False, COMPOSE_STORE=str(small_disk / "store"))
    assert done.code == 3
    assert "cannot write" in done.err
    assert "set COMPOSE_STORE to another directory" in done.err


def test_two_builds_at_once_give_one_digest_and_a_sound_store(project: SmallProject) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COMPOSE_STORE": str(project.store),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(project.wheels),
    }
    command = [sys.executable, "-m", "composer", "build", "app", "-q"]
    running = [
        subprocess.Popen(command, cwd=project.root, env=environment, stdout=-1, text=True)
        for _ in range(4)
    ]
    printed = {process.communicate()[0] for process in running}
    assert {process.returncode for process in running} == {0}
    assert printed == {project.build()["digest"] + "\n"}
    _whole(project.store)


def test_killed_at_any_point_the_next_run_is_right(project: SmallProject) -> None:
    expected = project.build()["digest"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(project.wheels),
    }
    start = time.monotonic()
    project.build(COMPOSE_STORE=str(project.folder / "timed"))
    whole = time.monotonic() - start
    store = project.folder / "killed"
    command = [sys.executable, "-m", "composer", "build", "app", "-q"]
    killed = 0
    for step in range(12):
        (project.root / "lock/app.lock").unlink(missing_ok=True)
        process = subprocess.Popen(
            command,
            cwd=project.root,
            env={**environment, "COMPOSE_STORE": str(store)},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(whole * (step + 1) / 13)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed >= 3
    assert project.build(COMPOSE_STORE=str(store))["digest"] == expected
    _whole(store)


def test_a_damaged_blob_is_noticed(project: SmallProject) -> None:
    answer = project.build()
    layer = answer["platforms"][0]["layers"][0]["digest"].removeprefix("sha256:")
    (project.store / "blobs/sha256" / layer).write_bytes(b"short")
    assert project.build()["digest"] == answer["digest"]
    _whole(project.store)


def test_modules_lost_between_two_commits(project: SmallProject) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=project.root, check=True, stdout=-1)

    project.images["app"]["modules"] = ["first", "second"]
    project.write().patch("second", {9: "second"})
    project.compose("lock")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "both")
    project.images["app"]["modules"] = ["first"]
    project.write().compose("lock")
    done = project.compose("lock", "--check", "--against", "HEAD", ok=False)
    assert done.code == 1
    assert "module second is LOST: image app had it at HEAD" in done.err
    project.images["app"]["retired"] = ["second"]
    project.write()
    assert project.compose("lock", "--check", "--against", "HEAD").code == 0
    unknown = project.compose("lock", "--check", "--against", "nowhere", ok=False)
    assert unknown.code == 2
