"""Answers of a base as lines: readable, exact, and asked of the base only when they are new."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.facts import Facts, FactView
from composer.imagebase import LayerFiles
from composer.oci.filetree import Entry, LayerTable, directory, regular

PATHS = st.text(max_size=8)
ENTRIES = st.builds(
    Entry,
    st.sampled_from("fdlcbp"),
    st.integers(0, 0o7777),
    st.integers(0, 2**31),
    st.integers(0, 2**31),
    st.integers(-(2**40), 2**40),
    st.integers(0, 2**40),
    st.just(""),
    PATHS,
    st.lists(st.tuples(PATHS, PATHS), max_size=2).map(tuple),
    PATHS,
).map(lambda entry: entry._replace(sha256="ab" * 32) if entry.kind == "f" else entry)
FACTS = st.builds(
    Facts,
    st.dictionaries(PATHS, st.none() | ENTRIES, max_size=3),
    st.dictionaries(st.tuples(PATHS, PATHS), st.lists(PATHS, max_size=3).map(tuple), max_size=3),
    st.dictionaries(PATHS, st.lists(PATHS, max_size=3).map(tuple), max_size=3),
    st.dictionaries(PATHS, st.lists(PATHS, max_size=3).map(tuple), max_size=3),
    st.dictionaries(PATHS, st.integers(0, 200), max_size=3),
)


@given(FACTS)
def test_lines_say_all_and_can_be_read_back(facts: Facts) -> None:
    lines = facts.lines()
    assert Facts.parse(lines) == facts
    assert list(lines) == sorted(lines)
    assert all(line.isprintable() for line in lines)


def test_what_lines_look_like() -> None:
    facts = Facts(
        {
            "usr": directory(1700000000),
            "a b": None,
            "bin": Entry("l", 0o777, link="usr/bin"),
            "cap": Entry("f", 0o755, 1, 2, 3, 4, "ab", xattrs=(("security.capability", "\x01"),)),
        },
        {("usr", "core"): ("core.py", "core.pyc")},
        layers={"usr/core.py": 7},
    )
    assert facts.lines() == (
        "layer usr/core.py 7",
        "names usr core core.py core.pyc",
        "stat a%20;b",
        "stat bin l 777 0:0 0 0 %; usr/bin",
        "stat cap f 755 1:2 3 4 ab %; %; security.capability %1;",
        "stat usr d 755 0:0 1700000000",
    )


@pytest.mark.parametrize(
    "line", ["", "stat", "size usr 4", "stat usr d 8", "layer usr x", "names usr"]
)
def test_lines_that_are_no_facts(line: str) -> None:
    with pytest.raises(ValueError, match="is not a fact of a base"):
        Facts.parse([line])


FILES = LayerFiles.of(
    [
        LayerTable({"lib": directory(5), "lib/core.py": regular(3, "aa" * 32)}),
        LayerTable(
            {"lib/copy.py": Entry("h", link="lib/core.py"), "lib/new.py": regular(1, "bb" * 32)}
        ),
    ]
)


def _view(known: Facts) -> FactView:
    return FactView(known, lambda: FILES, lambda path, entry, layer: f"{path} {layer}".encode())


def _ask(view: FactView) -> list[object]:
    return [
        view.stat("lib/core.py"),
        view.stat("lib/away.py"),
        view.names("lib", "core"),
        view.names("lib/__pycache__", "core"),
        view.siblings("lib/copy.py"),
        view.package_roots("lib"),
        view.read("lib/core.py"),
        view.read("lib/copy.py"),
        view.read("lib/new.py"),
    ]


def test_known_answers_are_those_of_the_base() -> None:
    first = _view(Facts())
    answers = _ask(first)
    assert answers[-3:] == [b"lib/core.py 0", b"lib/copy.py 0", b"lib/new.py 1"]

    def gone() -> LayerFiles:
        raise AssertionError("the base was asked again")

    known = Facts.parse(first.used.lines())
    again = FactView(known, gone, lambda path, entry, layer: f"{path} {layer}".encode())
    assert _ask(again) == answers
    assert again.used == first.used


def test_a_question_that_is_new_goes_to_the_base() -> None:
    view = _view(Facts({"lib/core.py": regular(9, "cc")}))
    assert view.stat("lib/core.py") == regular(9, "cc")
    assert view.stat("lib/new.py") == regular(1, "bb" * 32)
    assert view.used.stats.keys() == {"lib/core.py", "lib/new.py"}
