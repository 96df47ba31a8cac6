"""The grammar of `at`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.pinning.place import DocumentName, Index, Key, Kind, Place, Select, Step, spell


@pytest.mark.parametrize(
    ("at", "steps"),
    [
        ("image", (Key("image"),)),
        ("services.vllm.image", (Key("services"), Key("vllm"), Key("image"))),
        ('services."vllm.a".image', (Key("services"), Key("vllm.a"), Key("image"))),
        (r'"a\"b"', (Key('a"b'),)),
        ("a[0][12].b", (Key("a"), Index(0), Index(12), Key("b"))),
        ("c[name=vllm].image", (Key("c"), Select("name", "vllm"), Key("image"))),
        ('c["x.y"="a] b"]', (Key("c"), Select("x.y", "a] b"))),
        ("images[name=vllm/vllm-openai]", (Key("images"), Select("name", "vllm/vllm-openai"))),
        ("images[name=host:5000/a.b]", (Key("images"), Select("name", "host:5000/a.b"))),
    ],
)
def test_paths(at: str, steps: tuple[Step, ...]) -> None:
    assert Place.parse("compose", at) == Place("compose", at, None, steps)


@pytest.mark.parametrize(
    ("at", "name"),
    [
        ("Deployment/vllm:spec", DocumentName("Deployment", None, "vllm")),
        ("Deployment/prod/vllm.a:spec", DocumentName("Deployment", "prod", "vllm.a")),
    ],
)
def test_kubernetes_objects(at: str, name: DocumentName) -> None:
    assert Place.parse("kubernetes", at) == Place("kubernetes", at, name, (Key("spec"),))


@pytest.mark.parametrize(
    ("kind", "at", "message"),
    [
        ("compose", "", "'' is not a path: the end at character 1"),
        ("compose", "a.", "'a.' is not a path: the end at character 3"),
        ("compose", "a..b", "'a..b' is not a path: '.' at character 3"),
        ("compose", "a b", "'a b' is not a path: ' ' at character 2"),
        ("compose", "a[x]", "'a[x]' is not a path: '[' at character 2"),
        ("compose", "a[-1]", "'a[-1]' is not a path: '[' at character 2"),
        ("compose", "a[0]b", "'a[0]b' is not a path: 'b' at character 5"),
        ("compose", "[0]", "'[0]' is not a path: '[' at character 1"),
        ("compose", r'"\x"', r"""'"\\x"': "\x" is not a quoted key"""),
        ("kubernetes", "spec.image", "'spec.image' does not begin with an object; write"),
        ("kubernetes", "Deployment/v:", "'Deployment/v:' is not a path: the end"),
        ("kustomize", "images", "'images' is not an entry of a list; name one"),
        ("dotenv", "a.b", "'a.b' is not the name of a variable; write it as VLLM_IMAGE"),
        ("ini", "a", "'ini' is no kind of deploy file; one of compose, kubernetes"),
    ],
)
def test_what_is_no_place(kind: Kind, at: str, message: str) -> None:
    with pytest.raises(ValueError, match="; ") as caught:
        Place.parse(kind, at)
    assert str(caught.value).startswith(message)


STEPS = st.one_of(
    st.builds(Key, st.text()),
    st.builds(Index, st.integers(0, 999)),
    st.builds(Select, st.text(), st.text()),
)


@given(st.text(), st.lists(STEPS))
def test_every_path_can_be_spelled(first: str, rest: list[Step]) -> None:
    steps = (Key(first), *rest)
    assert Place.parse("json", spell(steps)).steps == steps
