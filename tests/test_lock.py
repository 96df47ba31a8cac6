"""Locks: the same bytes for the same image, read back as they were, and refused when damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from composer import fingerprint
from composer.errors import InputError, IntegrityError
from composer.lock import Lock, LockedBase, LockedWheel, differences, dump, load, lock_of, read_lock
from composer.oci.digest import Digest, sha256
from composer.plan import plan
from composer.project import ImageDefinition
from tests.support.bases import definition, platform_base
from tests.support.packages import OTHER, TEXT, change
from tests.support.trees import EPOCH, added, edited, knob, module, read, removed

A = module("a", change(line_3=b"a"), knobs=[knob("VLLM_A", "0", "1")])
B = module(
    "b",
    change(edited(TEXT, {3: b"a\n"}), line_9=b"b"),
    added("vllm/new.py", b"1\n"),
    requires=["a"],
    reads=[read("vllm/other.py", OTHER)],
)
IMAGE = definition([A, B], name="app")
WHEEL = LockedWheel(
    platform="linux/amd64",
    requirement="tiny==1.0",
    name="tiny",
    version="1.0",
    filename="tiny-1.0-py3-none-any.whl",
    digest=str(sha256(b"wheel")),
    size=5,
)
BASE = LockedBase(name="base", digest=str(sha256(b"base")), epoch=EPOCH, wheels=(WHEEL,))
SOURCE = sha256(b"source")


def locked(image: ImageDefinition = IMAGE, base: LockedBase = BASE, **how: Any) -> Lock:
    platforms = how.pop("platforms", ["linux/amd64"])
    bases = [platform_base(platform=one, **how) for one in platforms]
    made = plan(image, bases, single=len(bases) == 1)
    return lock_of(made, base=base, source=SOURCE)


def test_the_text_of_a_lock() -> None:
    golden = (Path(__file__).parent / "golden" / "app.lock").read_bytes()
    assert dump(locked(replace(IMAGE, cache_namespace=True, cmd=()))) == golden


def test_what_a_lock_says() -> None:
    made = plan(IMAGE, [platform_base()])
    lock = lock_of(made, base=BASE, source=SOURCE)
    assert (lock.digest, lock.inputs) == (str(made.digest), str(made.inputs))
    assert lock.format == fingerprint.FORMAT
    assert [one.content for one in lock.modules] == [
        str(fingerprint.content(one)) for one in IMAGE.modules
    ]
    (one,) = lock.platforms
    assert [layer.digest for layer in one.layers] == [
        str(layer.digest) for layer in made.platforms[0].image.manifest.layers[2:]
    ]
    assert one.manifest_size == made.platforms[0].image.manifest.size
    assert lock.platform("linux/amd64") == one
    assert lock.platform("linux/arm64") is None


ROUND = [
    locked(),
    locked(definition([])),
    locked(replace(IMAGE, cache_namespace=True, workdir="/srv", entrypoint=(), cmd=("a", ""))),
    locked(replace(IMAGE, env={"E": 'x"\\\n\t\x7fé\U0001f600', "F": ""}, labels={"a.b/c d": "é"})),
    locked(replace(IMAGE, modules=(module("c", removed("vllm/other.py", OTHER)),))),
    locked(base=BASE.model_copy(update={"source_date_epoch": 0, "wheels": (), "epoch": 0})),
    locked(platforms=["linux/amd64", "linux/arm64"], name="registry.example/base:1"),
]


@pytest.mark.parametrize("lock", ROUND)
def test_round_trip(lock: Lock) -> None:
    raw = dump(lock)
    assert load(raw, "app.lock") == lock
    assert dump(load(raw, "app.lock")) == raw


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.from_regex(r"\A[A-Z_]{1,4}\Z"), st.text(), max_size=3), st.lists(st.text())
)
def test_any_settings_survive(env: dict[str, str], cmd: list[str]) -> None:
    config = locked().config.model_copy(update={"env": env, "cmd": tuple(cmd)})
    lock = locked().model_copy(update={"config": config})
    assert load(dump(lock), "app.lock") == lock


def test_the_inputs_of_a_platform_can_be_told_from_its_record() -> None:
    image = replace(IMAGE, modules=(A, module("c", removed("vllm/other.py", OTHER))))
    bases = [
        platform_base(platform=one, name="r.example/b:1") for one in ("linux/amd64", "linux/arm64")
    ]
    both = plan(image, bases, single=False)
    record = lock_of(both, base=BASE, source=SOURCE).platform("linux/arm64")
    assert record is not None
    others = {"linux/arm64": record.inputs(both.epoch, ["a", "c"])}
    one = plan(image, bases[:1], others=others, single=False)
    assert one.inputs == both.inputs


def test_records_of_platforms_that_were_not_planned_are_kept() -> None:
    bases = [platform_base(platform=one) for one in ("linux/amd64", "linux/arm64")]
    both = lock_of(plan(IMAGE, bases, single=False), base=BASE, source=SOURCE)
    arm = both.platforms[1]
    others = {"linux/arm64": arm.inputs(EPOCH, ["a", "b"])}
    again = lock_of(
        plan(IMAGE, bases[:1], others=others, single=False),
        base=BASE,
        source=SOURCE,
        kept={"linux/arm64": arm},
        digest=Digest.parse(both.digest),
    )
    assert again == both


# Damage


def damaged(change: Callable[[str], str]) -> str:
    with pytest.raises(IntegrityError) as caught:
        load(change(dump(locked()).decode()).encode(), "lock/app.lock")
    assert caught.value.exit_code == 4
    return str(caught.value)


def line_of(text: str, start: str) -> int:
    return next(
        number for number, line in enumerate(text.splitlines(), 1) if line.startswith(start)
    )


def test_a_lock_with_a_conflict_of_a_merge() -> None:
    text = dump(locked()).decode()
    at = line_of(text, "digest =")
    digest = text.splitlines()[at - 1]
    conflict = f"<<<<<<< HEAD\n{digest}\n=======\n{digest}\n>>>>>>> topic"
    assert damaged(lambda text: text.replace(digest, conflict, 1)) == (
        f"the file is not valid TOML\n  where:    lock/app.lock:{at}\n  found:    Invalid statement"
    )


@pytest.mark.parametrize(
    ("change", "start", "what"),
    [
        (lambda text: text[:200], None, "the file is not valid TOML"),
        (lambda text: text.replace("schema = 1", "schema = 2"), "schema", "not one of the values"),
        (lambda text: text.replace('inputs = "sha256:', 'inputs = "'), "inputs", "is not a digest"),
        (lambda text: text.replace("inputs", "inputz"), "inputz", "unknown key 'inputz'"),
        (lambda text: text.replace("inputs", "inputz"), None, "the key 'inputs' is missing"),
        (lambda text: text.replace("linux/amd64", "amd64"), None, "'amd64' is not a platform"),
        (lambda text: text.replace('kind = "add"', 'kind = "ad"'), 'kind = "ad"', "not one of"),
        (lambda text: text.replace("size = 5", "size = -5"), "size = -5", "greater than or equal"),
        (lambda text: text + "\nmore = 1\n", "more", "unknown key 'more'"),
        (lambda text: "", None, "the key 'schema' is missing"),
    ],
)
def test_a_lock_that_was_edited(change: Callable[[str], str], start: str | None, what: str) -> None:
    message = damaged(change)
    assert what in message
    if start is not None:
        at = line_of(change(dump(locked()).decode()), start)
        assert f"lock/app.lock:{at} " in message


def test_a_lock_that_is_not_text() -> None:
    with pytest.raises(IntegrityError, match="not UTF-8 text"):
        load(b"\xff", "lock/app.lock")


def test_a_lock_of_a_newer_format() -> None:
    newer = locked().model_copy(update={"format": fingerprint.FORMAT + 1})
    with pytest.raises(IntegrityError) as caught:
        load(dump(newer), "lock/app.lock")
    assert str(caught.value) == (
        "the lock has byte format 2, this compose writes 1\n"
        "  where:    lock/app.lock\n"
        "  fix:      use the compose that wrote the lock, or a newer one"
    )
    older = locked().model_copy(update={"format": fingerprint.FORMAT - 1})
    assert load(dump(older), "lock/app.lock") == older


# Differences


def told(image: ImageDefinition = IMAGE, base: LockedBase = BASE, **how: Any) -> list[str]:
    """What is said of the change from IMAGE, without the line on the digest."""
    own, other = locked(), locked(image, base, **how)
    lines = list(differences(own, other))
    if own.digest != other.digest:
        assert lines.pop() == f"digest {own.digest} -> {other.digest}"
    return lines


def test_differences() -> None:
    assert list(differences(None, locked())) == ["new lock"]
    assert told() == []
    changed = module("a", change(line_3=b"a"), reads=[read("vllm/other.py", OTHER)], knobs=A.knobs)
    assert told(replace(IMAGE, modules=(changed, B))) == ["module a changed"]
    assert told(replace(IMAGE, modules=(A,))) == ["module b removed"]
    assert told(replace(IMAGE, modules=(A, B, module("c")))) == ["module c added"]
    assert told(replace(IMAGE, knobs={"VLLM_A": "1"})) == ["knobs of module a changed"]
    for setting in ({"env": {"E": "1"}}, {"workdir": "/"}, {"cmd": ()}, {"cache_namespace": True}):
        assert told(replace(IMAGE, **setting)) == [f"settings changed: {', '.join(setting)}"]
    both = replace(IMAGE, labels={"l": "1"}, entrypoint=("a",))
    assert told(both) == ["settings changed: labels, entrypoint"]
    assert told(platforms=["linux/amd64", "linux/arm64"]) == ["platforms linux/amd64, linux/arm64"]


def test_differences_of_the_base() -> None:
    newer = str(sha256(b"newer"))
    assert told(base=BASE.model_copy(update={"digest": newer})) == [
        f"base base {BASE.digest[:19]} -> {newer[:19]}"
    ]
    assert told(base=BASE.model_copy(update={"name": "else"})) == ["base base -> else"]
    what = ["what base base was resolved from, or its epoch"]
    assert told(base=BASE.model_copy(update={"source_date_epoch": EPOCH})) == what
    wheel = WHEEL.model_copy(update={"requirement": "tiny<2"})
    assert told(base=BASE.model_copy(update={"wheels": (wheel,)})) == what


def test_a_difference_of_the_format() -> None:
    older = locked().model_copy(update={"format": 0})
    assert list(differences(older, locked())) == ["byte format 0 -> 1"]


@pytest.mark.parametrize("one", ROUND)
@pytest.mark.parametrize("other", ROUND)
def test_locks_that_differ_always_have_a_difference(one: Lock, other: Lock) -> None:
    assert bool(list(differences(one, other))) == (dump(one) != dump(other))


def test_a_lock_is_toml_that_others_read() -> None:
    document = locked().model_dump(by_alias=True, exclude_defaults=True)
    assert dump(locked()).decode().partition("\n")[2] == tomli_w.dumps(document)


def test_a_lock_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "lock/app.lock").mkdir(parents=True)
    with pytest.raises(InputError, match="the file cannot be read"):
        read_lock(tmp_path, "app")
