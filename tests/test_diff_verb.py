"""`compose diff` of releases and images: what is read beside the locks, and what can be named."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import ROOT
from tests.support.git import Git
from tests.support.locks import a_lock, a_module, written
from tests.support.projects import SmallProject


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    """A project with releases v1 and v2, and a lock that says what v2 does."""
    made = SmallProject(tmp_path, images={"app": {"base": "tiny", "modules": ["first", "old"]}})
    git = Git(made.root).init()
    made.write()
    made.patch("first", {3: "changed"})
    made.module("old", contents={"f": b"x\n"}, add=[{"target": "tiny/old.py", "file": "f"}])
    git.commit()
    made.compose("build", "app", "--release", "v1")
    made.images["app"].update(modules=["first", "new"], retired=["old"])
    made.write()
    made.patch("first", {3: "changed", 9: "also"})
    made.module("new", contents={"f": b"a\nb\n"}, add=[{"target": "tiny/new.py", "file": "f"}])
    git.commit()
    made.compose("build", "app", "--release", "v2")
    return made


def test_two_releases(project: SmallProject) -> None:
    text = project.compose("diff", "v1", "v2", "--stat").out
    assert "1 module added, 1 retired, 1 module changed, 3 files\n" in text
    assert "      core.patch\n        + @@ -9 +9 @@\n" in text
    assert "  - old  retired\n" in text
    for target, counts in (("core", "+1 -1"), ("old", "+0 -1"), ("new", "+2 -0")):
        _, _, below = text.partition(f" tiny/{target}.py  ")
        assert below.splitlines()[1].endswith(f"  {counts}")
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_texts(project: SmallProject) -> None:
    packages = "/usr/local/lib/python3.12/dist-packages/tiny"
    expected = (
        f"--- a{packages}/core.py\n"
        f"+++ b{packages}/core.py\n"
        "@@ -6,7 +6,7 @@\n"
        " line 6\n line 7\n line 8\n-line 9\n+also\n line 10\n line 11\n line 12\n"
        f"--- /dev/null\n+++ b{packages}/new.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"
        f"--- a{packages}/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    done = project.compose("diff", "v1", "v2", "--patch")
    assert done.out.endswith(f"\n\n{expected}")
    entries = project.compose("diff", "v1", "v2", "--patch", "--json").json["files"]
    texts = [one["text"] for one in entries]
    assert "".join(f"{one['diff']}\n" for one in texts) == expected
    assert [(one["added"], one["removed"]) for one in texts] == [(1, 1), (2, 0), (0, 1)]


def test_a_patch_of_a_module_that_is_gone_is_undone(project: SmallProject) -> None:
    """The other side of a file that one image leaves alone is what the module found there."""
    project.images["app"]["modules"] = ["new"]
    project.images["app"]["retired"] = ["old", "first"]
    project.write()
    project.build()
    text = project.compose("diff", "v2", "app", "--patch").out
    assert "\n-changed\n+line 3\n" in text
    assert "\n-also\n+line 9\n" in text


def test_texts_without_a_store(project: SmallProject, tmp_path: Path) -> None:
    done = project.compose("diff", "v1", "v2", "--patch", COMPOSE_STORE=str(tmp_path / "empty"))
    assert done.out.count("  (not in the store)\n") == 3
    assert "+++" not in done.out
    assert not (tmp_path / "empty").exists()


@pytest.mark.parametrize("at", [4, -600])  # gzip does not check its header
def test_texts_of_a_damaged_store(project: SmallProject, at: int) -> None:
    layers = project.build()["platforms"][0]["layers"]
    blob = project.store / "blobs/sha256" / layers[0]["digest"].removeprefix("sha256:")
    data = bytearray(blob.read_bytes())
    data[at] ^= 1
    blob.write_bytes(data)
    done = project.compose("diff", "v1", "v2", "--stat", ok=False)
    assert done.code == 4
    assert str(blob) in done.err


def test_modules_are_read_from_the_commits(project: SmallProject) -> None:
    for name in ("first", "old", "new"):
        (project.root / f"modules/{name}/module.toml").unlink()
    assert "        + @@ -9 +9 @@\n" in project.compose("diff", "v1", "v2").out


def test_modules_of_a_commit_that_is_not_here(project: SmallProject) -> None:
    root = project.root
    (root / ".git").rename(root / "gone")
    text = project.compose("diff", "v1", "v2").out
    assert "its older or newer files are not at hand" in text
    assert "@@" not in text
    Git(root).init().commit()
    assert project.compose("diff", "v1", "v2").out == text


def test_modules_that_are_not_those_of_the_lock(project: SmallProject) -> None:
    """An image's lock is not current: its modules are not taken for what it was made of."""
    before = project.compose("diff", "v1", "app").out
    assert "        + @@ -9 +9 @@\n" in before
    project.patch("first", {3: "changed", 9: "also", 12: "more"})
    after = project.compose("diff", "v1", "app").out
    assert "its older or newer files are not at hand" in after


def test_a_module_that_is_lost(project: SmallProject) -> None:
    lock = project.root / "lock/app.lock"
    two = written(project.folder, a_lock(image="app", modules=(a_module("first"),)), "two")
    done = project.compose("diff", str(lock), two, "--fail-on", "lost-module", ok=False)
    assert done.code == 1
    assert "  ! new  LOST\n      gone, and not in 'retired' of [images.app]\n" in done.out
    project.images["app"].update(modules=["first"], retired=["new"])
    project.write()
    done = project.compose("diff", str(lock), two, "--fail-on", "lost-module")
    assert "  - new  retired\n" in done.out


def test_a_release_says_itself_what_was_retired(project: SmallProject) -> None:
    project.images["app"]["retired"] = []
    project.write()
    assert "  - old  retired\n" in project.compose("diff", "v1", "v2").out
    assert "  ! old  LOST\n" in project.compose("diff", "v1", "app").out


def test_what_can_be_named(project: SmallProject) -> None:
    for name in ("app", "image:app", "lock/app.lock", "file:lock/app.lock", "release:v2"):
        assert "nothing differs" in project.compose("diff", "v2", name).out
    for name in (
        "v3",
        "image:v2",
        "release:app",
        "file:v2",
        "lock/none.lock",
        "images.tom",
        "a" * 300,
        "lock",
    ):
        done = project.compose("diff", "v2", name, ok=False)
        assert (done.code, done.out) == (2, "")
        assert f"nothing is called '{name}'" in done.err
    assert "did you mean 'v2'?" in project.compose("diff", "v2", "v22", ok=False).err


def test_a_name_that_two_things_have(project: SmallProject) -> None:
    project.compose("build", "app", "--release", "app", "--allow-dirty")
    done = project.compose("diff", "v1", "app", ok=False)
    assert done.code == 2
    assert done.err == (
        "error: 'app' is more than one thing\n"
        "  found:    release app and image app\n"
        "  fix:      say which: release:app or image:app\n"
    )
    assert "nothing differs" in project.compose("diff", "image:app", "release:app").out


def test_an_image_without_a_lock(project: SmallProject) -> None:
    (project.root / "lock/app.lock").unlink()
    done = project.compose("diff", "v1", "app", ok=False)
    assert done.code == 2
    assert "run `compose lock app`" in done.err


def test_a_damaged_lock(project: SmallProject) -> None:
    (project.root / "lock/app.lock").write_text("<<<<<<< HEAD\n")
    assert project.compose("diff", "v1", "app", ok=False).code == 4


# Colours, and what is imported


def on_terminal(project: SmallProject, **env: str) -> str:
    """Run `compose diff v1 v2` with a terminal as its stdout."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "composer", "diff", "v1", "v2"],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **project.surroundings, **env},
        stdout=theirs,
    )
    os.close(theirs)
    said = b""
    try:
        while data := os.read(ours, 65536):
            said += data
    except OSError:  # how Linux says that nobody writes any more
        pass
    os.close(ours)
    assert done.wait() == 0
    return said.decode().replace("\r\n", "\n")


def test_colours_on_a_terminal_only(project: SmallProject) -> None:
    plain = project.compose("diff", "v1", "v2").out
    assert "\x1b" not in plain
    shown = on_terminal(project)
    assert "\x1b[32m  + new  sha256:" in shown
    assert "\x1b[31m  - old  retired\x1b[0m\n" in shown
    assert on_terminal(project, NO_COLOR="1") == plain


def test_comparing_imports_little() -> None:
    program = (
        "import sys, composer.cli.diff, composer.comparing, composer.diffreport\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    heavy = {"composer.plan", "composer.spec", "composer.resolve", "rich", "urllib3", "docker"}
    assert not heavy & set(done.stdout.split())
