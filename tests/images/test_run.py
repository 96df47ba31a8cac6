"""An image that was pushed runs: podman pulls it, and the patched file is inside."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.baseimages import TINY, BaseImage, Item, Layer, one_image, tar_of, upload
from tests.support.commands import Done, run, tool
from tests.support.projects import CORE, SmallProject

from .conftest import Place

Make = Callable[..., SmallProject]
CHANGED = CORE.replace(b"line 3\n", b"changed\n")


def podman(folder: Path, *arguments: str, ok: bool = True) -> Done:
    """Run podman with a storage of its own."""
    if os.geteuid() != 0:
        pytest.skip("podman is run as root here")
    storage = ["--root", str(folder / "root"), "--runroot", str(folder / "run")]
    how = ["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", tool("runc")]
    return run([tool("podman"), *storage, *how, *arguments], cwd=folder, ok=ok)


def busybox() -> Path:
    """Return a busybox that needs no libraries; skip where there is none."""
    path = Path(tool("busybox"))
    if b"ld-linux" in path.read_bytes()[:4096]:
        pytest.skip("this busybox is not static (apt-get install busybox-static)")
    return path


@pytest.mark.parametrize("family", ["oci", "docker"])
def test_podman_runs_what_was_pushed(place: Place, on: Make, family: str) -> None:
    tool("podman")
    program = [
        Item("bin/", kind="d", mode=0o755),
        Item("bin/busybox", busybox().read_bytes(), mode=0o755),
        *(Item(f"bin/{name}", kind="l", link="busybox") for name in ("sh", "cat", "stat", "ls")),
        Item("etc/passwd", b"root:x:0:0:root:/:/bin/sh\n"),
    ]
    package = [
        Item(f"{TINY}/", kind="d", mode=0o750, owner=(5, 6)),
        Item(f"{TINY}/core.py", CORE, mode=0o640, owner=(5, 6)),
        Item(f"{TINY}/core.pyc", b"stale"),
    ]
    image = BaseImage()
    one_image(image, [Layer(tar_of(program)), Layer(tar_of(package))], family=family)
    upload(image, place.netloc, f"base/busybox-{family}", "v1")
    project = on(f"{place.netloc}/base/busybox-{family}:v1")
    reference = project.compose("push", "app").last
    limits = ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=1000:1000"]
    plain = ["--rm", "--network=none", "--tls-verify=false", *limits]
    tagged, _, digest = reference.partition("@")
    pinned = f"{tagged.rpartition(':')[0]}@{digest}"
    script = (
        f"PATH=/bin; cat /{TINY}/core.py; stat -c '%a %u:%g' /{TINY} /{TINY}/core.py; ls /{TINY}"
    )
    # podman takes no path of more than 50 characters for it.
    with tempfile.TemporaryDirectory(prefix="run-") as name:
        storage = Path(name)
        done = podman(storage, "run", *plain, pinned, "/bin/sh", "-c", script)
        expected = f"{CHANGED.decode()}750 5:6\n640 5:6\ncore.py\n"
        assert done.out == expected
        listed = podman(storage, "images", "--digests", "--format", "{{.Digest}}")
        assert listed.out.split() == [digest]
