"""lock/pins/: the stack, what a kill leaves, and what is refused."""

from __future__ import annotations

import pytest

from composer.errors import IntegrityError
from composer.pins import Entry, History, dump_history, load_history

DIGEST = "sha256:" + "a" * 64


def pin(release: str, previous: str, **keys: object) -> Entry:
    fields = {"action": "pin", "release": release, "digest": DIGEST, "previous": previous}
    return Entry.model_validate({**fields, "value": f"app:{release}", **keys})


def back(release: str, previous: str, to: int, **keys: object) -> Entry:
    return pin(release, previous, action="rollback", to=to, **keys)


PINS = History((pin("v1", "old"), pin("v2", "app:v1"), pin("v3", "app:v2")))


def test_twice_goes_two_back_and_no_further() -> None:
    assert PINS.before(3) == 2
    once = PINS.adding(back("v2", "app:v3", 2))
    assert once.setter("app:v2") == 4
    assert once.before(4) == 1
    twice = once.adding(back("v1", "app:v2", 1))
    assert twice.before(5) is None


def test_what_was_rolled_back_from_is_not_gone_back_to() -> None:
    again = PINS.adding(back("v1", "app:v3", 1)).adding(pin("v4", "app:v1"))
    assert again.before(5) == 1


def test_a_value_finds_the_newest_entry_that_wrote_it() -> None:
    again = PINS.adding(pin("v1", "app:v3"))
    assert (again.setter("app:v1"), again.setter("app:v2"), again.setter("x")) == (4, 2, None)
    assert (again.pinned("v1"), again.pinned("v9")) == (4, None)
    assert (again.edited("app:v1"), again.edited("x"), History().edited("x")) == (
        False,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("value", "count", "word"),
    [("app:v4", 4, "finished"), ("app:v3", 3, "undone"), ("hand", 3, "dropped")],
)
def test_a_pending_entry_is_settled_by_the_file(value: str, count: int, word: str) -> None:
    history, remark = PINS.adding(pin("v4", "app:v3", pending=True)).settled(value)
    assert len(history.entries) == count
    assert not any(one.pending for one in history.entries)
    assert word in remark
    assert history.settled(value) == (history, "")


def test_the_text_comes_back() -> None:
    history = PINS.adding(back("v1", "by hand", 1, edited=True))
    raw = dump_history(history)
    assert load_history(raw, "x") == history
    assert dump_history(load_history(raw, "x")) == raw


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ((pin("v2", "app:v1"), pin("v1", "old")), "entry 2 says another value came before"),
        ((pin("v1", "old", pending=True), pin("v2", "app:v1")), "entry 1 is pending"),
        ((pin("v1", "old"), back("v1", "app:v1", 2)), "goes back to entry 2"),
        ((pin("v1", "old"), back("v2", "app:v1", 1)), "goes back to entry 1"),
        ((pin("v1", "old"), pin("v2", "app:v1", to=1)), "entry 2: a rollback"),
        ((pin("v1", "old", action="rollback"),), "entry 1: a rollback"),
    ],
)
def test_entries_out_of_order_are_refused(entries: tuple[Entry, ...], found: str) -> None:
    with pytest.raises(IntegrityError) as caught:
        load_history(dump_history(History(entries)), "lock/pins/prod.toml")
    (fault,) = caught.value.faults
    assert found in fault.found
    assert "git checkout -- lock/pins/prod.toml" in fault.fix
