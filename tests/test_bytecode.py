"""Bytecode that is older than its source: real interpreters run the new code, or would not."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from composer.bytecode import is_source, mtime, shadows, stale
from composer.layering import layers_of
from composer.module import Change
from composer.oci.digest import sha256
from composer.overlay import overlay
from tests.support.trees import EPOCH, added, extract, module, on_disk, patched, removed, view

OLD, NEW = b"VALUE = 'old'\n", b"VALUE = 'new'\n"  # of one size


def test_is_source() -> None:
    assert is_source("a/b.py")
    assert not is_source("a/b.pyc")
    assert not is_source("a/b.pyi")
    assert not is_source("py")


def test_stale_bytecode_of_a_source() -> None:
    names = [
        "__pycache__/core.cpython-312.pyc",
        "__pycache__/core.cpython-312.opt-1.pyc",
        "__pycache__/core.cpython-313.opt-2.pyc",
        "__pycache__/core.pypy311.pyc",
        "core.pyc",
    ]
    others = [
        "__pycache__/core.cpython-312.pyc.tmp",
        "__pycache__/core.inner.cpython-312.pyc",
        "__pycache__/score.cpython-312.pyc",
        "__pycache__/coreX.cpython-312.pyc",
        "core.pyo",
        "corexpyc",
    ]
    on = view({f"lib/{name}": b"" for name in [*names, *others, "core.py"]})
    assert sorted(stale("lib/core.py", on.names)) == sorted(f"lib/{name}" for name in names)
    assert list(stale("lib/away.py", on.names)) == []
    at_root = view({"core.pyc": b"", "__pycache__/core.cpython-312.pyc": b""})
    assert sorted(stale("core.py", at_root.names)) == sorted(at_root.contents)


def test_the_time_of_a_source_says_its_version() -> None:
    assert mtime(EPOCH, sha256(OLD)) == 1712021587  # EPOCH - 0x26d575, the end of 26e8e126d575
    assert mtime(EPOCH, sha256(NEW)) == 1700039774
    assert mtime(0, sha256(NEW)) == 2250390
    for number in range(200):
        digest = sha256(b"%d" % number)
        assert EPOCH - 2**24 < mtime(EPOCH, digest) <= EPOCH
        assert 0 < mtime(0, digest) <= 2**24
        assert mtime(0, digest) == mtime(1000, digest)
    assert len({mtime(EPOCH, sha256(b"%d" % number)) for number in range(200)}) == 200


# With a real interpreter


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An image's package directory, where everything has one time."""
    root = tmp_path / "image"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg" / "__init__.py").write_bytes(b"")
    return root


def clamp(root: Path) -> None:
    for path in [root, *root.rglob("*")]:
        os.utime(path, (EPOCH, EPOCH))


def install(root: Path, name: str, data: bytes) -> Path:
    path = root / "pkg" / name
    path.write_bytes(data)
    os.utime(path, (EPOCH, EPOCH))
    return path


def run(root: Path, *flags: str, prefix: Path | None = None) -> str:
    """Import pkg.core and return its VALUE, or the name of the error."""
    program = (
        "try:\n from pkg.core import VALUE\n"
        "except ImportError as error:\n VALUE = type(error).__name__\n"
        "print(VALUE)"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PYTHONPATH"] = str(root)
    if prefix is not None:
        env["PYTHONPYCACHEPREFIX"] = str(prefix)
    command = [sys.executable, *flags, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def compose(root: Path, changes: Iterable[Change]) -> None:
    """Put our layer of these changes on the image."""
    on = on_disk(root)
    made = overlay([module("a", *changes)], on, "")
    assert made.faults == ()
    for layer in layers_of(made.changes, on, epoch=EPOCH, base_layers=1):
        extract(layer.blob, root)


def naively(root: Path, changes: Iterable[Change]) -> None:
    """Do what a plain layer would: the files, all of one time, and nothing else."""
    for change in overlay([module("a", *changes)], on_disk(root), "").changes:
        if change.post is None:
            (root / change.path).unlink()
        else:
            install(root, Path(change.path).name, change.data)


Way = Callable[[Path, Iterable[Change]], None]
PATCH = patched("pkg/core.py", OLD, NEW)


@pytest.mark.parametrize(("way", "value"), [(compose, "new"), (naively, "old")])
@pytest.mark.parametrize("flag", ["-B", "-O", "-OO"])
def test_an_edit_of_equal_size_under_one_time(root: Path, way: Way, value: str, flag: str) -> None:
    install(root, "core.py", OLD)
    for optimize in (0, 1, 2):
        py_compile.compile(str(root / "pkg/core.py"), optimize=optimize, doraise=True)
    assert run(root, flag) == "old"
    clamp(root)
    way(root, [PATCH])
    assert run(root, flag) == value


@pytest.mark.parametrize(("way", "value"), [(compose, "new"), (naively, "old")])
def test_bytecode_that_is_never_checked(root: Path, way: Way, value: str) -> None:
    core = install(root, "core.py", OLD)
    mode = PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(core), invalidation_mode=mode, doraise=True)
    longer = b"VALUE = 'new'  # and of another size\n"
    way(root, [patched("pkg/core.py", OLD, longer)])
    assert run(root) == value


@pytest.mark.parametrize(("way", "value"), [(compose, "ModuleNotFoundError"), (naively, "old")])
def test_legacy_bytecode_of_a_removed_source(root: Path, way: Way, value: str) -> None:
    core = install(root, "core.py", OLD)
    py_compile.compile(str(core), cfile=str(root / "pkg/core.pyc"), doraise=True)
    py_compile.compile(str(core), doraise=True)
    clamp(root)
    way(root, [removed("pkg/core.py", OLD)])
    assert run(root) == value


@pytest.mark.parametrize(("way", "value"), [(compose, "new"), (naively, "old")])
def test_bytecode_beside_an_added_source(root: Path, way: Way, value: str) -> None:
    core = install(root, "core.py", OLD)
    py_compile.compile(str(core), doraise=True)
    core.unlink()  # as an uninstaller does that does not know of the bytecode
    assert run(root) == "ModuleNotFoundError"
    way(root, [added("pkg/core.py", NEW)])
    assert run(root) == value


@pytest.mark.parametrize(("way", "value"), [(compose, "new"), (naively, "old")])
def test_two_images_with_one_cache_elsewhere(
    root: Path, tmp_path: Path, way: Way, value: str
) -> None:
    prefix, base = tmp_path / "cache", tmp_path / "base"
    install(root, "core.py", b"VALUE = 'one'\n")
    shutil.copytree(root, base)
    clamp(root)
    change = patched("pkg/core.py", b"VALUE = 'one'\n", OLD)
    way(root, [change])  # the first image, at the place where the next one will be
    assert run(root, prefix=prefix) == "old"
    assert list(prefix.rglob("core.*.pyc"))
    shutil.rmtree(root)
    shutil.copytree(base, root)
    way(root, [patched("pkg/core.py", b"VALUE = 'one'\n", NEW)])
    assert run(root, prefix=prefix) == value


@pytest.mark.parametrize(("way", "value"), [(compose, "new"), (naively, "old")])
def test_the_base_and_an_image_with_one_cache_elsewhere(
    root: Path, tmp_path: Path, way: Way, value: str
) -> None:
    install(root, "core.py", OLD)
    assert run(root, prefix=tmp_path / "cache") == "old"
    way(root, [PATCH])
    assert run(root, prefix=tmp_path / "cache") == value


@pytest.mark.parametrize(
    "shadow", ["core.so", "core.abi3.so", "core/__init__.py", "core/__init__.pyc"]
)
def test_an_import_does_find_these_before_a_source(root: Path, shadow: str) -> None:
    install(root, "core.py", OLD)
    path = root / "pkg" / shadow
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".pyc":
        py_compile.compile(str(install(root, "other.py", NEW)), str(path), doraise=True)
    else:
        path.write_bytes(NEW)
    library = path.suffix == ".so"  # it is found, and is none
    assert run(root) == ("ImportError" if library else "new")
    found = list(shadows("pkg/core.py", on_disk(root).names))
    assert found == [f"pkg/{shadow}" if library else "pkg/core"]
