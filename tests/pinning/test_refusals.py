"""What a place may not be: each refusal with its line and what to do."""

from __future__ import annotations

import pytest

from composer.pinning.place import Kind
from tests.pinning.support import refused


def test_a_missing_key_names_the_nearest() -> None:
    text = "services:\n  vllm:\n    imgae: a\n"
    assert refused(text, "compose", "services.vllm.image") == (
        "there is no services.vllm.image\n"
        "  where:    deploy/file:3 services.vllm\n"
        "  fix:      did you mean 'imgae'?"
    )
    assert "fix:      did you mean 'vllm'?" in refused(text, "compose", "services.vlm.image")
    assert "the document\n  fix:      known here: services" in refused(text, "compose", "x")


def test_a_path_through_what_is_no_mapping() -> None:
    text = "a:\n  b: c\nd: [1, 2]\n"
    assert refused(text, "compose", "a.b.c") == (
        "there is no a.b.c\n"
        "  where:    deploy/file:2 a.b\n"
        "  expected: a mapping\n"
        "  found:    the text 'c'"
    )
    assert "expected: a list\n  found:    a mapping" in refused(text, "compose", "a[0]")
    assert "found:    a list of 2, counted from 0" in refused(text, "compose", "d[2]")
    assert "found:    a list of 2" in refused(text, "compose", "d.x")


def test_values_that_are_no_text() -> None:
    text = "a: 1.0\nb: [x]\nc: {d: e}\nf: yes\ng: 2024-01-01\n"
    assert refused(text, "compose", "a") == (
        "a is not text\n  where:    deploy/file:1 a\n  found:    1.0\n"
        "  fix:      put it in quotes if it is what you mean"
    )
    for at in "bcfg":
        assert f"{at} is not text" in refused(text, "compose", at)
    assert "found:    a mapping" in refused(text, "compose", "c")


@pytest.mark.parametrize("sign", ["|", ">", "|-", ">+", "|2"])
def test_blocks(sign: str) -> None:
    assert refused(f"a: {sign}\n  old\n", "compose", "a") == (
        "a is a block of lines\n  where:    deploy/file:1 a\n"
        "  found:    a value that begins with | or >\n"
        "  fix:      write it on the line of its key"
    )


@pytest.mark.parametrize("tag", ["!Ref", "!reset", "!!binary", "!<tag:x,2000:y>"])
def test_tags(tag: str) -> None:
    message = refused(f"a: {tag} b", "compose", "a")
    assert message.startswith(("a has a tag, which says that it is more", "a is not text"))


@pytest.mark.parametrize("text", ["${IMAGE:-x}", "a:${TAG}", "$IMAGE", "$(IMAGE)", "{{ .image }}"])
@pytest.mark.parametrize(
    ("kind", "form"),
    [("compose", 'a: "{}"'), ("json", '{{"a": "{}"}}'), ("toml", 'a = "{}"'), ("dotenv", "a={}")],
)
def test_values_filled_in_elsewhere(kind: Kind, form: str, text: str) -> None:
    assert refused(form.format(text), kind, "a") == (
        f"a is filled in elsewhere\n  where:    deploy/file:1 a\n  found:    {text}\n"
        "  fix:      point 'at' to where its value is set, or write the image out here"
    )


def test_aliases() -> None:
    text = "a: &x\n  image: old\nb: *x\nc: &y old\nd: [*y]\n"
    assert refused(text, "compose", "b.image") == (
        "b is an alias, so its value is written elsewhere\n"
        "  where:    deploy/file:3 b\n"
        "  found:    *x, anchored in line 1\n"
        "  fix:      point 'at' to the value in line 1, or write the value out here"
    )
    assert "d[0] is an alias" in refused(text, "compose", "d[0]")


def test_merge_keys() -> None:
    text = "x: &x\n  image: old\ny: &y {<<: *x}\na:\n  <<: [*y]\n  b: 1\n"
    assert refused(text, "compose", "a.image") == (
        "a.image comes through the merge key <<, so its value is written elsewhere\n"
        "  where:    deploy/file:5 a.image\n"
        "  found:    line 2\n"
        "  fix:      point 'at' to the value in line 2, or set image here as well"
    )
    assert "there is no a.c" in refused(text, "compose", "a.c")
    assert "there is no a.<<" in refused(text, "compose", "a.<<")


def test_a_merge_of_itself() -> None:
    assert "there is no a.image" in refused("a: &a {<<: *a}", "compose", "a.image")


def test_keys_set_twice() -> None:
    text = "a: 1\nimage: x\nb: {c: 1, 'c': 2}\n---\nimage: y\n\"image\": z\n"
    assert refused(text, "compose", "image") == (
        "c is set twice\n  where:    deploy/file:3\n  found:    first in line 3\n"
        "  fix:      remove one; readers differ on which of them counts\n"
        "image is set twice\n  where:    deploy/file:6\n  found:    first in line 5\n"
        "  fix:      remove one; readers differ on which of them counts"
    )
    assert "a is set twice\n  where:    deploy/file:2" in refused(
        '{"a": "1",\n"a": "2"}', "json", "a"
    )
    assert "A is set twice\n  where:    deploy/file:3" in refused(
        "A=1\n#\nexport A=2", "dotenv", "A"
    )


def test_keys_that_only_look_alike() -> None:
    assert "there is no x" in refused("1: a\n'1': b\ntrue: c\n'true': d\n", "compose", "x")


def test_two_documents() -> None:
    text = "image: a\n---\nb: 1\n---\nimage: c\n"
    assert refused(text, "compose", "image") == (
        "2 documents of the file have image\n  where:    deploy/file\n  expected: one\n"
        "  found:    line 1\n            line 5\n  fix:      keep it in one document"
    )


def test_two_items() -> None:
    text = "c:\n- name: a\n- name: b\n- {x: 1, name: a}\n"
    assert refused(text, "compose", "c[name=a].x") == (
        "2 items of the list are c[name=a]\n  where:    deploy/file:2\n  expected: one\n"
        "  found:    line 2\n            line 4\n"
        "  fix:      keep one, or choose by number, as in [0]"
    )
    assert refused(text, "compose", "c[name=bb].x") == (
        "there is no c[name=bb]\n  where:    deploy/file:2\n  found:    a list of 3\n"
        "  fix:      did you mean 'b'?"
    )


OBJECTS = """\
kind: Deployment
metadata: {name: vllm, namespace: a}
image: x
---
kind: Deployment
metadata: {name: vllm, namespace: b}
image: x
---
kind: Service
metadata: {name: vllm}
---
- no object
"""


def test_two_objects() -> None:
    assert refused(OBJECTS, "kubernetes", "Deployment/vllm:image") == (
        "2 objects of the file are Deployment/vllm\n  where:    deploy/file\n  expected: one\n"
        "  found:    line 1: Deployment/a/vllm\n            line 5: Deployment/b/vllm\n"
        "  fix:      name the namespace: Deployment/NAMESPACE/vllm:..."
    )
    twice = OBJECTS.replace("namespace: b", "namespace: a")
    assert "fix:      keep one" in refused(twice, "kubernetes", "Deployment/a/vllm:image")


def test_no_object() -> None:
    assert refused(OBJECTS, "kubernetes", "Deployment/c/vllm:image") == (
        "there is no Deployment/c/vllm\n  where:    deploy/file\n"
        "  found:    line 1: Deployment/a/vllm\n"
        "            line 5: Deployment/b/vllm\n"
        "            line 9: Service/vllm\n"
        "  fix:      did you mean 'Deployment/b/vllm'?"
    )
    assert "found:    no object" in refused("a: 1", "kubernetes", "Pod/a:b")


def test_an_object_without_the_path() -> None:
    assert refused(OBJECTS, "kubernetes", "Service/vllm:imag").startswith(
        "there is no imag\n  where:    deploy/file:9 the document"
    )


def test_values_left_out() -> None:
    assert refused("{image}", "compose", "image") == (
        "image has no value to replace\n  where:    deploy/file:1 image\n"
        '  fix:      write image: ""'
    )
    assert "has no value to replace" in refused("? image\n? b\n", "compose", "image")
    assert "has no value to replace" in refused("image: &a\nb: 1", "compose", "image")


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("compose", b"a: \xff", "the file is not UTF-8 text\n  where:    deploy/file:1"),
        ("compose", b"a: b\nc: [", "the file is not valid YAML\n  where:    deploy/file:2"),
        ("compose", b"a:\n\tb: c", "the file is not valid YAML\n  where:    deploy/file:2"),
        ("compose", b"a: *x", "the alias *x has no anchor before it\n  where:    deploy/file:1"),
        ("compose", b"a: &x b\n---\nc: *x", "the alias *x has no anchor before it\n  where:"),
        ("compose", b"a: b\n\x07", "the file is not valid YAML\n  where:    deploy/file:2"),
        ("compose", b"a: b\nc: {{ x }}", "the file cannot be read"),
        ("compose", b"[" * 4000, "the file is nested too deeply"),
        ("compose", b"", "the file holds nothing"),
        ("compose", b"# nothing\n", "the file holds nothing"),
        ("json", b'{"a": "b",}', "the file is not valid JSON\n  where:    deploy/file:1"),
        ("json", b'{"a": "b"\n', "the file is not valid JSON\n  where:    deploy/file:2"),
        ("json", b"[" * 100000, "the file is not valid JSON"),
        ("toml", b"a = \n", "the file is not valid TOML\n  where:    deploy/file:1"),
        ("toml", b"a = 'b'\na = 'c'", "the file is not valid TOML"),
        ("dotenv", b"B=1\na b\n", "not a line of the form NAME=value\n  where:    deploy/file:2"),
        ("dotenv", b"B=1\na='x\n", "a quote is not closed\n  where:    deploy/file:2"),
        ("dotenv", b'a="x\\"', "a quote is not closed\n  where:    deploy/file:1"),
        ("dotenv", b"a='x' y\n", "what follows the name is not one value\n  where:"),
    ],
)
def test_files_that_cannot_be_read(kind: Kind, text: bytes, message: str) -> None:
    assert refused(text, kind, "a").startswith(message)


def test_tabs_have_a_fix() -> None:
    assert "fix:      indent with spaces; YAML takes no tabs there" in refused(
        "a:\n\tb: c", "compose", "a"
    )


def test_a_place_that_is_none() -> None:
    assert refused("a: b", "compose", "a..b") == (
        "'a..b' is not a path: '.' at character 3\n  where:    deploy/file\n"
        '  fix:      write it as a.b, a."key with dots".b, a[0] or a[name=NAME]'
    )
