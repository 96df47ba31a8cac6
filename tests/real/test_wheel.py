"""The real wheel: 314 MB, 4,835 files, 723 MiB unpacked."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from composer.oci.layout import Layout
from composer.oci.platform import Platform
from composer.wheel import members, read_wheel
from composer.wheelhouse import WheelTarget, fetch, resolve
from tests.support.commands import ROOT as PROJECT
from tests.support.wheels import MTIME, ROOT, SCHEME, nothing

pytestmark = pytest.mark.real

TARGET = WheelTarget("3.12", Platform("linux", "amd64"), "2.35")
WHEEL = "vllm-0.28.0-cp38-abi3-manylinux_2_28_x86_64.whl"
ASSEMBLE = f"""
import json, re, sys
from pathlib import Path
from composer.oci.layer import encode_layer
from composer.oci.layout import Layout
from composer.wheel import Scheme, members, read_wheel

wheel = read_wheel(Path(sys.argv[1]), filename={WHEEL!r})
scheme = Scheme({SCHEME.package_root!r}, {SCHEME.interpreter!r})
with Layout(Path(sys.argv[2])).ingest() as ingest:
    found = members(wheel, scheme, mtime={MTIME}, stat=lambda path: None)
    layer = encode_layer(found, ingest.write)
    ingest.commit(layer.digest)
# Not ru_maxrss, in which a process inherits the size of the one that started it.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps([str(layer.diff_id), layer.size, peak]))
"""


def test_the_real_wheel_becomes_a_layer(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "store")
    (pin,) = resolve(["vllm==0.28.0"], TARGET, layout)
    assert (pin.filename, pin.size) == (WHEEL, 314500103)
    assert pin.digest.hex == "addb0ffdaafd8155d75e9b3f5ddb3da28fdee9e8a7097ede91f7db2e9e1a3889"
    path = fetch(pin, TARGET, layout)
    done = subprocess.run(
        [sys.executable, "-c", ASSEMBLE, str(path), str(layout.root)],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        text=True,
    )
    diff_id, size, peak = json.loads(done.stdout)
    assert diff_id == "sha256:f606c9a28228c841714a929f4fd11e5fbe9f18b89dd330e35852ef48064a28a0"
    assert size == 764997135
    assert peak < 200 * 1024  # KiB
    _is_what_zipfile_reads(path)


def _is_what_zipfile_reads(path: Path) -> None:
    wheel = read_wheel(path, filename=WHEEL)
    found = {one.path: one for one in members(wheel, SCHEME, mtime=MTIME, stat=nothing)}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.endswith("/RECORD"):
                with archive.open(name) as file:
                    digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
                assert found[f"{ROOT}/{name}"].entry.sha256 == digest.hexdigest(), name
