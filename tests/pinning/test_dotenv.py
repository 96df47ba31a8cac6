"""Values of env files; python-dotenv reads them a second time."""

from __future__ import annotations

import codecs
import io

import dotenv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.pinning.pin import find
from tests.pinning.support import NEW, TEXT, current_of, pin, pinned, refused

ENV = """\
# IMAGE=comment
  export  OTHER = 'a # b'   # c
MULTI="one
IMAGE=no
\\"two\\""
IMAGE=vllm/vllm-openai:v0.28.0   # pinned

BARE
QUOTED="x \\n y"
SINGLE='don"t'#tight
EMPTY=
COMMENTED=   # ünï 🚀
HASH=a#b
LAST=it's\
"""


def read(raw: bytes) -> dict[str, str | None]:
    text = io.StringIO(raw.decode("utf-8-sig"), newline="")
    return dotenv.dotenv_values(stream=text, interpolate=False)


@pytest.mark.parametrize(
    ("name", "value", "old", "new"),
    [
        ("OTHER", "a # b", "'a # b'", f"'{TEXT}'"),
        ("MULTI", 'one\nIMAGE=no\n"two"', '"one\nIMAGE=no\n\\"two\\""', f'"{TEXT}"'),
        ("IMAGE", "vllm/vllm-openai:v0.28.0", "vllm/vllm-openai:v0.28.0", TEXT),
        ("QUOTED", "x \n y", '"x \\n y"', f'"{TEXT}"'),
        ("SINGLE", 'don"t', "'don\"t'", f"'{TEXT}'"),
        ("EMPTY", "", "EMPTY=", f"EMPTY={TEXT}"),
        ("HASH", "a#b", "a#b", TEXT),
        ("LAST", "it's", "it's", TEXT),
    ],
)
def test_values(name: str, value: str, old: str, new: str) -> None:
    text = ENV.replace("'#tight", "' #tight")
    assert text.count(old) == 1
    assert current_of(text, "dotenv", name) == value
    assert pinned(text, "dotenv", name) == text.replace(old, new)
    values = read(text.encode())
    assert values[name] == value
    assert read(pin(text, "dotenv", name)) == {**values, name: TEXT}


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_line_ends_and_marks(mark: bytes) -> None:
    raw = mark + "# é\r\nA=old \r\nB='x'\r\nC=\r\n".encode()
    assert pin(raw, "dotenv", "A") == raw.replace(b"old", TEXT.encode())
    assert pin(raw, "dotenv", "B") == raw.replace(b"x", TEXT.encode())
    assert pin(raw, "dotenv", "C") == raw.replace(b"C=", b"C=" + TEXT.encode())


def test_an_empty_value_follows_the_sign() -> None:
    assert pinned("A=  \nB=1 \t\n", "dotenv", "A") == f"A={TEXT}  \nB=1 \t\n"
    assert pinned("A=1  ", "dotenv", "A") == f"A={TEXT}  "


def test_what_cannot_be_told_from_a_comment() -> None:
    message = "begins with #; readers differ on whether that is a comment"
    text = ENV.replace("'#tight", "'")
    assert message in refused(text, "dotenv", "COMMENTED")
    assert message in refused("A=#b", "dotenv", "A")
    assert pinned("A='#b'", "dotenv", "A") == f"A='{TEXT}'"


def test_text_right_after_a_quote() -> None:
    assert "what follows the name is not one value\n  where:    deploy/file:10" in refused(
        ENV, "dotenv", "IMAGE"
    )


def test_a_name_without_a_value() -> None:
    assert "there is no BARE" in refused("A=1\nBARE\n", "dotenv", "BARE")
    assert "did you mean 'VLLM_IMAGE'?" in refused("VLLM_IMAGE=a", "dotenv", "VLM_IMAGE")


NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,5}", fullmatch=True)
WORDS = st.text("abcXYZ09./:@_-éü🚀=", min_size=1, max_size=12)
QUOTED = st.text("ab 09#=.'é\n", max_size=12)


@st.composite
def lines(draw: st.DrawFn, name: str) -> str:
    """Return a line that sets a name, with its quotes, spaces and comment."""
    value = draw(
        st.one_of(
            WORDS,
            st.just(""),
            QUOTED.map(lambda text: f'"{text}"'),
            QUOTED.map(lambda text: "'{}'".format(text.replace("'", ""))),
        )
    )
    before = draw(st.sampled_from(["", "export ", "  "]))
    comment = draw(st.sampled_from(["", " # é c", "  "])) if value else ""
    junk = draw(st.sampled_from(["", "\n", "# A=b\n", "   # 'x\n"]))
    return f"{junk}{before}{name}={value}{comment}"


@given(st.data(), st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_only_the_value_changes(data: st.DataObject, names: list[str]) -> None:
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = "\n".join(data.draw(lines(name)) for name in names)
    raw = (text + data.draw(st.sampled_from(["", "\n"]))).replace("\n", end).encode()
    name = data.draw(st.sampled_from(names))
    value = find(raw, "dotenv", name, "f")
    result = pin(raw, "dotenv", name)
    assert result == raw[: value.start] + TEXT.encode() + raw[value.end :]
    assert read(result) == {**read(raw), name: TEXT}
    assert pin(result, "dotenv", name, new=NEW) == result
