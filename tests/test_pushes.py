"""lock/pushes.toml: what a push adds, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from composer.errors import IntegrityError
from composer.oci.digest import sha256
from composer.oci.reference import Reference
from composer.pushes import Pushes, dump_pushes, load_pushes, read, record, references

ONE, TWO = sha256(b"one"), sha256(b"two")
APP = "registry.example/app"


def reference(text: str) -> Reference:
    return Reference.parse(text)


def test_the_text(tmp_path: Path) -> None:
    for digest, name in [(TWO, f"{APP}:v2"), (ONE, f"{APP}:v1"), (ONE, "registry.example/a:v1")]:
        record(tmp_path, digest, reference(name))
    assert (
        (tmp_path / "lock/pushes.toml").read_text()
        == f"""\
# Made by compose push: where each digest is. `compose releases` shows it.
schema = 1

[pushes]
"{TWO}" = [
    "{APP}:v2",
]
"{ONE}" = [
    "registry.example/a:v1",
    "{APP}:v1",
]
"""
    )
    assert references(tmp_path, str(ONE)) == (
        reference("registry.example/a:v1"),
        reference(f"{APP}:v1"),
    )
    assert references(tmp_path, str(sha256(b"three"))) == ()


def test_a_tag_that_moves_leaves_the_repository() -> None:
    pushes = Pushes(schema=1)
    for digest, name in [(ONE, f"{APP}:v1"), (ONE, f"{APP}:latest"), (TWO, f"{APP}:latest")]:
        pushes = pushes.adding(str(digest), reference(name))
    assert pushes.of(str(ONE)) == (reference(f"{APP}:v1"),)
    pushes = pushes.adding(str(TWO), reference(f"{APP}:v1"))
    assert pushes.of(str(ONE)) == (reference(APP),)
    assert pushes.of(str(TWO)) == (reference(f"{APP}:latest"), reference(f"{APP}:v1"))
    # A tag says more than the repository alone.
    pushes = pushes.adding(str(ONE), reference(f"{APP}:again"))
    assert pushes.of(str(ONE)) == (reference(f"{APP}:again"),)
    assert pushes.adding(str(ONE), reference(APP)) == pushes


def test_a_digest_in_the_reference_is_the_key() -> None:
    named = reference(f"{APP}:v1").with_digest(ONE)
    assert Pushes(schema=1).adding(str(ONE), named).of(str(ONE)) == (reference(f"{APP}:v1"),)


def test_the_same_again_writes_nothing(tmp_path: Path) -> None:
    record(tmp_path, ONE, reference(f"{APP}:v1"))
    path = tmp_path / "lock/pushes.toml"
    before = path.stat().st_ino
    record(tmp_path, ONE, reference(f"{APP}:v1"))
    assert path.stat().st_ino == before
    record(tmp_path, ONE, reference(f"{APP}:v2"))
    assert path.stat().st_ino != before


def test_two_pushes_at_once_keep_both(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from composer.pushes import record;"
        "from composer.oci.digest import sha256; from composer.oci.reference import Reference;"
        "[record(Path(sys.argv[1]), sha256(b'%d' % n),"
        " Reference.parse(f'r.example/{sys.argv[2]}:v{n}')) for n in range(20)]"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    writers = [subprocess.Popen([*command, name], env=os.environ) for name in ("a", "b", "c")]
    assert [one.wait() for one in writers] == [0, 0, 0]
    pushes = read(tmp_path)
    assert len(pushes.pushes) == 20
    for number in range(20):
        expected = tuple(reference(f"r.example/{name}:v{number}") for name in "abc")
        assert pushes.of(str(sha256(b"%d" % number))) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("schema = 2\n", "schema"),
        ("schema = 1\nmore = 1\n", "more"),
        (f'schema = 1\n[pushes]\n"sha256:0" = ["{APP}:v1"]\n', "sha256:0"),
        (f'schema = 1\n[pushes]\n"{ONE}" = ["{APP}@{ONE}"]\n', "the digest is the key already"),
        (f'schema = 1\n[pushes]\n"{ONE}" = ["UPPER"]\n', "UPPER"),
        ("schema = 1\n[pushes\n", "lock/pushes.toml:2"),
    ],
)
def test_a_record_that_was_damaged(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock/pushes.toml").write_text(text)
    with pytest.raises(IntegrityError) as raised:
        record(tmp_path, TWO, reference(f"{APP}:v2"))
    assert what in str(raised.value)
    assert (tmp_path / "lock/pushes.toml").read_text() == text


def test_what_is_written_is_read() -> None:
    pushes = Pushes(schema=1).adding(str(ONE), reference("localhost:5000/a/b:v1"))
    assert load_pushes(dump_pushes(pushes), "pushes.toml") == pushes
