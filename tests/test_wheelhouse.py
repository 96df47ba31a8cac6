"""Wheels through pip, from directories that stand for an index: no test needs a network."""

from __future__ import annotations

import http.server
import os
import sys
import threading
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from composer.errors import ComposeError, Fault, InputError, IntegrityError, UnreachableError
from composer.oci.digest import sha256
from composer.oci.layout import Layout
from composer.oci.platform import Platform
from composer.wheelhouse import WheelPin, WheelTarget, fetch, resolve
from composer.wheelhouse.failure import redact

from .support.wheels import build_wheel

TARGET = WheelTarget("3.12", Platform("linux", "amd64"), "2.35")
CLOSED = "127.0.0.1:9"  # the discard port, which nobody serves
ASKED = (
    "a wheel for CPython 3.12 on linux/amd64, glibc 2.35: cp312, abi3 or none, on"
    " manylinux_2_35_x86_64 to linux_x86_64, or any"
)
SETTINGS = "check the network and pip's settings: python -m pip config list"


@pytest.fixture(autouse=True)
def _own_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep this machine's pip settings, and its network, out."""
    for name in [name for name in os.environ if name.upper().startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_RETRIES", "0")


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that is all the index there is."""
    directory = tmp_path / "links"
    directory.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    return directory


@pytest.fixture
def layout(own_store: Path) -> Layout:
    """Return an empty store."""
    return Layout(own_store)


def fault_of(error: type[ComposeError], action: Callable[[], object]) -> Fault:
    """Return the one fault that `action` fails with."""
    with pytest.raises(error) as caught:
        action()
    (fault,) = caught.value.faults
    return fault


def is_clean(layout: Layout) -> bool:
    """Tell whether nothing is left of a download."""
    return list((layout.root / "ingest").iterdir()) == []


# Resolving


def test_resolves_to_pins_and_keeps_the_wheels(links: Path, layout: Layout) -> None:
    one = build_wheel(links, name="Demo", version="1.5", tag="cp38-abi3-manylinux_2_28_x86_64")
    two = build_wheel(links, name="other_thing", version="2.0")
    one_data, two_data = one.read_bytes(), two.read_bytes()
    for old in ("1.4", "2.1"):
        build_wheel(links, name="Demo", version=old)
    assert resolve(["other.thing", "demo >=1.0, <2"], TARGET, layout) == (
        WheelPin(
            requirement="other.thing",
            name="other-thing",
            version="2.0",
            filename="other_thing-2.0-py3-none-any.whl",
            digest=sha256(two_data),
            size=len(two_data),
        ),
        WheelPin(
            requirement="demo >=1.0, <2",
            name="demo",
            version="1.5",
            filename="Demo-1.5-cp38-abi3-manylinux_2_28_x86_64.whl",
            digest=sha256(one_data),
            size=len(one_data),
        ),
    )
    assert layout.read(sha256(one_data)) == one_data
    assert layout.path(sha256(two_data)).stat().st_mode & 0o777 == 0o644
    assert is_clean(layout)


def test_requirements_are_names_and_versions(layout: Layout) -> None:
    with pytest.raises(InputError) as caught:
        resolve(
            [
                "demo[extra]==1",
                "demo @ https://example.org/demo-1-py3-none-any.whl",
                'demo==1; python_version > "3"',
                "--index-url=http://evil.example",
                "demo",
                "Demo==2",
            ],
            TARGET,
            layout,
        )
    assert [(one.what, one.where, one.found) for one in caught.value.faults] == [
        ("a wheel's requirement has no use for extras", "demo[extra]==1", ""),
        (
            "a wheel's requirement has no use for a URL",
            "demo @ https://example.org/demo-1-py3-none-any.whl",
            "",
        ),
        (
            "a wheel's requirement has no use for a marker",
            'demo==1; python_version > "3"',
            "",
        ),
        ("not a requirement", "--index-url=http://evil.example", ""),
        ("two requirements for one distribution", "Demo==2", "demo"),
    ]
    assert not layout.root.exists()


def test_versions_that_do_not_exist(links: Path, layout: Layout) -> None:
    for version in ("1.0", "1.1", "2.0"):
        build_wheel(links, version=version)
    fault = fault_of(InputError, lambda: resolve(["demo==3"], TARGET, layout))
    assert fault == Fault(
        what="the package index has no wheel that fits",
        where="demo==3",
        expected=ASKED,
        found="versions 2.0, 1.1, 1.0",
        fix="choose a version and platform that has one: python -m pip index versions demo",
    )
    assert is_clean(layout)


def test_names_that_do_not_exist(links: Path, layout: Layout) -> None:
    fault = fault_of(InputError, lambda: resolve(["demo==3"], TARGET, layout))
    assert fault.found == "no version at all"


def test_wheels_for_other_systems(links: Path, layout: Layout) -> None:
    build_wheel(links, tag="cp312-cp312-manylinux_2_28_aarch64")
    build_wheel(links, tag="cp312-cp312-manylinux_2_36_x86_64")
    build_wheel(links, version="1.1", tag="cp312-cp312-win_amd64")
    fault = fault_of(InputError, lambda: resolve(["demo==1.0"], TARGET, layout))
    assert fault.expected == ASKED
    assert fault.found.split(", ") == [
        "demo-1.0-cp312-cp312-manylinux_2_28_aarch64.whl",
        "demo-1.0-cp312-cp312-manylinux_2_36_x86_64.whl",
    ]


def test_source_distributions(links: Path, layout: Layout) -> None:
    (links / "demo-1.0.tar.gz").write_bytes(b"")
    fault = fault_of(InputError, lambda: resolve(["demo"], TARGET, layout))
    assert fault.found == "demo-1.0.tar.gz"


def test_this_host_does_not_count(links: Path, layout: Layout) -> None:
    build_wheel(links, tag="cp39-cp39-manylinux_2_17_aarch64")
    build_wheel(links, tag="cp312-cp312-manylinux_2_17_x86_64")
    target = WheelTarget("3.9", Platform("linux", "arm64"), "2.31")
    (pin,) = resolve(["demo"], target, layout)
    assert pin.filename == "demo-1.0-cp39-cp39-manylinux_2_17_aarch64.whl"


@pytest.mark.parametrize(
    "variables",
    [
        {"PIP_PLATFORM": "win_amd64", "PIP_PYTHON_VERSION": "3.8", "PIP_ABI": "cp38"},
        {"PIP_REQUIRE_HASHES": "1"},
        {"PIP_REQUIRE_VIRTUALENV": "1", "VIRTUAL_ENV": ""},
        {"PIP_NO_BINARY": ":all:"},
        {"PIP_QUIET": "3", "PIP_LOG": "elsewhere.log"},
        {"PIP_REQUIREMENT": "gone.txt"},
        {"PIP_DEST": "elsewhere", "PIP_PYTHON": "/nonexistent"},
        {"PYTHONWARNINGS": "error", "PYTHONSAFEPATH": ""},
    ],
)
def test_settings_that_would_break_it(
    links: Path,
    layout: Layout,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
) -> None:
    build_wheel(links)
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (pin,) = resolve(["demo==1.0"], TARGET, layout)
    assert pin.filename == "demo-1.0-py3-none-any.whl"
    assert {path.name for path in tmp_path.iterdir()} <= {"cache", "links", "store"}


def test_configured_requirements_are_not_taken(
    links: Path, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_wheel(links)
    build_wheel(links, name="other")
    (tmp_path / "more.txt").write_text("other\n")
    (tmp_path / "pip.conf").write_text(f"[download]\nrequirement = {tmp_path}/more.txt\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    fault = fault_of(InputError, lambda: resolve(["demo"], TARGET, layout))
    assert (fault.what, fault.where) == (
        "pip brought a file nobody asked for",
        "other-1.0-py3-none-any.whl",
    )


def test_configured_platforms_are_not_taken(
    links: Path, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_wheel(links, tag="cp312-cp312-win_amd64")
    (tmp_path / "pip.conf").write_text("[download]\nplatform = win_amd64\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    fault = fault_of(InputError, lambda: resolve(["demo"], TARGET, layout))
    assert (fault.what, fault.where, fault.expected) == (
        "pip brought a wheel for another system",
        "demo-1.0-cp312-cp312-win_amd64.whl",
        "CPython 3.12 on linux/amd64, glibc 2.35",
    )


def test_the_working_directory_is_not_imported_from(
    links: Path, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_wheel(links)
    here = tmp_path / "here"
    here.mkdir()
    (here / "pip.py").write_text("raise SystemExit('evil')\n")
    monkeypatch.chdir(here)
    assert len(resolve(["demo"], TARGET, layout)) == 1


def test_constraints_that_exclude_it(
    links: Path, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_wheel(links)
    (tmp_path / "constraints.txt").write_text("demo==0.9\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints.txt"))
    fault = fault_of(InputError, lambda: resolve(["demo==1.0"], TARGET, layout))
    assert fault.what == "pip's constraints exclude what is asked for"
    assert fault.context == (
        "The user requested demo==1.0",
        "The user requested (constraint) demo==0.9",
    )


def test_what_a_killed_process_left_is_gone(links: Path, layout: Layout) -> None:
    build_wheel(links)
    left = layout.root / "ingest" / "wheels" / "0123" / "files"
    left.mkdir(parents=True)
    (left / "demo-9-py3-none-any.whl").write_bytes(b"half")
    (pin,) = resolve(["demo"], TARGET, layout)
    assert pin.version == "1.0"
    assert is_clean(layout)


# Fetching


@pytest.fixture
def pin(links: Path, layout: Layout) -> WheelPin:
    """Return the pin of a wheel that the index has and the store holds."""
    build_wheel(links)
    (pin,) = resolve(["demo==1.0"], TARGET, layout)
    return pin


def test_fetches_from_the_store_without_pip(
    pin: WheelPin, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    path = fetch(pin, TARGET, layout)
    assert path == layout.root / "blobs" / "sha256" / pin.digest.hex


@pytest.mark.parametrize(
    "tag",
    [
        "py3-none-any",
        "cp38-abi3-manylinux_2_28_x86_64",
        "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64",
    ],
)
def test_fetches_what_the_store_lacks(
    links: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    build_wheel(links, tag=tag)
    (pin,) = resolve(["demo==1.0"], TARGET, layout)
    layout.path(pin.digest).unlink()
    build_wheel(links, tag="cp312-cp312-manylinux_2_35_x86_64")  # which pip would like better
    monkeypatch.setenv("PIP_CONSTRAINT", "/nonexistent/constraints.txt")
    path = fetch(pin, TARGET, layout)
    assert sha256(path.read_bytes()) == pin.digest
    assert is_clean(layout)


@pytest.mark.parametrize("damage", [b"", b"x"])
def test_a_damaged_blob_is_replaced(pin: WheelPin, layout: Layout, damage: bytes) -> None:
    path = layout.path(pin.digest)
    honest = path.read_bytes()
    path.write_bytes(damage * len(honest))
    assert fetch(pin, TARGET, layout).read_bytes() == honest


def test_a_damaged_blob_that_cannot_be_replaced(
    pin: WheelPin, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layout.path(pin.digest)
    path.write_bytes(b"x" * pin.size)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{CLOSED}/simple")
    fault = fault_of(IntegrityError, lambda: fetch(pin, TARGET, layout))
    assert (fault.what, fault.where) == ("a blob of the store is damaged", str(path))
    assert fault.expected == str(pin.digest)


def test_the_index_has_other_bytes(pin: WheelPin, links: Path, layout: Layout) -> None:
    layout.path(pin.digest).unlink()
    path = build_wheel(links, {"demo/__init__.py": b"forged"})
    fault = fault_of(IntegrityError, lambda: fetch(pin, TARGET, layout))
    assert fault == Fault(
        what="the package index serves a file with another hash",
        where="demo==1.0",
        expected=str(pin.digest),
        found=str(sha256(path.read_bytes())),
        fix="find out who changed the file before you lock again",
    )
    assert not layout.has(pin.digest)
    assert is_clean(layout)


def test_the_index_has_it_no_more(pin: WheelPin, links: Path, layout: Layout) -> None:
    layout.path(pin.digest).unlink()
    (links / pin.filename).unlink()
    fault = fault_of(InputError, lambda: fetch(pin, TARGET, layout))
    assert (fault.where, fault.found) == ("demo==1.0", "no version at all")


# What cannot be reached


def test_an_index_that_is_down(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://joe:secret@{CLOSED}/simple")
    fault = fault_of(UnreachableError, lambda: resolve(["demo==1.0"], TARGET, layout))
    assert fault.what == "the package index cannot be reached"
    assert (fault.where, fault.fix) == ("demo==1.0", SETTINGS)
    assert fault.found.startswith(f"http://****@{CLOSED}/simple/demo/: connection error: ")
    assert "Connection refused" in fault.found
    assert "secret" not in str(fault)
    assert "joe" not in str(fault)
    assert is_clean(layout)


def test_a_host_without_an_address(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.invalid/simple")
    fault = fault_of(UnreachableError, lambda: resolve(["demo==1.0"], TARGET, layout))
    assert fault.found.startswith("https://index.invalid/simple/demo/: connection error: ")


@pytest.fixture
def answering() -> Iterator[Callable[[int], str]]:
    """Return a function that starts an index which answers everything with one status."""
    servers = []

    def start(status: int) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/simple"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_an_index_that_refuses(
    layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
    answering: Callable[[int], str],
    status: int,
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", answering(status))
    fault = fault_of(UnreachableError, lambda: resolve(["demo==1.0"], TARGET, layout))
    assert str(status) in fault.found


def test_an_index_that_does_not_know_the_name(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, answering: Callable[[int], str]
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", answering(404))
    fault = fault_of(InputError, lambda: resolve(["demo==1.0"], TARGET, layout))
    assert fault.found == "no version at all"


@pytest.mark.parametrize("host", [CLOSED, f"joe:secret@{CLOSED}"])
def test_a_file_server_that_is_down(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    page = tmp_path / "simple/demo/index.html"
    page.parent.mkdir(parents=True)
    name = "demo-1.0-py3-none-any.whl"
    page.write_text(f'<!DOCTYPE html><a href="http://{host}/{name}">{name}</a>')
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    fault = fault_of(UnreachableError, lambda: resolve(["demo==1.0"], TARGET, layout))
    assert fault.what == "the package index cannot be reached"
    assert CLOSED.partition(":")[0] in fault.found
    assert "secret" not in str(fault)


def test_pip_that_is_missing(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/bin/python"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    fault = fault_of(UnreachableError, lambda: resolve(["demo==1.0"], TARGET, layout))
    assert fault.what == "pip, which downloads wheels, is not installed beside compose"
    assert fault.fix == "install it: python -m ensurepip"


def test_a_failure_nobody_foresaw(
    links: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", "soon")
    fault = fault_of(UnreachableError, lambda: resolve(["demo==1.0"], TARGET, layout))
    assert (fault.what, fault.where) == ("pip download failed", "demo==1.0")
    assert any("soon" in line for line in fault.context)


def test_redaction() -> None:
    text = "see https://joe:p%40ss@example.org/simple and git+ssh://git@host/x, mail a@b.c"
    assert redact(text) == (
        "see https://****@example.org/simple and git+ssh://****@host/x, mail a@b.c"
    )
