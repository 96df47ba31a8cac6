"""Edits of several modules in one file: order never matters, or there is a collision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from composer.patch import Edit
from composer.stack import Collision, Step, Text

BASE = [b"one\n", b"two\n", b"three\n", b"four\n", b"five\n"]
NEW = st.lists(st.sampled_from([b"new\n", b"other\n", b"two\n"]), max_size=2)


def edit(start: int, end: int, *lines: bytes) -> Edit:
    """Replace lines `start` to `end`, from 0, `end` exclusive."""
    return Edit(start, end, lines, 1)


def apply(text: Text, steps: Iterable[Step]) -> Text:
    for step in steps:
        text = text.apply(step)
    return text


def outcome(text: Text, steps: Iterable[Step]) -> bytes | None:
    """Return the final content, or None where the steps collide."""
    try:
        return apply(text, steps).data
    except Collision:
        return None


def naive(lines: Sequence[bytes], edits: Iterable[Edit]) -> bytes:
    """Apply edits of one text at once, from the last to the first."""
    result = list(lines)
    for one in sorted(edits, key=lambda one: (one.start, one.end))[::-1]:
        result[one.start : one.end] = one.lines
    return b"".join(result)


def collide(one: Edit, other: Edit) -> bool:
    """The rule for two edits of one text, in numbers."""
    first, second = sorted((one, other), key=lambda edit: (edit.start, edit.end))
    if first.start == first.end or second.start == second.end:
        return second.start <= first.end  # an insertion: the edges of the other count
    return second.start < first.end


# Two modules on the base


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (edit(1, 3, b"x\n"), edit(2, 4, b"y\n")),  # ranges overlap
        (edit(0, 5, b"x\n"), edit(2, 3, b"y\n")),  # one in the other
        (edit(1, 2, b"x\n"), edit(1, 2, b"x\n")),  # the same edit twice
        (edit(2, 3), edit(2, 3, b"y\n")),  # one removes what the other changes
        (edit(2, 2, b"x\n"), edit(2, 2, b"y\n")),  # inserted at one point
        (edit(0, 0, b"x\n"), edit(0, 0, b"y\n")),  # at the start
        (edit(5, 5, b"x\n"), edit(5, 5, b"y\n")),  # at the end
        (edit(2, 2, b"x\n"), edit(1, 4, b"y\n")),  # inserted into what the other replaced
        (edit(1, 1, b"x\n"), edit(1, 4, b"y\n")),  # at its upper edge
        (edit(4, 4, b"x\n"), edit(1, 4, b"y\n")),  # at its lower edge
        (edit(0, 0, b"x\n"), edit(0, 1, b"y\n")),  # at the start, above a changed first line
        (edit(5, 5, b"x\n"), edit(4, 5, b"y\n")),  # at the end, below a changed last line
    ],
)
def test_collisions_name_the_other_module(one: Edit, other: Edit) -> None:
    text = Text.of(BASE)
    a, b = Step.of(text, [one], "a"), Step.of(text, [other], "b")
    for first, second in ((a, b), (b, a)):
        with pytest.raises(Collision) as caught:
            apply(text, [first, second])
        assert (caught.value.other, caught.value.edit) == (first.origin, second.edits[0])


@pytest.mark.parametrize(
    ("one", "other", "result"),
    [
        (edit(1, 2, b"x\n"), edit(2, 3, b"y\n"), b"one\nx\ny\nfour\nfive\n"),  # neighbours
        (edit(1, 2), edit(2, 3), b"one\nfour\nfive\n"),
        (edit(1, 1, b"x\n"), edit(2, 2, b"y\n"), b"one\nx\ntwo\ny\nthree\nfour\nfive\n"),
        (edit(0, 0, b"x\n"), edit(5, 5, b"y\n"), b"x\none\ntwo\nthree\nfour\nfive\ny\n"),
        (edit(1, 1, b"x\n"), edit(2, 3, b"y\n"), b"one\nx\ntwo\ny\nfour\nfive\n"),
    ],
)
def test_edits_that_do_not_meet(one: Edit, other: Edit, result: bytes) -> None:
    text = Text.of(BASE)
    a, b = Step.of(text, [one], "a"), Step.of(text, [other], "b")
    assert apply(text, [a, b]).data == apply(text, [b, a]).data == result


def test_lines_of_equal_text_are_not_confused() -> None:
    text = Text.of([b"x\n"] * 4)
    a = Step.of(text, [edit(0, 1, b"first\n"), edit(3, 4, b"last\n")], "a")
    b = Step.of(text, [edit(1, 1, b"x\n"), edit(2, 3)], "b")
    with pytest.raises(Collision):
        apply(text, [a, b])
    b = Step.of(text, [edit(2, 2, b"x\n")], "b")
    assert apply(text, [a, b]).data == apply(text, [b, a]).data == b"first\nx\nx\nx\nlast\n"


def test_a_files_text_is_the_concatenation_of_its_lines() -> None:
    assert Text.of([]).data == b""
    assert Text.of([b"a\n", b"b"]).data == b"a\nb"
    empty = Text.of([])
    assert empty.apply(Step.of(empty, [edit(0, 0, b"a\n")], "a")).data == b"a\n"


@st.composite
def disjoint_edits(draw: st.DrawFn) -> tuple[list[bytes], list[Edit]]:
    """A text and edits of it that do not meet: an insertion has untouched lines around it."""
    lines: list[bytes] = []
    edits: list[Edit] = []
    kept = True
    for number in range(draw(st.integers(1, 10))):
        new = draw(NEW)
        size = draw(st.integers(0, 2))
        at = len(lines)
        if size:
            lines += [b"%d\n" % (number % 3)] * size
            edits.append(Edit(at, at + size, tuple(new), number))
        else:
            if kept and new:
                edits.append(Edit(at, at, tuple(new), number))
            lines.append(b"kept\n")
        kept = not size
    return lines, edits


@settings(max_examples=100, deadline=None)
@given(disjoint_edits(), st.data())
def test_disjoint_edits_give_one_text_in_every_order(
    made: tuple[list[bytes], list[Edit]], data: st.DataObject
) -> None:
    lines, edits = made
    owners = data.draw(st.lists(st.integers(0, 3), min_size=len(edits), max_size=len(edits)))
    text = Text.of(lines)
    steps = [
        Step.of(
            text,
            [one for one, owner in zip(edits, owners, strict=True) if owner == name],
            str(name),
        )
        for name in range(4)
    ]
    expected = naive(lines, edits)
    for order in permutations(steps):
        assert apply(text, order).data == expected


@st.composite
def own_edits(draw: st.DrawFn, length: int) -> list[Edit]:
    """Edits of one module: in order, not overlapping, at least one."""
    cuts = sorted(draw(st.lists(st.integers(0, length), min_size=2, max_size=4)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    edits = [
        Edit(start, end, tuple(draw(NEW)), number) for number, (start, end) in enumerate(pairs, 1)
    ]
    return [one for one in edits if one.end > one.start or one.lines]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 6), st.data())
def test_collisions_are_symmetric_and_follow_the_rule(length: int, data: st.DataObject) -> None:
    lines = [b"%d\n" % number for number in range(length)]
    text = Text.of(lines)
    one, other = data.draw(own_edits(length)), data.draw(own_edits(length))
    a, b = Step.of(text, one, "a"), Step.of(text, other, "b")
    expected = None
    if not any(collide(x, y) for x in one for y in other):
        expected = naive(lines, [*one, *other])
    assert outcome(text, [a, b]) == outcome(text, [b, a]) == expected


# Modules on the results of others


def required_orders(requires: Sequence[frozenset[int]]) -> Iterator[tuple[int, ...]]:
    """Every order in which each module comes after those it requires."""
    for order in permutations(range(len(requires))):
        done: set[int] = set()
        for number in order:
            if not requires[number] <= done:
                break
            done.add(number)
        else:
            yield order


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Text, list[Step], list[frozenset[int]]]:
    """Three or four modules, each on the result of any earlier ones and what those require.

    Small: on few lines, edits meet often, and seldom where they must not.
    """
    base = Text.of(b"%d\n" % number for number in range(draw(st.integers(1, 3))))
    steps: list[Step] = []
    requires: list[frozenset[int]] = []
    for number in range(draw(st.integers(3, 4))):
        earlier = st.frozensets(st.integers(0, max(number - 1, 0)), max_size=min(number, 2))
        direct = draw(earlier)
        required = direct.union(*(requires[one] for one in direct))
        try:
            view = apply(base, [steps[one] for one in sorted(required)])
        except Collision:
            assume(False)
        start = draw(st.integers(0, len(view.lines)))
        end = min(start + draw(st.integers(0, 1)), len(view.lines))
        lines = (b"new %d\n" % number,) * draw(st.integers(int(start == end), 1))
        steps.append(Step.of(view, [Edit(start, end, lines, 1)], str(number)))
        requires.append(required)
    return base, steps, requires


@settings(max_examples=600, deadline=None)
@given(stacks())
def test_stacked_edits_give_one_text_in_every_order_or_collide_in_all(
    made: tuple[Text, list[Step], list[frozenset[int]]],
) -> None:
    base, steps, requires = made
    orders = required_orders(requires)
    results = {order: outcome(base, [steps[number] for number in order]) for order in orders}
    assert len(set(results.values())) == 1, results


def test_an_insertion_above_anothers_replacement_meets_a_change_of_the_line_above() -> None:
    base = Text.of([b"a\n", b"b\n", b"c\n"])
    x = Step.of(base, [edit(1, 2, b"x\n")], "x")
    y = Step.of(base.apply(x), [edit(1, 1, b"y\n")], "y")  # requires x: between a and x
    z = Step.of(base, [edit(0, 1, b"z\n")], "z")  # replaces a
    for order in ((x, y, z), (x, z, y), (z, x, y)):
        assert outcome(base, order) is None
    assert outcome(base, [x, z]) == outcome(base, [z, x]) == b"z\nx\nc\n"


def test_two_insertions_where_an_inserted_line_was_taken_out() -> None:
    base = Text.of([b"a\n", b"b\n"])
    x = Step.of(base, [edit(1, 1, b"x\n")], "x")
    p = Step.of(base.apply(x), [edit(1, 2)], "p")  # takes x's line out
    view = apply(base, [x, p])
    q, s = (Step.of(view, [edit(1, 1, name + b"\n")], name.decode()) for name in (b"q", b"s"))
    assert apply(base, [x, p, q]).data == b"a\nq\nb\n"
    for order in ((x, p, q, s), (x, p, s, q)):
        with pytest.raises(Collision) as caught:
            apply(base, order)
        assert caught.value.other == order[2].origin


def test_two_modules_on_the_result_of_a_third() -> None:
    base = Text.of(BASE)
    a = Step.of(base, [edit(1, 2, b"a1\n", b"a2\n")], "a")
    on_a = base.apply(a)
    b = Step.of(on_a, [edit(1, 2, b"b\n")], "b")
    c = Step.of(on_a, [edit(2, 3, b"c\n")], "c")
    for order in ((a, b, c), (a, c, b)):
        assert apply(base, order).data == b"one\nb\nc\nthree\nfour\nfive\n"


def test_a_module_on_the_results_of_two() -> None:
    base = Text.of(BASE)
    a = Step.of(base, [edit(0, 1, b"a\n")], "a")
    b = Step.of(base, [edit(1, 2, b"b\n")], "b")
    c = Step.of(apply(base, [a, b]), [edit(1, 1, b"c\n")], "c")  # between what a and b left
    for order in ((a, b, c), (b, a, c)):
        assert apply(base, order).data == b"a\nc\nb\nthree\nfour\nfive\n"


def test_three_levels_and_a_module_beside_them() -> None:
    base = Text.of(BASE)
    a = Step.of(base, [edit(2, 2, b"a\n")], "a")
    b = Step.of(base.apply(a), [edit(3, 3, b"b\n")], "b")  # below what a inserted
    c = Step.of(apply(base, [a, b]), [edit(2, 4)], "c")  # takes out what both inserted
    beside = Step.of(base, [edit(4, 5, b"beside\n")], "beside")
    for place in range(4):
        order = [a, b, c]
        order.insert(place, beside)
        assert apply(base, order).data == b"one\ntwo\nthree\nfour\nbeside\n"


def test_a_gap_stays_taken_when_the_lines_in_it_are_gone_again() -> None:
    base = Text.of(BASE)
    a = Step.of(base, [edit(2, 2, b"a\n")], "a")
    b = Step.of(base.apply(a), [edit(2, 3)], "b")
    c = Step.of(base, [edit(2, 2, b"c\n")], "c")  # where a inserted
    for order in ((a, b, c), (a, c, b), (c, a, b)):
        assert outcome(base, order) is None
