"""Faults of a TOML file point at the line and key that are wrong."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, StrictBool

from composer.errors import InputError
from composer.tomlfile import Location, parse, spell, validate


def lines(text: str | bytes) -> dict[Location, int]:
    raw = text if isinstance(text, bytes) else text.encode()
    return dict(parse(raw, "file.toml").lines)


def refused(raw: bytes) -> str:
    with pytest.raises(InputError) as caught:
        parse(raw, "file.toml")
    return str(caught.value)


# Lines


def test_tables_and_keys() -> None:
    text = "a = 1\n\n[b]\nc = 2\n[b.d.e]\nf = 3\n  [ g . h ]\n\ti = 4\n"
    assert lines(text) == {
        ("a",): 1,
        ("b",): 3,
        ("b", "c"): 4,
        ("b", "d"): 5,
        ("b", "d", "e"): 5,
        ("b", "d", "e", "f"): 6,
        ("g",): 7,
        ("g", "h"): 7,
        ("g", "h", "i"): 8,
    }


def test_a_table_counts_more_than_what_implies_it() -> None:
    text = "[a.b]\nx = 1\n[a]\ny = 2\n"
    assert lines(text) == {("a",): 3, ("a", "b"): 1, ("a", "b", "x"): 2, ("a", "y"): 4}


def test_arrays_of_tables() -> None:
    text = (
        "[[p]]\nx = 1\n[[p.q]]\ny = 1\n[[p.q]]\ny = 2\n[p.r]\nz = 1\n"
        "[[p]]\nx = 2\n[[p.q]]\ny = 3\n[p.q.deep]\nw = 1\n"
    )
    assert lines(text) == {
        ("p",): 1,
        ("p", 0): 1,
        ("p", 0, "x"): 2,
        ("p", 0, "q"): 3,
        ("p", 0, "q", 0): 3,
        ("p", 0, "q", 0, "y"): 4,
        ("p", 0, "q", 1): 5,
        ("p", 0, "q", 1, "y"): 6,
        ("p", 0, "r"): 7,
        ("p", 0, "r", "z"): 8,
        ("p", 1): 9,
        ("p", 1, "x"): 10,
        ("p", 1, "q"): 11,
        ("p", 1, "q", 0): 11,
        ("p", 1, "q", 0, "y"): 12,
        ("p", 1, "q", 0, "deep"): 13,
        ("p", 1, "q", 0, "deep", "w"): 14,
    }


def test_dotted_and_quoted_keys() -> None:
    text = (
        'a.b = 1\na . c=2\n"d.e".f = 3\n\'g "h"\' = 4\n"i\\"\\u00e9 # [" = 5\n3.1 = 6\n"" = 7\n'
        '[bases."vllm-0.28"]\nx = 1\n'
    )
    assert lines(text) == {
        ("a",): 1,
        ("a", "b"): 1,
        ("a", "c"): 2,
        ("d.e",): 3,
        ("d.e", "f"): 3,
        ('g "h"',): 4,
        ('i"é # [',): 5,
        ("3",): 6,
        ("3", "1"): 6,
        ("",): 7,
        ("bases",): 8,
        ("bases", "vllm-0.28"): 8,
        ("bases", "vllm-0.28", "x"): 9,
    }


@pytest.mark.parametrize(
    "value",
    [
        '"""\n[x]\ny = 1 # no\n\\"""\n"" "\n"""',
        "'''\n[x]\ny = 1 # no\n''\n'''",
        '"""one \\\n   two"""',
        '""""quoted""""',
        "''''quoted''''",
        '"[x] # {" # [y]',
        "'[x] # {' # [y]",
        '"\\\\" # [y]',
        "[1, [2, [3]], # ]\n 4\n]",
        "[\n]",
        '{ x = "}", y = [ { z = 1 } ] }',
        "{}",
        "1979-05-27 07:32:00 # [y]",
        "-inf",
        "true#",
    ],
)
def test_values_are_walked_over(value: str) -> None:
    text = f"first = {value}\nsecond = 2\n[third]\n"
    assert parse(text.encode(), "x").data.keys() == {"first", "second", "third"}
    found = {place: line for place, line in lines(text).items() if len(place) == 1}
    at = text[: text.index("\nsecond")].count("\n") + 2
    assert found == {("first",): 1, ("second",): at, ("third",): at + 1}


def test_inside_arrays_and_inline_tables() -> None:
    text = (
        "a = [\n  1,\n  [2,\n   3],  # four\n  { b = 4,  c.d = [\n 5] },\n]\n"
        'e = { f = { "g" = 6 } }\n'
    )
    assert lines(text) == {
        ("a",): 1,
        ("a", 0): 2,
        ("a", 1): 3,
        ("a", 1, 0): 3,
        ("a", 1, 1): 4,
        ("a", 2): 5,
        ("a", 2, "b"): 5,
        ("a", 2, "c"): 5,
        ("a", 2, "c", "d"): 5,
        ("a", 2, "c", "d", 0): 6,
        ("e",): 8,
        ("e", "f"): 8,
        ("e", "f", "g"): 8,
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_byte_order_mark(end: str, mark: bytes) -> None:
    text = "# first\n\n[a]\nb = '''\nx\n'''\nc = 1".replace("\n", end)
    raw = mark + text.encode()
    assert lines(raw) == {("a",): 3, ("a", "b"): 4, ("a", "c"): 7}
    assert parse(raw, "x").data == {"a": {"b": "x\n", "c": 1}}


def test_an_empty_file() -> None:
    assert lines("") == lines("# nothing") == lines("\n\n") == {}


def places(value: Any, place: Location = ()) -> list[Location]:
    """Return the place of every key and element in a parsed document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[Location] = []
    for key, item in inside:
        found.append((*place, key))
        if isinstance(item, dict | list):
            found += places(item, (*place, key))
    return found


KEY = st.sampled_from(["a", "b-1", "c d", 'e"', "f.g", "", "é", "[h]", "#i", "\n"])
TEXT = st.text(st.sampled_from("ab[]{}#,='\"\\\n\r\t é"), max_size=6)
SCALAR = TEXT | st.integers(-9, 9) | st.booleans() | st.dates() | st.datetimes() | st.floats()
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3)
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(KEY, VALUE, max_size=4), st.booleans())
def test_every_key_is_found_on_the_line_that_holds_it(
    document: dict[str, Any], multiline: bool
) -> None:
    text = tomli_w.dumps(document, multiline_strings=multiline)
    file = parse(text.encode(), "x")
    written = text.replace("\r\n", "\n").split("\n")
    found = file.lines
    assert set(places(file.data)) == set(found)
    for place in found:
        if isinstance(place[-1], str):
            key = tomli_w.dumps({place[-1]: 0}).removesuffix(" = 0\n")
            assert key in written[found[place] - 1], place


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(KEY, SCALAR), max_size=6), st.data())
def test_distinct_keys_are_on_their_own_lines(
    pairs: list[tuple[str, Any]], data: st.DataObject
) -> None:
    text, expected = "", {}
    for number, (key, value) in enumerate(pairs):
        text += data.draw(st.sampled_from(["", "\n", "# [no]\n", "  "]))
        name = f"{number}{key}"
        expected[(name,)] = text.count("\n") + 1
        text += tomli_w.dumps({name: value}, multiline_strings=data.draw(st.booleans()))
    assert lines(text) == expected


# Where


def test_at_is_the_nearest_place_that_has_a_line() -> None:
    file = parse(b"\n[a]\nb = { c = 1 }\n[[p]]\n", "x.toml")
    assert file.at(("a", "b", "c")) == "x.toml:3 a.b.c"
    assert file.at(("a", "missing")) == "x.toml:2 a.missing"
    assert file.at(("p", 0, "file")) == "x.toml:4 p[0].file"
    assert file.at(("p", 7, "file")) == "x.toml:4 p[7].file"
    assert file.at(("schema",)) == "x.toml:1 schema"
    assert file.at(()) == "x.toml:1"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", "b-1", 0, "c"), "a.b-1[0].c"),
        (("bases", "vllm-0.28", "image"), 'bases."vllm-0.28".image'),
        (("a b",), '"a b"'),
    ],
)
def test_how_a_place_is_spelled(place: Location, text: str) -> None:
    assert spell(place) == text


# What is no TOML


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"a = 1\nb\n", "the file is not valid TOML\n  where:    file.toml:2\n"),
        (b"a = 1\na = 2\n", "the file is not valid TOML\n  where:    file.toml:2\n"),
        (b"\n\na = '''\nb\n", "the file is not valid TOML\n  where:    file.toml:5\n"),
        (b"[a\n", "the file is not valid TOML\n  where:    file.toml:1\n"),
        (b"a = 1\rb = 2\n", "the file is not valid TOML\n  where:    file.toml:1\n"),
        (b"a = [" * 5000, "the file is not valid TOML\n"),
        (b"a = " + b"1" * 5000, "the file is not valid TOML\n"),
        (b"a = 1979-13-01", "the file is not valid TOML\n  where:    file.toml:1\n"),
        (b"a = '\0'", "the file is not valid TOML\n  where:    file.toml:1\n"),
        (b"a = 1\nb = '\xff'\n", "the file is not UTF-8 text\n  where:    file.toml:2\n"),
        (b"\xef\xbb\xbfa=1\n\xff", "the file is not UTF-8 text\n  where:    file.toml:2\n"),
        (b"\xef\xbb\xbf\n\n\xff", "the file is not UTF-8 text\n  where:    file.toml:3\n"),
        ("a = 1".encode("utf-16"), "the file is not UTF-8 text\n  where:    file.toml:1\n"),
    ],
)
def test_refused(raw: bytes, message: str) -> None:
    assert refused(raw).startswith(message)
    assert "  found:  " in refused(raw)


# Models


def even(number: int) -> int:
    if number % 2:
        raise ValueError("the number is odd; take an even one")
    return number


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Leaf(Model):
    number: Annotated[int, AfterValidator(even)] = 0
    flag: StrictBool = False


class Branch(Model):
    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] = ()
    named: dict[str, Leaf] = {}


class Root(Model):
    branches: dict[str, Branch] = {}
    branch: Branch = Branch()
    texts: tuple[str, ...] = ()


def faults(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        validate(parse(text.encode(), "file.toml"), Root)
    return [str(fault) for fault in caught.value.faults]


def test_a_sound_document() -> None:
    text = "texts = ['x']\n[branches.a]\nleaf = { number = 2 }\nleaves = [{}, { flag = true }]\n"
    root = validate(parse(text.encode(), "x"), Root)
    assert root.branches["a"].leaves[1].flag
    assert root.branches["a"].leaf == Leaf(number=2)


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        ("brunch = 1\n", "1 brunch", "did you mean 'branch'?"),
        ("[brunches.x]\n", "1 brunches", "did you mean 'branches'?"),
        ("[branch]\nleef = 1\n", "2 branch.leef", "did you mean 'leaf'?"),
        ("[branches.x]\nleef = 1\n", "2 branches.x.leef", "did you mean 'leaf'?"),
        ("[branches.leaf]\nleef = 1\n", "2 branches.leaf.leef", "did you mean 'leaf'?"),
        ("[branch.leaf]\nflog = 1\n", "2 branch.leaf.flog", "did you mean 'flag'?"),
        (
            "[branch]\nleaves = [{},\n{flog=1}]\n",
            "3 branch.leaves[1].flog",
            "did you mean 'flag'?",
        ),
        ("[branches.x.named.y]\nflog = 1\n", "2 branches.x.named.y.flog", "did you mean 'flag'?"),
        ("[branch.leaf]\nxyz = 1\n", "2 branch.leaf.xyz", "known here: flag, number"),
    ],
)
def test_unknown_keys(text: str, where: str, fix: str) -> None:
    key = where.rpartition(".")[2].rpartition(" ")[2]
    assert faults(text) == [
        f"unknown key {key!r}\n  where:    file.toml:{where}\n  fix:      {fix}"
    ]


def test_every_fault_at_once() -> None:
    text = (
        "texts = [\n  'x',\n  1,\n]\n[branch]\nleaf = { number = 3, flag = 'yes' }\n"
        "leaves = 'none'\n[branches.x.named]\ny = 5\n"
    )
    assert faults(text) == [
        "a table is needed\n  where:    file.toml:9 branches.x.named.y\n  found:    5",
        (
            "the number is odd\n  where:    file.toml:6 branch.leaf.number\n  found:    3\n"
            "  fix:      take an even one"
        ),
        (
            "true or false is needed, without quotes\n  where:    file.toml:6 branch.leaf.flag\n"
            "  found:    'yes'"
        ),
        "a list is needed\n  where:    file.toml:7 branch.leaves\n  found:    'none'",
        "a text in quotes is needed\n  where:    file.toml:3 texts[1]\n  found:    1",
    ]
