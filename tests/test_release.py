"""Releases: what they hold, that they never change, and what they are made from."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer import releases
from composer.errors import CheckFailedError, InputError, IntegrityError
from composer.lock import Lock, load
from composer.oci.digest import sha256
from composer.oci.layout import Layout
from composer.release import (
    Provenance,
    Release,
    check_name,
    dump_release,
    load_release,
    release_of,
    tips,
)
from composer.text import age
from tests.support.commands import run, tool
from tests.support.git import Git
from tests.support.images import manifest
from tests.support.projects import SmallProject, digest_of

GOLDEN = Path(__file__).parent / "golden" / "app.lock"
LOCK = load(GOLDEN.read_bytes(), "app.lock")
DIFF_IDS = {"linux/amd64": [sha256(b"base"), sha256(b"ours")]}
GOLDEN_DIGEST = "sha256:a519eb9180d7704517c2c2dfc38022a1f33a1a2cddee85c9b35cb33d1daffea8"
ORIGIN = Provenance(commit="c" * 40, parents=("v13",), retired=("old",), note="it's «new»")


def released(name: str = "v14", lock: Lock = LOCK, origin: Provenance = ORIGIN) -> Release:
    return release_of(name, lock, DIFF_IDS, origin)


def test_the_text_of_a_release() -> None:
    expected = f"""\
# Made by compose; a release never changes. See `compose diff` and `compose releases`.
schema = 1
name = "v14"
image = "app"
digest = "{GOLDEN_DIGEST}"

[result]
digest = "{LOCK.digest}"
media_type = "application/vnd.oci.image.manifest.v1+json"

[[result.platforms]]
platform = "linux/amd64"
manifest = "{LOCK.platforms[0].manifest}"
manifest_size = {LOCK.platforms[0].manifest_size}
config = "{LOCK.platforms[0].config}"
diff_ids = [
    "{sha256(b"base")}",
    "{sha256(b"ours")}",
]

[provenance]
commit = "cccccccccccccccccccccccccccccccccccccccc"
parents = [
    "v13",
]
retired = [
    "old",
]
note = "it's «new»"

[lock]
text = '''
{GOLDEN.read_text()}'''
"""
    assert dump_release(released()).decode() == expected


def test_the_digest_of_a_release() -> None:
    """Computed here from the document that the format is described by."""
    (one,) = LOCK.platforms
    platform = [one.platform, one.manifest, one.manifest_size, one.config]
    document = {
        "compose-release": 1,
        "digest": LOCK.digest,
        "image": "app",
        "lock": f"sha256:{hashlib.sha256(GOLDEN.read_bytes()).hexdigest()}",
        "media_type": LOCK.media_type,
        "name": "v14",
        "platforms": [[*platform, [str(sha256(b"base")), str(sha256(b"ours"))]]],
    }
    text = json.dumps(document, separators=(",", ":"))
    expected = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert released().digest == expected == GOLDEN_DIGEST


def test_where_it_came_from_is_not_part_of_it() -> None:
    assert released(origin=Provenance(note="other", dirty=True)).digest == GOLDEN_DIGEST
    assert released("v15").digest != GOLDEN_DIGEST
    other = LOCK.model_copy(update={"source": str(sha256(b"other"))})
    assert released(lock=other).digest != GOLDEN_DIGEST


def test_a_release_alone_gives_the_lock_back() -> None:
    read = load_release(dump_release(released()), "v14.toml", "v14")
    assert read == released()
    assert read.lock == LOCK
    assert read.lock_text == GOLDEN.read_bytes()
    assert read.provenance == ORIGIN


@settings(max_examples=100, deadline=None)
@given(st.text() | st.sampled_from(["'''", "a''''b", "\r\n'''", "\x7f'''\t"]), st.text())
def test_any_text_survives(value: str, note: str) -> None:
    config = LOCK.config.model_copy(update={"env": {"E": value}})
    made = released(lock=LOCK.model_copy(update={"config": config}), origin=Provenance(note=note))
    raw = dump_release(made)
    read = load_release(raw, "v14.toml", "v14")
    assert read == made
    assert read.lock.config.env == {"E": value}
    assert dump_release(read) == raw


def test_a_checkout_with_other_line_ends_is_the_same_release() -> None:
    raw = dump_release(released()).replace(b"\n", b"\r\n")
    assert load_release(raw, "v14.toml", "v14") == released()


# Damage


def damaged(change: Callable[[str], str], name: str = "v14") -> str:
    text = dump_release(released()).decode()
    changed = change(text)
    assert changed != text or name != "v14"
    with pytest.raises(IntegrityError) as caught:
        load_release(changed.encode(), f"lock/releases/{name}.toml", name)
    assert caught.value.exit_code == 4
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('image = "app"', 'image = "other"'),
        ("manifest_size = ", "manifest_size = 1"),
        ("linux/amd64", "linux/arm64"),
        (f'    "{sha256(b"ours")}",\n', ""),
        (str(sha256(b"base")), str(sha256(b"other"))),
        ("oci.image.manifest", "docker.manifest"),
        ("# Made by compose: change", "# Made by compose: Change"),
        ('name = "a"', 'name = "c"'),
        ("VLLM_A", "VLLM_B"),
        ('value = "0"', 'value = "1"'),
    ],
)
def test_whatever_is_changed_by_hand_is_noticed(old: str, new: str) -> None:
    message = damaged(lambda text: text.replace(old, new, 1))
    assert message.startswith("release v14 was changed by hand\n  where:    lock/releases/v14.toml")
    assert f"expected: {GOLDEN_DIGEST}" in message
    assert "fix:      a release never changes: `git checkout -- lock/releases/v14.toml`" in message


def test_another_digest_than_its_own() -> None:
    other = str(sha256(b""))
    message = damaged(lambda text: text.replace(GOLDEN_DIGEST, other))
    assert f"expected: {other}\n  found:    {GOLDEN_DIGEST}" in message


def test_a_file_that_was_renamed() -> None:
    message = damaged(lambda text: text, "v15")
    assert "the file of release v15 says that it is another" in message
    assert "expected: v15\n  found:    v14" in message


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda text: text[:-5], "not valid TOML"),
        (lambda text: text.replace("schema = 1", "schema = 2", 1), "not one of the values"),
        (lambda text: text.replace("[provenance]", "[origin]"), "unknown key 'origin'"),
        (lambda text: text.replace('commit = "cc', 'commit = "--'), "String should match pattern"),
        (lambda text: text.replace("text = '''", "txt = '''"), "the key 'text' is missing"),
        (lambda text: "", "the key 'schema' is missing"),
    ],
)
def test_a_release_that_is_none(change: Callable[[str], str], what: str) -> None:
    assert what in damaged(change)


def test_a_note_may_be_mended() -> None:
    raw = dump_release(released()).replace("it's «new»".encode(), b"better")
    assert load_release(raw, "v14.toml", "v14").provenance.note == "better"


# Names and parents


@pytest.mark.parametrize("name", ["v14", "0", "2026-12-01_rc.1", "a" * 128])
def test_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", "V14", "a/b", "..", ".a", "a-", "a b", "é", "a\n", "a" * 129])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InputError, match="is not a name for a release"):
        check_name(name)


def test_the_last_releases_of_an_image() -> None:
    def of(name: str, *parents: str, image: str = "app") -> Release:
        lock = LOCK.model_copy(update={"image": image})
        return released(name, lock, Provenance(parents=parents))

    first, second = of("v1"), of("v2", "v1")
    assert tips([], "app") == []
    assert tips([second, first], "app") == [second]
    fork = of("v2b", "v1")
    assert tips([fork, second, first], "app") == [second, fork]
    merged = of("v3", "v2", "v2b")
    assert tips([merged, fork, second, first], "app") == [merged]
    assert tips([first, of("w1", image="other")], "app") == [first]
    assert tips([of("w1", image="other")], "app") == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 seconds"),
        (1, "1 second"),
        (59, "59 seconds"),
        (60, "1 minute"),
        (7199, "1 hour"),
        (86400, "1 day"),
        (400 * 86400, "400 days"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    assert age(seconds) == text


# Whole processes, in a git repository


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    """A project whose image `app` has the modules `first` and `old`; all committed, not built."""
    made = SmallProject(tmp_path, images={"app": {"base": "tiny", "modules": ["first", "old"]}})
    Git(made.root).init()
    made.write()
    made.patch("first", {3: "changed"})
    made.module("old", contents={"f.py": b"x\n"}, add=[{"target": "tiny/old.py", "file": "f.py"}])
    Git(made.root).commit()
    return made


def edit(project: SmallProject) -> None:
    """Change the image and commit that."""
    project.patch("first", {3: "changed again"})
    project.compose("lock")
    Git(project.root).commit()


def test_a_release_of_what_was_built(project: SmallProject) -> None:
    answer = project.build()
    head = Git(project.root).run("rev-parse", "HEAD")  # the lock is not committed, and need not be
    done = project.compose("release", "app", "v13", "--note", "the first")
    assert done.out == f"lock/releases/v13.toml: new\n{answer['digest']}\n"
    assert done.err == "note: commit it: git add lock/releases/v13.toml\n"
    document = tomllib.loads((project.root / "lock/releases/v13.toml").read_text())
    assert document["provenance"] == {"commit": head, "note": "the first"}
    assert document["lock"]["text"].encode() == (project.root / "lock/app.lock").read_bytes()
    (platform,) = document["result"]["platforms"]
    assert document["result"]["digest"] == platform["manifest"] == answer["digest"]
    config = manifest(project.store, platform["config"])
    assert platform["diff_ids"] == config["rootfs"]["diff_ids"]
    assert len(platform["diff_ids"]) == 4  # one of the wheel, three of ours


def test_the_store_keeps_a_release_under_its_name(project: SmallProject) -> None:
    first = project.compose("build", "app", "--release", "v13").last
    edit(project)
    second = project.build()["digest"]
    project.compose("release", "app", "v14")
    index = json.loads((project.store / "index.json").read_text())
    refs = {
        one["annotations"]["org.opencontainers.image.ref.name"]: one["digest"]
        for one in index["manifests"]
    }
    assert refs == {"app": second, "app:v13": first, "app:v14": second}
    raw = run(
        [tool("skopeo"), "inspect", "--raw", f"oci:{project.store}:app:v13"], cwd=project.root
    )
    assert digest_of(raw.out.encode()) == first


def test_both_in_one(project: SmallProject) -> None:
    digest = project.compose("build", "app", "--release", "v13", "--note", "n").last
    text = (project.root / "lock/releases/v13.toml").read_text()
    assert f'digest = "{digest}"' in text
    assert 'note = "n"' in text
    again = project.compose("build", "app", "--release", "v13")
    assert "commit" not in again.err
    assert (project.root / "lock/releases/v13.toml").read_text() == text


def test_a_name_is_taken_once(project: SmallProject) -> None:
    first = project.compose("build", "app", "--release", "v13").last
    path = project.root / "lock/releases/v13.toml"
    before = path.read_bytes()
    edit(project)
    second = project.build()["digest"]
    for verb in (["release", "app", "v13"], ["build", "app", "--release", "v13"]):
        done = project.compose(*verb, ok=False)
        assert done.code == 1
        assert done.err == (
            "error: release v13 is another one, and a release never changes\n"
            "  where:    lock/releases/v13.toml\n"
            f"  expected: image app {first}\n"
            f"  found:    image app {second}\n"
            "  fix:      choose a new name; `compose diff v13 image:app` shows what has changed\n"
        )
    assert path.read_bytes() == before


def test_a_name_that_is_taken_is_noticed_before_anything_is_written(project: SmallProject) -> None:
    project.compose("build", "app", "--release", "v13")
    project.patch("first", {3: "changed again"})
    Git(project.root).commit()
    lock = (project.root / "lock/app.lock").read_bytes()
    assert project.compose("build", "app", "--release", "v13", ok=False).code == 1
    assert (project.root / "lock/app.lock").read_bytes() == lock


def test_the_same_content_again_is_success_from_a_later_commit_too(project: SmallProject) -> None:
    project.compose("build", "app", "--release", "v13")
    path = project.root / "lock/releases/v13.toml"
    before = path.read_bytes()
    (project.root / "README").write_text("later\n")
    Git(project.root).commit()
    done = project.compose("release", "app", "v13", "--note", "other words")
    assert done.out.startswith("lock/releases/v13.toml: there already\nsha256:")
    assert done.err == ""
    answer = project.compose("release", "app", "v13", "--json").json
    assert answer == {
        "name": "v13",
        "image": "app",
        "digest": done.last,
        "file": "lock/releases/v13.toml",
        "new": False,
    }
    assert path.read_bytes() == before


def test_two_at_once(tmp_path: Path) -> None:
    """Of many that want one name, one has it."""
    locks = [LOCK.model_copy(update={"source": str(sha256(b"%d" % number))}) for number in range(8)]
    made = [released("v1", lock) for lock in locks]
    results: list[object] = []
    start = threading.Barrier(len(made))

    def write(release: Release) -> None:
        start.wait()
        try:
            results.append(releases.write(tmp_path, release))
        except CheckFailedError as error:
            results.append(error)

    threads = [threading.Thread(target=write, args=(one,)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.count(False) == 1
    assert sum(isinstance(one, CheckFailedError) for one in results) == len(made) - 1
    assert [path.name for path in (tmp_path / "lock/releases").iterdir()] == ["v1.toml"]
    assert releases.read(tmp_path, "v1") in made


# Files that are not the commit's


def dirty(project: SmallProject, *flags: str) -> str:
    done = project.compose("release", "app", "v13", *flags, ok=False)
    assert done.code == 2
    assert not (project.root / "lock/releases").exists()
    return done.err


def test_a_dirty_tree_is_refused(project: SmallProject) -> None:
    project.build()
    (project.root / "modules/first/new file").write_text("x")
    (project.root / "images.toml").write_text((project.root / "images.toml").read_text() + "\n")
    (project.root / "modules/old/f.py").unlink()
    assert dirty(project) == (
        "error: files of the project are not those of the last commit\n"
        f"  where:    {project.root}\n"
        "    images.toml\n"
        "    modules/first/new file\n"
        "    modules/old/f.py\n"
        "  fix:      commit them; or record a release that no commit tells all of: --allow-dirty\n"
    )


def test_a_dirty_tree_with_many_files(project: SmallProject) -> None:
    project.build()
    for number in range(12):
        (project.root / f"file{number:02}").write_text("x")
    error = dirty(project)
    assert "    file09\n    and 2 more\n" in error
    assert "file10" not in error


def test_a_dirty_tree_that_is_meant(project: SmallProject) -> None:
    project.build()
    (project.root / "README").write_text("x")
    project.compose("release", "app", "v13", "--allow-dirty")
    text = (project.root / "lock/releases/v13.toml").read_text()
    origin = tomllib.loads(text)["provenance"]
    assert origin == {"commit": Git(project.root).run("rev-parse", "HEAD"), "dirty": True}


def test_what_is_not_dirty(tmp_path: Path) -> None:
    """What compose writes, what git ignores, and what is elsewhere in the repository."""
    git = Git(tmp_path / "repository").init()
    project = SmallProject(git.root).write()
    project.patch("first", {3: "changed"})
    images = project.root / "images.toml"
    deploy = (
        '[deploy.prod]\nfile = "deploy/app.yaml"\nkind = "compose"\nat = "services.app.image"\n'
    )
    images.write_text(images.read_text() + deploy)
    (project.root / "deploy").mkdir()
    (project.root / "deploy/app.yaml").write_text("a: 1\n")
    (git.root / ".gitignore").write_text("ignored\nstore\n")
    (git.root / "outside").write_text("x")
    git.commit()
    project.build()
    (project.root / "deploy/app.yaml").write_text("a: 2\n")
    (project.root / "ignored").write_text("x")
    (git.root / "outside").write_text("y")
    project.compose("release", "app", "v13")
    assert "dirty" not in (project.root / "lock/releases/v13.toml").read_text()


def test_no_repository(tmp_path: Path) -> None:
    project = SmallProject(tmp_path).write()
    project.patch("first", {3: "changed"})
    project.build()
    error = dirty(project)
    assert error.startswith(
        "error: a release names the commit that it was made from, and there is none\n"
    )
    assert "not a git repository" in error
    assert "--allow-dirty" in error
    project.compose("release", "app", "v13", "--allow-dirty")
    assert "[provenance]" not in (project.root / "lock/releases/v13.toml").read_text()
    (one,) = project.compose("releases", "--json").json
    assert (one["commit"], one["date"]) == ("", None)


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    project = SmallProject(tmp_path)
    Git(project.root).init()
    project.write().patch("first", {3: "changed"})
    project.build()
    assert "and there is none" in dirty(project)


# What has to be there


def test_a_lock_that_is_not_current(project: SmallProject) -> None:
    done = project.compose("release", "app", "v13", ok=False)
    assert (done.code, done.err.splitlines()[0]) == (1, "error: the lock of app is missing")
    project.build()
    project.patch("first", {3: "changed again"})
    Git(project.root).commit()
    done = project.compose("release", "app", "v13", ok=False)
    assert (done.code, done.err.splitlines()[0]) == (1, "error: the lock of app is stale")
    assert "compose lock app" in done.err


def test_an_image_that_was_not_made(project: SmallProject) -> None:
    project.compose("lock")
    done = project.compose("release", "app", "v13", ok=False)
    assert done.code == 3
    assert done.err.startswith(
        f"error: the store does not hold what image app is made of\n  where:    {project.store}\n"
    )
    command = done.err.rpartition("`compose ")[2].rpartition("`")[0]
    assert command == "build app --locked"
    assert not (project.root / "lock/releases").exists()
    project.compose(*command.split())
    project.compose("release", "app", "v13")


def test_an_unknown_image_and_a_wrong_name(project: SmallProject) -> None:
    project.build()
    assert project.compose("release", "apq", "v13", ok=False).code == 2
    for verb in (["release", "app", "V13"], ["build", "app", "--release", "../x"]):
        done = project.compose(*verb, ok=False)
        assert done.code == 2
        assert "is not a name for a release" in done.err


def test_options_that_do_not_go_together(project: SmallProject) -> None:
    one = project.compose("build", "app", "--release", "v1", "--platform", "linux/amd64", ok=False)
    assert (one.code, one.out) == (2, "")
    assert "a release has all platforms" in one.err
    for flags in (["--note", "x"], ["--allow-dirty"]):
        other = project.compose("build", "app", *flags, ok=False)
        assert other.code == 2
        assert "go with --release" in other.err


def test_a_release_that_cannot_be_read(project: SmallProject) -> None:
    (project.root / "lock/releases/v13.toml").mkdir(parents=True)
    for verb in (["diff", "v13", "app"], ["releases"], ["lock"]):
        done = project.compose(*verb, ok=False)
        assert done.code == 2
        assert "the file cannot be read\n  where:    lock/releases/v13.toml" in done.err


# Modules of the last release that are gone


def lose(project: SmallProject, **settings: object) -> None:
    """Take the module `old` out of the image."""
    project.images["app"] = {"base": "tiny", "modules": ["first"], **settings}
    project.write()
    Git(project.root).commit()


LOST = (
    "error: module old is LOST: release v13 of image app has it\n"
    "  where:    lock/releases/v13.toml\n"
    "  fix:      put it back, or name it in 'retired' of [images.app]\n"
)


def test_a_module_of_the_last_release_that_is_lost(project: SmallProject) -> None:
    project.compose("build", "app", "--release", "v13")
    lock = (project.root / "lock/app.lock").read_bytes()
    lose(project)
    for verb in (["lock"], ["lock", "app"], ["build", "app"], ["lock", "--check"]):
        done = project.compose(*verb, ok=False)
        assert done.code == 1
        assert LOST in done.err
    assert (project.root / "lock/app.lock").read_bytes() == lock
    lose(project, retired=["old"])
    assert project.compose("build", "app", "--release", "v14").code == 0
    origin = tomllib.loads((project.root / "lock/releases/v14.toml").read_text())["provenance"]
    assert (origin["parents"], origin["retired"]) == (["v13"], ["old"])
    lose(project)  # the last release has it no more: nothing to say
    project.compose("lock")


def test_a_lock_that_lost_a_module_is_not_built_though_it_is_current(project: SmallProject) -> None:
    project.build()
    lose(project)
    project.compose("lock")
    lock = (project.root / "lock/app.lock").read_bytes()
    # A merge brings the release of another branch.
    project.images["app"] = {"base": "tiny", "modules": ["first", "old"]}
    project.write()
    Git(project.root).commit()
    project.compose("build", "app", "--release", "v13")
    lose(project)
    (project.root / "lock/app.lock").write_bytes(lock)
    for verb in (["build", "app", "--locked"], ["release", "app", "v14"], ["lock", "--check"]):
        done = project.compose(*verb, ok=False)
        assert (done.code, done.err) == (1, LOST)


def test_releases_of_other_images_do_not_matter(project: SmallProject) -> None:
    project.images["other"] = {"base": "tiny", "modules": ["old"]}
    project.write()
    Git(project.root).commit()
    project.compose("build", "other", "--release", "v13")
    lose(project)
    project.compose("lock", "app")


# The list


def test_the_list(project: SmallProject) -> None:
    done = project.compose("releases")
    assert (done.out, done.code) == ("", 0)
    assert "there are no releases yet" in done.err
    first = project.compose("build", "app", "--release", "v13").last
    layer = project.build()["platforms"][0]["layers"][0]["digest"]
    edit(project)
    second = project.compose("build", "app", "--release", "v14", "--note", "better").last
    (project.store / "blobs/sha256" / layer.removeprefix("sha256:")).unlink()
    listed = project.compose("releases", "--json").json
    by_name = {one["name"]: one for one in listed}
    assert [by_name[name]["digest"] for name in ("v13", "v14")] == [first, second]
    assert [by_name[name]["held"] for name in ("v13", "v14")] == [False, True]
    assert by_name["v14"]["modules"] == ["first", "old"]
    assert by_name["v14"]["parents"] == ["v13"]
    assert by_name["v14"]["note"] == "better"
    head = Git(project.root).run("rev-parse", "HEAD")
    assert by_name["v14"]["commit"] == head
    seconds = int(Git(project.root).run("show", "-s", "--format=%ct", head))
    assert by_name["v14"]["date"] == seconds
    lines = project.compose("releases").out.splitlines()
    assert lines[0].split() == ["NAME", "IMAGE", "DIGEST", "MODULES", "SIZE", "AGE", "HELD"]
    row = next(line for line in lines if line.startswith("v14"))
    assert row.split()[:6] == ["v14", "app", second[:19], "2", "14.1", "KiB"]
    assert row.endswith("  yes")
    assert all(len(line) <= 80 for line in lines)
    assert project.compose("releases", "apq").out == ""


def test_the_newest_is_first_and_an_unknown_age_last(tmp_path: Path) -> None:
    git = Git(tmp_path).init()
    dates = {"v1": 3000, "v2": 1000, "v3": 2000}
    for name, date in dates.items():
        git.run("commit", "-q", "--allow-empty", "-m", "c", GIT_COMMITTER_DATE=f"@{date} +0000")
        commit = git.run("rev-parse", "HEAD")
        releases.write(tmp_path, released(name, origin=Provenance(commit=commit)))
    releases.write(tmp_path, released("v0", origin=Provenance(commit="0" * 40)))
    releases.write(tmp_path, released("v9", origin=Provenance()))
    listed = releases.listing(tmp_path, Layout(tmp_path / "store"))
    told = [(one.release.name, one.date) for one in listed]
    assert told == [("v1", 3000), ("v3", 2000), ("v2", 1000), ("v0", None), ("v9", None)]


def test_a_damaged_release_is_an_integrity_error_of_every_verb(project: SmallProject) -> None:
    project.compose("build", "app", "--release", "v13")
    path = project.root / "lock/releases/v13.toml"
    path.write_text(path.read_text().replace('image = "app"', 'image = "ap"', 1))
    for verb in (
        ["diff", "v13", "app"],
        ["diff", str(path), "app"],
        ["releases"],
        ["lock"],
        ["release", "app", "v13"],
        ["release", "app", "v14"],
    ):
        done = project.compose(*verb, ok=False)
        assert (verb, done.code) == (verb, 4)
        assert "release v13 was changed by hand" in done.err
        assert "git checkout -- " in done.err


def test_a_release_alone_is_enough_to_compare(project: SmallProject) -> None:
    project.compose("build", "app", "--release", "v13")
    edit(project)
    project.compose("build", "app", "--release", "v14")
    expected = project.compose("diff", "v13", "v14").out
    shutil.rmtree(project.root / "modules")
    (project.root / "lock/app.lock").unlink()
    assert project.compose("diff", "v13", "v14").out == expected
    elsewhere = project.folder / "elsewhere"
    shutil.copytree(project.root / "lock/releases", elsewhere)
    done = project.compose(
        "--project", "/", "diff", str(elsewhere / "v13.toml"), f"{elsewhere}/v14.toml"
    )
    assert "~ first  " in done.out
