"""Values of TOML and JSON files, as literal bytes before and after."""

from __future__ import annotations

import codecs

import pytest

from composer.pinning.pin import find
from tests.pinning.support import TEXT, pin, pinned, refused

TOML = '''\
# fleet ünï 🚀
title = "vLLM"   # [not.a.table]
image.old = 'a'

[fleet]
when = 2024-01-01T00:00:00Z
"dotted.key" = { image = "b", port = 8_000, s = 'x' }
text = """
image = "no"
"""

[[fleet.node]]
name = "one"
image = \'\'\'c\'\'\'
[[fleet.node]]
name = "two"
images = [ "d", # first
  'e', ["f"], ]
[fleet.node.deep]
image = """\\
  g"""
empty = ""
'''


@pytest.mark.parametrize(
    ("at", "old", "new"),
    [
        ("image.old", "'a'", f"'{TEXT}'"),
        ("title", '"vLLM"', f'"{TEXT}"'),
        ('fleet."dotted.key".image', '"b"', f'"{TEXT}"'),
        ("fleet.node[name=one].image", "'''c'''", f"'''{TEXT}'''"),
        ("fleet.node[1].images[0]", '"d"', f'"{TEXT}"'),
        ("fleet.node[name=two].images[1]", "'e'", f"'{TEXT}'"),
        ("fleet.node[name=two].images[2][0]", '["f"]', f'["{TEXT}"]'),
        ("fleet.node[name=two].deep.image", '"""\\\n  g"""', f'"""{TEXT}"""'),
        ("fleet.node[name=two].deep.empty", 'empty = ""', f'empty = "{TEXT}"'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_toml(at: str, old: str, new: str, end: str, mark: bytes) -> None:
    assert TOML.count(old) == 1
    raw = mark + TOML.replace("\n", end).encode()
    expected = mark + TOML.replace(old, new).replace("\n", end).encode()
    assert pin(raw, "toml", at) == expected


@pytest.mark.parametrize(
    "text",
    [
        'image = """a""""',
        'image = """a"""""',
        "image = '''a''''\n",
        'image = "a\\"b\\\\"',
        "image='a'#c",
        "image   =\t'a'  ",
        "[ a ]\n[b]\nx=1\n[a.c]\nimage='z'\n[b.d]\n[ x ]\nimage='y'\n[x.'y z']\n",
    ],
)
def test_toml_strings(text: str) -> None:
    at = "x.image" if "[ x ]" in text else "image"
    value = find(text.encode(), "toml", at, "f")
    expected = text[: value.start] + TEXT + text[value.end :]
    assert pinned(text, "toml", at) == expected
    assert find(expected.encode(), "toml", at, "f").text == TEXT


def test_toml_values_that_are_no_text() -> None:
    assert "fleet.when is not text\n  where:    deploy/file:6" in refused(
        TOML, "toml", "fleet.when"
    )
    assert "found:    a mapping" in refused(TOML, "toml", "fleet.node[0]")
    assert "did you mean 'title'?" in refused(TOML, "toml", "titel")
    assert "found:    a list of 2" in refused(TOML, "toml", "fleet.node.name")


JSON = """\
{ "é 🚀" : [ 1.50, -0, true, {"image":"a\\"\\u00e9\\\\" } ],
\t"a.b": {"name": "x", "image" : "b"},
  "none": null, "list": [{"name":"p","image":"c"},{"name":"q","image":""}],
  "number": 12, "nan": NaN, "text": "{ [ \\" : , ] }" }
"""


@pytest.mark.parametrize(
    ("at", "old", "new"),
    [
        ('"é 🚀"[3].image', '"a\\"\\u00e9\\\\"', f'"{TEXT}"'),
        ('"a.b".image', '"b"', f'"{TEXT}"'),
        ("none", "null", f'"{TEXT}"'),
        ("list[name=p].image", '"c"', f'"{TEXT}"'),
        ("list[name=q].image", '""', f'"{TEXT}"'),
        ("text", '"{ [ \\" : , ] }"', f'"{TEXT}"'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_json(at: str, old: str, new: str, end: str, mark: bytes) -> None:
    assert JSON.count(old) == 1
    raw = mark + JSON.replace("\n", end).encode()
    expected = mark + JSON.replace(old, new).replace("\n", end).encode()
    assert pin(raw, "json", at) == expected


def test_json_values_that_are_no_text() -> None:
    assert "number is not text\n  where:    deploy/file:4" in refused(JSON, "json", "number")
    assert "nan is not text" in refused(JSON, "json", "nan")
    assert "list is not text" in refused(JSON, "json", "list")
    assert "there is no a" in refused('"a"', "json", "a")
