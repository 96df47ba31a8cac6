"""Writes generated data as YAML, TOML or JSON in ever other styles, and knows where each text is.

A document is a list of pieces. A piece with a path is what is between the quotes of one text:
what a pin replaces, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from composer.pinning.place import Index, Key, Step

Tree = Any  # str | int | bool | None | list[Tree] | dict[str, Tree]
Path = tuple[Step, ...]

WORD = st.text("abcxyz-_/.", min_size=1, max_size=8).map(lambda text: f"w{text}w")
_SIGNS = st.text("ab é🚀#:'\"\\{}[],&*!|>%@`-=~.0\u2028\t", max_size=10)
TEXTS = st.one_of(WORD, _SIGNS.map(lambda text: text.replace("{{", "{")))
KEYS = st.one_of(WORD, st.sampled_from(["a.b", "x y", "é", 'q"u', "it's", "k: v", "[0]", "#c"]))
LEAVES = st.one_of(TEXTS, st.integers(-99, 99), st.booleans())
TREES = st.recursive(
    LEAVES,
    lambda below: st.one_of(
        st.dictionaries(KEYS, below, min_size=1, max_size=3),
        st.lists(below, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


@dataclass
class Writer:
    """Collects pieces; `draw` chooses among styles."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    end: str = "\n"
    pieces: list[tuple[str, Path | None]] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)  # those an alias may name
    counted: int = 0
    escapes: bool = False  # JSON's for all that is not ASCII; YAML has no surrogate pairs

    def put(self, text: str, path: Path | None = None) -> None:
        self.pieces.append((text.replace("\n", self.end), path))

    def one_of(self, *choices: str) -> str:
        return str(self.draw(st.sampled_from(choices)))

    def text(self, replaced: Path | None = None, new: str = "") -> str:
        return "".join(new if path and path == replaced else text for text, path in self.pieces)

    @property
    def paths(self) -> Sequence[Path]:
        return [path for _, path in self.pieces if path is not None]

    # JSON, and what is like it

    def json(self, tree: Tree, path: Path, *, space: Callable[[], str], colon: str = ":") -> None:
        match tree:
            case dict():
                self._list("{}", tree.items(), path, space, colon)
            case list():
                self._list("[]", enumerate(tree), path, space, colon)
            case str():
                self.quoted(json.dumps(tree, ensure_ascii=self.escapes)[1:-1], path)
            case _:
                self.put(json.dumps(tree))

    def _list(
        self, brackets: str, items: Any, path: Path, space: Callable[[], str], colon: str
    ) -> None:
        self.put(brackets[0] + space())
        for number, (key, value) in enumerate(items):
            if number:
                self.put(space() + "," + space())
            if isinstance(key, str):
                self.put(json.dumps(key, ensure_ascii=False) + space() + colon + space())
            step = Key(key) if isinstance(key, str) else Index(key)
            self.json(value, (*path, step), space=space, colon=colon)
        self.put(space() + brackets[1])

    def quoted(self, inner: str, path: Path, quote: str = '"') -> None:
        self.put(quote)
        self.put(inner, path)
        self.put(quote)

    # YAML

    def yaml(self, tree: Tree, path: Path, indent: int) -> None:
        """Write a value behind `key:` or `-`, with the line end after it."""
        anchor = self._anchor()
        if isinstance(tree, dict | list) and not self.draw(st.booleans()):
            self.put(self.one_of(" ", "  ") + anchor)
            self.json(tree, path, space=lambda: self.one_of("", " "), colon=": ")
            self._rest()
        elif isinstance(tree, dict | list):
            self.put(f" {anchor}".rstrip())
            self._rest()
            self._block(tree, path, indent)
        else:
            self.put(self.one_of(" ", "   ") + anchor)
            self._scalar(tree, path)
            self._rest()
        if anchor:
            self.anchors.append(anchor[1:-1])

    def _anchor(self) -> str:
        self.counted += 1
        return f"&n{self.counted} " if self.draw(st.booleans()) else ""

    def _rest(self) -> None:
        self.put(self.one_of("", "  ", " # é: 'c' \"") + "\n")
        self.put(self.one_of("", "\n", "# - k: v\n", "        # 🚀\n"))

    def _block(self, tree: Tree, path: Path, indent: int) -> None:
        margin = " " * indent
        if isinstance(tree, dict):
            for key, value in tree.items():
                self.put(margin + self._key(key) + self.one_of(":", ":", " :"))
                self.yaml(value, (*path, Key(key)), indent + 2)
            if self.anchors and self.draw(st.booleans()):
                self.put(f"{margin}alias: *{self.draw(st.sampled_from(self.anchors))}\n")
        else:
            for number, value in enumerate(tree):
                self.put(margin + "-")
                self.yaml(value, (*path, Index(number)), indent + 2)

    def _key(self, key: str) -> str:
        if key.isalnum():
            return key
        quote = self.one_of('"', "'")
        if quote == '"':
            return json.dumps(key, ensure_ascii=False)
        return "'" + key.replace("'", "''") + "'"

    def _scalar(self, tree: Tree, path: Path) -> None:
        if not isinstance(tree, str):
            self.put(json.dumps(tree))
            return
        style = self.one_of("plain", "single", "double", "folded lines")
        if style == "plain" and tree.startswith("w") and tree.endswith("w"):
            self.put(tree, path)
        elif style == "single" and "\u2028" not in tree:
            self.quoted(tree.replace("'", "''"), path, "'")
        elif style == "folded lines" and tree.startswith("w") and tree.endswith("w"):
            self.quoted(f"{tree}\n         {tree}", path, self.one_of("'", '"'))
        else:
            inner = json.dumps(tree)[1:-1]
            self.quoted(inner.replace("\\ud83d\\ude80", "\\U0001F680"), path)

    # TOML

    def toml(self, tree: dict[str, Tree], path: Path, header: str) -> None:
        tables = []
        for key, value in tree.items():
            name = self._toml_key(key)
            if _is_table(value) and self.draw(st.booleans()):
                tables.append((key, name, value))
                continue
            self.put(self.one_of("", "  ") + name + self.one_of(" = ", "=", "\t= "))
            self._toml_value(value, (*path, Key(key)))
            self._toml_rest()
        for key, name, value in tables:
            below = (*path, Key(key))
            items = [value] if isinstance(value, dict) else value
            for number, item in enumerate(items):
                double = isinstance(value, list)
                self.put(f"[[{header}{name}]]" if double else f"[ {header}{name} ]")
                self._toml_rest()
                deeper = (*below, Index(number)) if double else below
                self.toml(item, deeper, f"{header}{name}.")

    def _toml_key(self, key: str) -> str:
        if key.isascii() and key.isalnum():
            return key
        plain = "'" not in key and self.draw(st.booleans())
        return f"'{key}'" if plain else json.dumps(key, ensure_ascii=False)

    def _toml_rest(self) -> None:
        self.put(self.one_of("", " # é [x] = '\"") + "\n" + self.one_of("", "\n", "# [k]\n"))

    def _toml_value(self, tree: Tree, path: Path) -> None:
        match tree:
            case dict():
                self.put("{ ")
                for number, (key, value) in enumerate(tree.items()):
                    self.put((", " if number else "") + self._toml_key(key) + " = ")
                    self._toml_value(value, (*path, Key(key)))
                self.put(" }")
            case list():
                self.put("[" + self.one_of("", "\n", " # c ]\n"))
                for number, value in enumerate(tree):
                    self._toml_value(value, (*path, Index(number)))
                    self.put("," + self.one_of("", " ", "\n  # ]\n"))
                self.put("]")
            case str():
                self._toml_text(tree, path)
            case _:
                self.put(json.dumps(tree))

    def _toml_text(self, text: str, path: Path) -> None:
        quote = self.one_of('"', "'", '"""', "'''")
        if quote.startswith('"'):
            inner = json.dumps(text, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
            inner = f"\\\n  x{inner}" if len(quote) == 3 and self.draw(st.booleans()) else inner
            self.quoted(inner, path, quote)
        elif "'" not in text:
            self.quoted(f"{text}\n" if len(quote) == 3 else text, path, quote)
        else:
            self.quoted(json.dumps(text, ensure_ascii=False)[1:-1], path)


def _is_table(tree: Tree) -> bool:
    return isinstance(tree, dict) or (
        isinstance(tree, list) and all(isinstance(item, dict) for item in tree)
    )
