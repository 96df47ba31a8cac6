"""Wheels whose bytes are not those that their RECORD and their archive promise."""

from __future__ import annotations

import os
import random
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from composer.errors import Fault, IntegrityError
from composer.wheel import Wheel, read_wheel

from .support.wheels import (
    FILENAME,
    ROOT,
    Packed,
    Rows,
    build_wheel,
    content,
    hash_text,
    on,
    patch,
)


def damage(wheel: Wheel, name: str) -> Fault:
    """Return the fault that reading a member of the wheel ends with."""
    member = on(wheel)[f"{ROOT}/{name}"]
    with pytest.raises(IntegrityError) as caught:
        content(member)
    (fault,) = caught.value.faults
    assert fault.what == "a file of the archive is damaged"
    assert fault.where == f"{FILENAME}: {name}"
    assert fault.fix == "fetch the archive again"
    return fault


def test_content_that_is_forged_with_its_crc(tmp_path: Path) -> None:
    knobs: dict[str, Any] = {"central": {"demo.py": {"CRC": zlib.crc32(b"forged\n")}}}
    path = build_wheel(tmp_path, {"demo.py": Packed(b"honest\n", method=0)}, **knobs)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"honest\n", b"forged\n"))
    fault = damage(read_wheel(path), "demo.py")
    assert fault.expected == hash_text(b"honest\n") + " (RECORD)"
    assert fault.found == hash_text(b"forged\n")


def test_content_that_is_forged_without_its_crc(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, {"demo.py": Packed(b"honest\n", method=0)})
    patch(path, b"honest\n", b"forged\n")
    fault = damage(read_wheel(path), "demo.py")
    assert (fault.expected, fault.found) == ("CRC-32 0b5c2d8b", "CRC-32 0613294d")


def test_a_bomb_that_declares_less_than_it_holds(tmp_path: Path) -> None:
    record: Callable[[Rows], Rows] = lambda rows: [  # noqa: E731
        (name, text, "5" if name == "demo.py" else size) for name, text, size in rows
    ]
    path = build_wheel(
        tmp_path,
        {"demo.py": bytes(64 * 1024 * 1024)},
        record=record,
        central={"demo.py": {"file_size": 5}},
    )
    fault = damage(read_wheel(path), "demo.py")
    assert (fault.expected, fault.found) == ("5 bytes", "more")


def test_content_that_is_shorter_than_declared(tmp_path: Path) -> None:
    record: Callable[[Rows], Rows] = lambda rows: [  # noqa: E731
        (name, text, "9" if name == "demo.py" else size) for name, text, size in rows
    ]
    path = build_wheel(
        tmp_path, {"demo.py": b"12345"}, record=record, central={"demo.py": {"file_size": 9}}
    )
    fault = damage(read_wheel(path), "demo.py")
    assert (fault.expected, fault.found) == ("9 bytes", "5 bytes")


def test_deflated_data_that_is_none(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, {"demo.py": b"abcdefgh" * 100})
    wheel = read_wheel(path)
    (file,) = [one for one in wheel.files if one.path == "demo.py"]
    start = file.packed.offset + 30 + len("demo.py")
    data = bytearray(path.read_bytes())
    data[start] = 0xFF  # block type 3 is not one
    path.write_bytes(data)
    assert damage(wheel, "demo.py").expected == "deflated data"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_that_was_cut_after_it_was_read(tmp_path: Path, method: int) -> None:
    noise = random.Random(2).randbytes(2 * 1024 * 1024)
    path = build_wheel(tmp_path, {"demo.py": Packed(noise, method=method)})
    wheel = read_wheel(path)
    os.truncate(path, 1024 * 1024)
    assert "end" in damage(wheel, "demo.py").found


def test_a_local_header_that_names_another_file(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, {"demo.py": b"1", "evil.py": b"1"})
    wheel = read_wheel(path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"demo.py", b"evil.py", 1))
    fault = damage(wheel, "demo.py")
    assert fault.expected == "local file header of b'demo.py'"
    assert fault.found == "b'evil.py'"


def test_an_offset_that_leads_elsewhere(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, {"demo.py": b"1"})
    wheel = read_wheel(path)
    path.write_bytes(path.read_bytes().replace(b"PK\x03\x04", b"PK\x00\x00", 1))
    found = damage(wheel, "demo.py")
    assert (found.expected, found.found) == ("a local file header", "other bytes")


def test_contents_come_in_small_pieces(tmp_path: Path) -> None:
    size = 5 * 1024 * 1024 + 1
    wheel = read_wheel(
        build_wheel(tmp_path, {"a": bytes(size), "b": Packed(bytes(size), method=0)})
    )
    for one in wheel.files[:2]:
        pieces = [len(piece) for piece in one.chunks()]
        assert max(pieces) == 1024 * 1024
        assert sum(pieces) == size
