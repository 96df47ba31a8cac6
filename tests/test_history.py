"""What happened to modules since a commit, told from the locks in a real git repository."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from composer import history
from composer.errors import InputError, IntegrityError, UnreachableError
from composer.lock import Lock, LockedBase, dump, lock_of
from composer.oci.digest import sha256
from composer.plan import plan
from tests.support.bases import definition, platform_base
from tests.support.commands import tool
from tests.support.trees import added, module

PATH = "lock/app.lock"


def locked(modules: Mapping[str, str]) -> Lock:
    """The lock of an image of modules, each with one word for its content."""
    made = [module(name, added(f"vllm/{name}", word.encode())) for name, word in modules.items()]
    base = LockedBase(name="base", digest=str(sha256(b"")), epoch=0)
    planned = plan(definition(made, name="app"), [platform_base()])
    return lock_of(planned, base=base, source=sha256(b""))


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository, and a project in it."""

    top: Path
    root: Path

    def git(self, *arguments: str) -> str:
        settings = ("user.name=x", "user.email=x@example", "commit.gpgsign=false")
        flags = [part for one in settings for part in ("-c", one)]
        command = ["git", *flags, *arguments]
        done = subprocess.run(command, cwd=self.top, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def commit(self, **modules: str) -> str:
        """Commit the lock of an image of these modules and return the commit."""
        return self.write(dump(locked(modules)))

    def write(self, data: bytes | None) -> str:
        path = self.root / PATH
        path.parent.mkdir(parents=True, exist_ok=True)
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "commit")
        return self.git("rev-parse", "HEAD")

    def told(
        self,
        revision: str,
        *,
        retired: Sequence[str] = (),
        reverts: Sequence[str] = (),
        **modules: str,
    ) -> list[str]:
        found = history.faults(
            self.root, revision, PATH, locked(modules), retired=retired, reverts=reverts
        )
        return [str(fault) for fault in found]


@pytest.fixture(params=["", "some/where"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    """A project at the top of a repository, or in a directory of it."""
    tool("git")
    made = Repository(tmp_path / "repo", tmp_path / "repo" / request.param)
    made.root.mkdir(parents=True)
    made.git("init", "-q", "-b", "main")
    (made.root / "images.toml").write_text("schema = 1\n")
    return made


def test_nothing_happened(repository: Repository) -> None:
    repository.commit(a="1", b="1")
    assert repository.told("HEAD", a="1", b="1") == []
    assert repository.told("HEAD", a="1", b="1", c="1") == []
    assert repository.told("HEAD", a="2", b="new") == []


def test_a_module_that_is_lost(repository: Repository) -> None:
    repository.commit(a="1", b="1", c="1")
    fault = (
        "module b is LOST: image app had it at main\n"
        "  where:    lock/app.lock\n"
        "  fix:      put it back, or name it in 'retired' of [images.app]"
    )
    assert repository.told("main", a="1", c="1") == [fault]
    assert repository.told("main", c="1", retired=["a"]) == [fault]
    assert repository.told("main", retired=["a", "b", "c"]) == []
    assert len(repository.told("main")) == 3


def test_a_module_that_went_back(repository: Repository) -> None:
    first = repository.commit(a="1", b="1")
    repository.commit(a="2", b="1")
    repository.commit(a="3", b="2")
    assert repository.told("HEAD", a="1", b="2") == [
        (
            "module a of image app went back to an older content\n"
            "  where:    lock/app.lock\n"
            "  expected: what HEAD has, or something new\n"
            f"  found:    what commit {first[:12]} had\n"
            "  fix:      merge again, or say that it is meant: --allow-revert a"
        )
    ]
    assert [fault.split()[1] for fault in repository.told("HEAD", a="2", b="1")] == ["a", "b"]
    assert repository.told("HEAD", a="1", b="2", reverts=["a"]) == []
    assert repository.told("HEAD", a="4", b="2") == []
    assert repository.told("HEAD~1", a="3", b="2") == []  # newer than HEAD~1 is not older


def test_the_newest_commit_with_that_content_is_named(repository: Repository) -> None:
    repository.commit(a="1")
    second = repository.commit(a="1", b="1")
    repository.commit(a="2")
    (fault,) = repository.told("HEAD", a="1")
    assert second[:12] in fault


def test_a_merge_that_undid_another(repository: Repository) -> None:
    old = repository.commit(a="1")
    repository.git("checkout", "-q", "-b", "topic")
    repository.commit(a="2")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "topic")
    (fault,) = repository.told("main", a="1")
    assert old[:12] in fault


def test_a_content_that_only_a_merge_made(repository: Repository) -> None:
    repository.commit(a="1")
    repository.git("checkout", "-q", "-b", "topic")
    repository.commit(a="2")
    repository.git("checkout", "-q", "main")
    repository.commit(a="3")
    repository.git("merge", "-q", "-s", "ours", "--no-commit", "topic")
    merge = repository.commit(a="4")
    repository.commit(a="5")
    (fault,) = repository.told("main", a="4")
    assert merge[:12] in fault
    for word in ("1", "2", "3"):
        assert len(repository.told("main", a=word)) == 1


def test_a_lock_that_was_away_for_a_while(repository: Repository) -> None:
    old = repository.commit(a="1")
    repository.write(None)
    repository.commit(a="2")
    (fault,) = repository.told("HEAD", a="1")
    assert old[:12] in fault
    assert repository.told("HEAD~1", a="1") == []  # there, it is a new image


def test_versions_that_cannot_be_read_are_passed_over(repository: Repository) -> None:
    old = repository.commit(a="1")
    repository.write(b"<<<<<<< HEAD\n")
    repository.commit(a="2")
    (fault,) = repository.told("HEAD", a="1")
    assert old[:12] in fault


def test_a_new_image_has_no_past(repository: Repository) -> None:
    repository.git("commit", "-q", "--allow-empty", "-m", "first")
    assert repository.told("HEAD", a="1") == []
    (repository.root / "lock").mkdir()
    (repository.root / "lock" / "other.lock").write_text("")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "second")
    assert repository.told("HEAD", a="1") == []


@pytest.mark.parametrize(
    "revision", ["v1", "main", "HEAD~0", ":/commit", "HEAD^{/commit}", "main@{0}"]
)
def test_revisions_in_every_spelling(repository: Repository, revision: str) -> None:
    repository.commit(a="1")
    repository.git("tag", "-m", "tag", "v1")
    assert len(repository.told(revision)) == 1
    repository.write(dump(locked({"a": "2"})))
    repository.git("tag", "-f", "-m", "tag", "v1")
    assert len(repository.told(revision, a="1")) == 1


@pytest.mark.parametrize("revision", ["nowhere", "", "-x", "--all", "HEAD~9", "HEAD:lock"])
def test_an_unknown_revision(repository: Repository, revision: str) -> None:
    repository.commit(a="1")
    with pytest.raises(InputError) as caught:
        repository.told(revision, a="1")
    (fault,) = caught.value.faults
    assert fault.what == f"git does not know the revision {revision!r}"
    assert fault.where == str(repository.root)
    assert fault.found.startswith("fatal: ")


def test_a_damaged_lock_at_the_revision(repository: Repository) -> None:
    repository.write(b"<<<<<<< HEAD\n")
    with pytest.raises(IntegrityError) as caught:
        repository.told("HEAD", a="1")
    assert caught.value.faults[0].where == "HEAD:lock/app.lock:1"


def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Repository(tmp_path, tmp_path).told("HEAD", a="1")
    assert "not a git repository" in caught.value.faults[0].found


def test_no_git(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.commit(a="1")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnreachableError) as caught:
        repository.told("HEAD", a="1")
    assert caught.value.faults[0].what == "git cannot be run"


def test_the_repository_of_a_hook_is_not_read(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit(x="1", y="1")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    (told,) = repository.told("HEAD", x="1")
    assert told.startswith("module y is LOST")
