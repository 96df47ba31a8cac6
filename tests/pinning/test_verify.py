"""The proof of an edit refuses what was not asked for, whoever made the edit."""

from __future__ import annotations

import pytest

from composer.errors import IntegrityError
from composer.pinning import pin as under_test
from composer.pinning.place import Kind
from composer.pinning.source import Edit
from composer.pinning.verify import Expected, verify
from tests.pinning.support import TEXT, pin


def proof(
    kind: str, before: str, after: str, expected: list[Expected], *, shared: bool = False
) -> None:
    verify(kind, before.encode(), after.encode(), expected, shared=shared, shown="deploy/file")


A = Expected((0, "a"), "x", "y")


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("compose", "a: x\nb: [1, {c: 2}]\n", "a: y\nb: [1, {c: 2}]\n"),
        ("compose", "a: x\nb: .nan\n", "a: y\nb: .nan\n"),
        ("compose", "a: x\nb: !t [1]\nc: !t {d: !u e}\n", "a: y\nb: !t [1]\nc: !t {d: !u e}\n"),
        ("json", '{"a": "x", "b": NaN}', '{"a": "y", "b": NaN}'),
        ("toml", "a = 'x'\nb = nan", "a = 'y'\nb = nan"),
        ("dotenv", 'a=x\nB="\\"\na=1"', 'a=y\nB="\\"\na=1"'),
        ("dotenv", "export\t a = x\n\t# a=z", "export\t a = y\n\t# a=z"),
        ("dotenv", "a=x\nB='1\n2'", "a=y\nB='1\n2'"),
    ],
)
def test_what_was_asked_for(kind: str, before: str, after: str) -> None:
    proof(kind, before, after, [A])


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("compose", "a: x\nb: 1", "a: x\nb: 1"),
        ("compose", "a: x\nb: 1", "a: y\nb: 2"),
        ("compose", "a: x\nb: 1", "a: y\nb: true"),
        ("compose", "a: x\nb: 1", "a: y\nb: 1.0"),
        ("compose", "a: x\nb: 1", "a: y"),
        ("compose", "a: x", "a: y\nb: y"),
        ("compose", "a: x\nb: x", "a: y\nb: y"),
        ("compose", "a: x\nb: [1, 2]", "a: y\nb: [1]"),
        ("compose", "a: x\nb: [1, 2]", "a: y\nb: [1, 2, 3]"),
        ("compose", "a: x\nb: !t c", "a: y\nb: !u c"),
        ("compose", "a: x\nb: {c: {d: e}}", "a: y\nb: {c: {d: f}}"),
        ("compose", "a: x", "a: y\n---\nb: 1"),
        ("compose", "a: x", "a: [y"),
        ("compose", "a: x", "b: y"),
        ("json", '{"a": "x", "b": 0}', '{"a": "y", "b": false}'),
        ("json", '{"a": "x"}', '{"a": "y"'),
        ("toml", "a = 'x'\nb = 1", "a = 'y'\nb = 1.0"),
        ("dotenv", "a=x\nB=1", "a=y\nB=2"),
        ("dotenv", "a=x\nB=1", "a=y z\nB=1"),
        ("dotenv", "a=x\nB=1", "a='y\nB=1'"),
    ],
)
def test_anything_else(kind: str, before: str, after: str) -> None:
    with pytest.raises(IntegrityError, match="does not say what it should, so it was not written"):
        proof(kind, before, after, [A])


def test_what_an_alias_brings_may_change_where_one_does() -> None:
    before, after = "a: &i x\nb: *i\nc: {d: [*i]}", "a: &i y\nb: *i\nc: {d: [*i]}"
    proof("compose", before, after, [A], shared=True)
    with pytest.raises(IntegrityError, match="one at"):
        proof("compose", before, after, [A])
    with pytest.raises(IntegrityError, match="one at"):
        proof("compose", before, after.replace("d:", "e:"), [A], shared=True)


def test_aliases_of_aliases_take_no_time() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 30))
    proof("compose", f"a: x\nl0: &l0 z\n{levels}", f"a: y\nl0: &l0 z\n{levels}", [A])


def test_inserted_keys() -> None:
    one = Expected((0, "b"), None, "z", inserted=True)
    proof("kustomize", "a: x\n", "a: y\nb: z\n", [A, one])
    with pytest.raises(IntegrityError, match="one at"):
        proof("kustomize", "a: x\n", "a: y\nb: z\nc: z\n", [A, one])


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        ("compose", "image: old\nb: 1\n", "y"),
        ("compose", "image: old\nb: 1\n", "a: b"),
        ("json", '{"image": "old"}', 'a"'),
        ("toml", "image = 'old'", "a'\nb = '"),
        ("dotenv", "image=old\nB=1\n", "a\nC=1"),
    ],
)
def test_a_wrong_edit_is_not_returned(
    kind: Kind, text: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = text.index("old")
    edit = Edit(start, start + 3, wrong)
    monkeypatch.setattr(under_test, "overwrite", lambda *_: edit)
    with pytest.raises(IntegrityError):
        pin(text, kind, "image")


def test_a_change_beside_it_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "image: old\nb: old"
    edit = Edit(7, len(text), f"{TEXT}\nb: {TEXT}")
    monkeypatch.setattr(under_test, "overwrite", lambda *_: edit)
    with pytest.raises(IntegrityError, match="one at"):
        pin(text, "compose", "image")
