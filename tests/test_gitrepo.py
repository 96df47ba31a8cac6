"""What is read of a git repository: blobs, files that differ from the commit, dates."""

from __future__ import annotations

from pathlib import Path

import pytest

from composer import gitrepo
from tests.support.git import Git

NOWHERE = "0" * 40


@pytest.fixture(params=["", "some/where"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project at the top of a repository, or in a directory of it."""
    Git(tmp_path / "repository").init()
    made: Path = tmp_path / "repository" / request.param
    made.mkdir(parents=True, exist_ok=True)
    return made


def test_files_of_a_commit(root: Path) -> None:
    contents = {
        "a": b"1\n",
        "empty": b"",
        "d/b c": b"x missing\n" + NOWHERE.encode() + b" blob 3\n\0\xff",
        "d/\u00e9": b"no end",
    }
    (root / "d").mkdir()
    for path, data in contents.items():
        (root / path).write_bytes(data)
    commit = Git(root).commit()
    (root / "a").write_bytes(b"2\n")
    asked = [*contents, "none", "d", "none 7", "d/b", "a\nempty"]
    assert gitrepo.blobs_at(root, commit, asked) == contents
    assert gitrepo.blobs_at(root, commit, []) == {}
    assert gitrepo.blobs_at(root, NOWHERE, asked) == {}


def test_files_that_differ_from_the_commit(root: Path) -> None:
    for name in ("kept", "edited", "removed", "moved", "staged", "left"):
        (root / name).write_text(name)
    (root / ".gitignore").write_text("*.pyc\n")
    git = Git(root)
    git.commit()
    assert gitrepo.changed(root, []) == []
    (root / "edited").write_text("other")
    (root / "left").write_text("other")
    (root / "removed").unlink()
    (root / "moved").rename(root / "to")
    (root / "staged").write_text("other")
    (root / "a.pyc").write_text("x")
    (root / "lock").mkdir()
    (root / "lock" / "app.lock").write_text("x")
    (root / "lockfile").write_text("x")
    (root / "new").mkdir()
    (root / "new" / "a b\u00e9").write_text("x")
    git.run("add", "staged", "to")
    assert gitrepo.changed(root, ["lock", "left", "not there"]) == [
        "edited",
        "lockfile",
        "moved",
        "new/a b\u00e9",
        "removed",
        "staged",
        "to",
    ]
    (root / "[ab]").write_text("x")
    (root / "b").write_text("x")
    assert set(gitrepo.changed(root, ["[ab]"])) >= {"b"}
    assert "[ab]" not in gitrepo.changed(root, ["[ab]"])


def test_what_differs_outside_of_the_project_does_not_matter(root: Path) -> None:
    Git(root).commit()
    outside = root.parent / "outside"
    outside.write_text("x")
    assert gitrepo.changed(root, []) == []


def test_looking_writes_nothing(root: Path) -> None:
    (root / "a").write_text("x")
    git = Git(root)
    git.commit()
    index = Path(git.run("rev-parse", "--absolute-git-dir")) / "index"
    (root / "a").touch()
    before = index.stat()
    assert gitrepo.changed(root, []) == []
    after = index.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_dates(root: Path) -> None:
    git = Git(root)
    commits = {}
    for date in (1000, 2000):
        git.run("commit", "-q", "--allow-empty", "-m", "x", GIT_COMMITTER_DATE=f"@{date} +0300")
        commits[git.run("rev-parse", "HEAD")] = date
    assert gitrepo.dates(root, [*commits, NOWHERE, *commits]) == commits
    assert gitrepo.dates(root, [NOWHERE]) == {}
    assert gitrepo.dates(root, []) == {}
