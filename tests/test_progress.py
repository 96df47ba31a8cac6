"""Progress: what listeners are told, and what people see on a terminal, in a log, and nowhere."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer.oci.image import Image
from composer.oci.layout import Layout
from composer.oci.manifest import Descriptor
from composer.oci.mediatype import OCI
from composer.oci.registry.delivery import overlap
from composer.progress import counted, transfer, using
from tests.oci.support import file, folder, image, store_layer
from tests.support.commands import ROOT, compose, compose_on_terminal
from tests.support.progress import Heard, Listener
from tests.support.projects import CORE, SmallProject
from tests.support.projects import ROOT as PACKAGES
from tests.support.registry import Simulator

MIB = 1024 * 1024
PACKAGE = f"{PACKAGES.lstrip('/')}/tiny"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|9[0-7])[0-9;]*m")


# -- what listeners are told -------------------------------------------------------------------


def test_a_transfer_from_begin_to_end() -> None:
    listener = Listener()
    with using(listener):
        assert list(counted([b"12", b"345"], "five", 5)) == [b"12", b"345"]
        with transfer("unknown") as advance:
            advance(7)
    assert listener.heard == [Heard("five", 5, 5, True), Heard("unknown", None, 7, True)]


def test_a_transfer_that_fails_or_is_left_is_not_whole() -> None:
    def broken() -> Iterator[bytes]:
        yield b"1"
        raise ConnectionResetError

    listener = Listener()
    with using(listener):
        with pytest.raises(ConnectionResetError):
            list(counted(broken(), "broken", 9))
        left = counted([b"1", b"2"], "left", 2)
        next(left)
        left.close()  # type: ignore[attr-defined]
        with pytest.raises(KeyError), transfer("raised"):
            raise KeyError
    assert [(one.label, one.moved, one.whole) for one in listener.heard] == [
        ("broken", 1, False),
        ("left", 1, False),
        ("raised", 0, False),
    ]


def test_nobody_listens_before_and_after() -> None:
    listener = Listener()
    with using(listener):
        pass
    assert list(counted([b"1"], "one", 1)) == [b"1"]
    assert not listener.heard


def test_content_is_counted_where_it_is_read_by_another_thread() -> None:
    listener = Listener()
    with using(listener):
        chunks = counted([b"123"], "read elsewhere", 3)
    reader = threading.Thread(target=lambda: list(chunks))
    reader.start()
    reader.join()
    assert listener.heard == [Heard("read elsewhere", 3, 3, True)]


def test_what_runs_side_by_side_is_told_of() -> None:
    def move(number: int) -> None:
        list(counted([b"1" * number], str(number), number))

    listener = Listener()
    with using(listener):
        overlap(move, [1, 2, 3], 2)
    assert sorted(one.label for one in listener.heard) == ["1", "2", "3"]


# -- what people see ---------------------------------------------------------------------------


def publish(sim: Simulator, folder: Path, size: int) -> str:
    """Put an image with one file of `size` bytes into the simulator; returns its reference."""
    layout = Layout(folder / "made")
    layer = store_layer(layout, [file("big", bytes(size))])
    return _put(sim, layout, image([layer]), layer[0])


def _put(sim: Simulator, layout: Layout, made: Image, layer: Descriptor) -> str:
    sim.add_blob("base", layout.read(layer.digest))
    sim.add_blob("base", made.config.raw)
    sim.add_manifest("base", made.manifest.raw, OCI.manifest, "1")
    return f"{sim.netloc}/base:1"


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator().running() as simulator:
        yield simulator


def test_a_bar_on_a_terminal(sim: Simulator, tmp_path: Path) -> None:
    reference = publish(sim, tmp_path, 4 * MIB)
    sim.pace = 0.15
    done = compose_on_terminal("toc", reference, cwd=tmp_path)
    assert f"layer 1 of 1, {reference[:20]}" in done.err
    assert re.search(r"\d\.\d MiB of 4\.0 MiB +\d+\.\d [KM]iB/s +\d s left", done.err), done.err
    assert done.err.count("\x1b[?25l") == done.err.count("\x1b[?25h") == 1, "the cursor is back"
    assert done.err.endswith("\r\x1b[2K\x1b[?25h\r"), "the bar is wiped"
    assert COLOUR.search(done.err)
    assert re.fullmatch(r"-rw-r--r-- .* /big\n", done.out)


def test_a_bar_without_colour(sim: Simulator, tmp_path: Path) -> None:
    reference = publish(sim, tmp_path, 4 * MIB)
    sim.pace = 0.15
    done = compose_on_terminal("toc", reference, cwd=tmp_path, env={"NO_COLOR": "1"})
    assert "MiB of 4.0 MiB" in done.err
    assert not COLOUR.search(done.err)


def test_quiet_is_quiet_on_a_terminal(sim: Simulator, tmp_path: Path) -> None:
    reference = publish(sim, tmp_path, 4 * MIB)
    sim.pace = 0.15
    done = compose_on_terminal("toc", reference, "--quiet", cwd=tmp_path)
    assert done.err == ""
    assert "/big" in done.out


def test_a_fault_is_shown_below_no_bar(sim: Simulator, tmp_path: Path) -> None:
    reference = publish(sim, tmp_path, 4 * MIB)
    sim.pace = 0.15
    layer = max(sim.blobs, key=lambda one: len(sim.blobs[one]))
    sim.blobs[layer] = sim.blobs[layer][:-1] + b"!"
    done = compose_on_terminal("toc", reference, cwd=tmp_path, ok=False)
    assert done.code == 4
    before, error, after = done.err.partition("error: ")
    assert error
    assert "MiB of 4.0 MiB" in before
    assert "MiB of 4.0 MiB" not in after


@pytest.mark.parametrize("term", [None, "dumb"])
def test_lines_where_no_bar_can_be_drawn(sim: Simulator, tmp_path: Path, term: str | None) -> None:
    reference = publish(sim, tmp_path, 17 * MIB)
    how = compose if term is None else compose_on_terminal
    done = how("toc", reference, cwd=tmp_path, env={"TERM": term or "xterm"})
    line = rf"layer 1 of 1, {re.escape(reference)}: 17\.0 MiB in \d+\.\d s\r?\n"
    assert re.fullmatch(line, done.err)
    assert not CONTROL.search(done.err.replace("\r\n", "\n"))
    assert re.fullmatch(r"-rw-r--r-- .* /big\n", done.out)
    again = how("toc", reference, cwd=tmp_path)
    assert again.err == "", "its table is held"


def test_small_transfers_leave_no_line(sim: Simulator, tmp_path: Path) -> None:
    reference = publish(sim, tmp_path, 15 * MIB)
    sim.pace = 0.1  # however long they take
    assert compose("toc", reference, cwd=tmp_path).err == ""


@pytest.fixture
def large(tmp_path: Path) -> SmallProject:
    """A project on a wheel of 17 MiB."""
    project = SmallProject(tmp_path)
    project.files["tiny/data.bin"] = bytes(17 * MIB)
    project.write()
    project.patch("first", {3: "changed"})
    return project


def test_lines_of_build_and_push(large: SmallProject, sim: Simulator, tmp_path: Path) -> None:
    built = large.compose("build", "app", "--output", str(tmp_path / "app.tar"), "--json")
    assert _told(built.err) == [
        "pip download tiny==1.0",
        "assemble tiny-1.0-py3-none-any.whl",
        f"write {tmp_path / 'app.tar'}",
    ]
    assert built.json["image"] == "app"
    pushed = large.compose("push", "app", "--to", f"{sim.netloc}/app")
    layer = max(sim.blobs, key=lambda one: len(sim.blobs[one]))
    assert _told(pushed.err) == [f"send {layer[:19]}"]
    assert pushed.out.count("\n") == 2


def test_lines_of_what_is_copied_of_a_base(sim: Simulator, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "made")
    parts = PACKAGE.split("/")
    folders = [folder("/".join(parts[: depth + 1])) for depth in range(len(parts))]
    members = [*folders, file(f"{PACKAGE}/core.py", CORE), file("usr/zeros", bytes(17 * MIB))]
    layer = store_layer(layout, members)
    made = image([layer])
    reference = _put(sim, layout, made, layer[0])
    base = {"image": reference, "package_root": f"/{PACKAGE.removesuffix('/tiny')}"}
    project = SmallProject(tmp_path, bases={"tiny": base}).write()
    project.patch("first", {3: "changed"})
    assert _told(project.compose("lock").err) == [f"layer 1 of 1, {reference}"]
    sim.mount = "202"
    pushed = project.compose("push", "app", "--to", f"{sim.netloc}/app", "--copy-base")
    assert _told(pushed.err) == [f"copy {str(layer[0].digest)[:19]}"]


def _told(err: str) -> list[str]:
    """Return what lines are about, each of which must be of 17 MiB."""
    lines = [re.fullmatch(r"(.*): 17\.\d MiB in \d+\.\d s", one) for one in err.splitlines()]
    return [one[1] if one is not None else "?" for one in lines]


def test_the_wheel_that_pip_downloads_is_named(large: SmallProject, tmp_path: Path) -> None:
    slow = "import sys, time\nif 'pip' in sys.orig_argv: time.sleep(1)\n"
    (tmp_path / "sitecustomize.py").write_text(slow)
    env = {**large.surroundings, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = compose_on_terminal("lock", cwd=large.root, env=env)
    assert re.search(r"pip download tiny==1\.0 .* \d s", done.err)
    quiet = large.compose("lock", "--quiet")
    assert quiet.err == ""
    assert re.fullmatch(r"app sha256:[0-9a-f]{12}\n", quiet.out)


@pytest.mark.parametrize("flags", [(), ("--quiet",)])
def test_nothing_to_show_loads_nothing_to_show_it_with(
    large: SmallProject, flags: tuple[str, ...]
) -> None:
    digest = large.build()["digest"]
    env = {**large.surroundings, "PYTHONPROFILEIMPORTTIME": "1"}
    done = compose_on_terminal("build", "app", *flags, cwd=large.root, env=env)
    assert done.out.endswith(f"{digest}\n")
    loaded = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
    assert "composer.unchanged" in loaded
    assert not {one for one in loaded if one.partition(".")[0] == "rich"}
