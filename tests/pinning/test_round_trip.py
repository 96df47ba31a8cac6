"""In any file a pin changes the bytes of one value, and what a parser reads there."""

from __future__ import annotations

import codecs
import json
import tomllib
from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from composer.pinning.pin import find
from composer.pinning.place import Index, Key, Kind, Select, Step, spell
from tests.pinning.support import TEXT, pin
from tests.pinning.writing import KEYS, TREES, Path, Tree, Writer

DOCUMENTS = st.dictionaries(KEYS, TREES, min_size=1, max_size=4)


def set_at(data: Any, path: tuple[Step, ...], value: str) -> Any:
    """Return a copy of `data` in which nothing is shared, with `value` at a path."""
    data = json.loads(json.dumps(data))
    *above, last = (step.name if isinstance(step, Key) else step.number for step in path)  # type: ignore[union-attr]
    node = data
    for part in above:
        node = node[part]
    node[last] = value
    return data


def check(
    writer: Writer, mark: bytes, kind: Kind, path: Path, load: Callable[[str], Any]
) -> tuple[Any, Any]:
    """Pin a text of what was written; return what is read before and after."""
    text = writer.text()
    expected = writer.text(path, TEXT)
    at = spell(path)
    raw = mark + text.encode()
    assert find(raw, kind, at, "f").text not in (None, TEXT)
    result = pin(raw, kind, at)
    assert result == mark + expected.encode()
    assert find(result, kind, at, "f").text == TEXT
    return load(text), load(result.decode("utf-8-sig"))


def begin(data: st.DataObject) -> tuple[Writer, bytes]:
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    return Writer(data.draw, end), data.draw(st.sampled_from([b"", codecs.BOM_UTF8]))


def choose(data: st.DataObject, writer: Writer) -> Path:
    assume(bool(writer.paths))
    return data.draw(st.sampled_from(writer.paths))


@settings(deadline=None)
@given(st.data(), DOCUMENTS)
def test_json(data: st.DataObject, tree: dict[str, Tree]) -> None:
    writer, mark = begin(data)
    writer.escapes = data.draw(st.booleans())
    writer.json(tree, (), space=lambda: writer.one_of("", " ", "\n", "\t"))
    path = choose(data, writer)
    before, after = check(writer, mark, "json", path, json.loads)
    assert before == tree
    assert after == set_at(before, path, TEXT)


@settings(deadline=None)
@given(st.data(), DOCUMENTS)
def test_toml(data: st.DataObject, tree: dict[str, Tree]) -> None:
    writer, mark = begin(data)
    writer.toml(tree, (), "")
    path = choose(data, writer)
    before, after = check(writer, mark, "toml", path, tomllib.loads)
    assert after == set_at(before, path, TEXT)


@settings(deadline=None, max_examples=200)
@given(st.data(), st.lists(TREES, min_size=1, max_size=3))
def test_yaml(data: st.DataObject, trees: list[Tree]) -> None:
    writer, mark = begin(data)
    for number, tree in enumerate(trees):
        writer.put("# é\n---\n" if number else writer.one_of("", "---\n", "%YAML 1.1\n---\n"))
        writer.put(f"doc{number}:")
        writer.anchors.clear()
        writer.yaml(tree, (Key(f"doc{number}"),), 2)
    path = choose(data, writer)
    root = path[0]
    assert isinstance(root, Key)
    number = int(root.name.removeprefix("doc"))
    before, after = check(
        writer, mark, "compose", path, lambda text: list(yaml.safe_load_all(text))
    )
    others = [one for at, one in enumerate(after) if at != number]
    assert others == [one for at, one in enumerate(before) if at != number]
    notes = find(mark + writer.text().encode(), "compose", spell(path), "f").notes
    if notes:  # aliases bring the value elsewhere
        assert after[number] != before[number]
    else:
        assert after[number] == set_at(before[number], path, TEXT)


@settings(deadline=None)
@given(st.data(), st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=4, unique=True))
def test_kubernetes(data: st.DataObject, names: list[tuple[str, str]]) -> None:
    writer, mark = begin(data)
    paths = []
    for number, (name, image) in enumerate(names):
        writer.put(f"---\nkind: Deployment\nmetadata: {{name: d{number}}}\nspec:")
        containers = [{"image": f"i{number}", "name": "zz"}, {"name": name, "image": image}]
        path = (Key("spec"), Key(f"c{number}"), Select("name", name), Key("image"))
        before = len(writer.pieces)
        writer.anchors.clear()
        writer.yaml({f"c{number}": containers}, (Key("spec"),), 2)
        place = (*path[:2], Index(1), path[3])
        assert place in [one for _, one in writer.pieces[before:]]
        paths.append((path, place))
    number = data.draw(st.integers(0, len(names) - 1))
    path, place = paths[number]
    at = f"Deployment/d{number}:{spell(path)}"
    raw = mark + writer.text().encode()
    assume(_name(raw, number) == names[number][0])  # one folded over two lines is another
    assert pin(raw, "kubernetes", at) == mark + writer.text(place, TEXT).encode()


def _name(raw: bytes, number: int) -> str:
    document = list(yaml.safe_load_all(raw.decode("utf-8-sig")))[number]
    return str(document["spec"][f"c{number}"][1]["name"])
