"""Values of YAML files, as literal bytes before and after."""

from __future__ import annotations

import codecs

import pytest

from composer.pinning.pin import find
from tests.pinning.support import DIGEST, IMAGE_ID, REPOSITORY, TEXT, current_of, pin, pinned

COMPOSE = """\
# GPU nodes — see the runbook
name: fleet
x-logging: &logging
  driver: "json-file"   # bounded

services:
  vllm:
    <<: &common
      restart: unless-stopped
    logging: *logging
    image: vllm/vllm-openai:v0.28.0   # pinned by compose
    command: >
      --model glm
      --port 8000
    environment: {A: '1', "B": two}
    deploy: !reset null
  "proxy.a":
    image: 'nginx:1.27'
"""


def test_compose() -> None:
    before = "image: vllm/vllm-openai:v0.28.0   #"
    assert COMPOSE.count(before) == 1
    expected = COMPOSE.replace(before, f"image: {TEXT}   #")
    assert pinned(COMPOSE, "compose", "services.vllm.image") == expected
    assert current_of(COMPOSE, "compose", "services.vllm.image") == "vllm/vllm-openai:v0.28.0"
    assert current_of(expected, "compose", "services.vllm.image") == TEXT


def test_a_key_with_a_dot() -> None:
    expected = COMPOSE.replace("'nginx:1.27'", f"'{TEXT}'")
    assert pinned(COMPOSE, "compose", 'services."proxy.a".image') == expected


def test_forms() -> None:
    text = "image: a\n"
    assert pinned(text, "compose", "image", form="digest") == f"image: {REPOSITORY}@{DIGEST}\n"
    assert pinned(text, "compose", "image", form="image-id") == f"image: {IMAGE_ID}\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_marks(end: str, mark: bytes, last: bool) -> None:
    text = f"# ünï 🚀{end}é: '…'{end}image: \"ø\" # ok{end}b:{end}- 1{end if last else ''}"
    expected = text.replace('"ø"', f'"{TEXT}"')
    assert pin(mark + text.encode(), "compose", "image") == mark + expected.encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("image: old", f"image: {TEXT}"),
        ("image:    old   # why", f"image:    {TEXT}   # why"),
        ("image: 'it''s'", f"image: '{TEXT}'"),
        (r'image: "\u00e9 \"x\""', f'image: "{TEXT}"'),
        ("image: &a old", f"image: &a {TEXT}"),
        ("image: &a\n  'old'", f"image: &a\n  '{TEXT}'"),
        ("image: !!str old", f"image: !!str {TEXT}"),
        ("image: &a !!str 'old'", f"image: &a !!str '{TEXT}'"),
        ("image: ! old", f"image: ! {TEXT}"),
        ("image: old\n  and more", f"image: {TEXT}"),
        ('image: "old\n  and more"', f'image: "{TEXT}"'),
        ("image:\n  old", f"image:\n  {TEXT}"),
        ("image:", f"image: {TEXT}"),
        ("image:   # none yet", f"image: {TEXT}   # none yet"),
        ("image: ~", f"image: {TEXT}"),
        ("image: null", f"image: {TEXT}"),
        ('image: ""', f'image: "{TEXT}"'),
        ("{image: old, b: 1}", f"{{image: {TEXT}, b: 1}}"),
        ('{"image":"old","b":1}', f'{{"image":"{TEXT}","b":1}}'),
        ('{"image":, "b":1}', f'{{"image": {TEXT}, "b":1}}'),
        ("z: &k image\n*k : old", f"z: &k image\n*k : {TEXT}"),
        ("? image\n: old", f"? image\n: {TEXT}"),
        ('"image": old', f'"image": {TEXT}'),
        ("%YAML 1.1\n---\nimage: old\n...", f"%YAML 1.1\n---\nimage: {TEXT}\n..."),
        ("--- {}\n---\nimage: old", f"--- {{}}\n---\nimage: {TEXT}"),
        ("=: =\n2024-02-31: 0x_\nimage: old", f"=: =\n2024-02-31: 0x_\nimage: {TEXT}"),
    ],
)
def test_styles(before: str, after: str) -> None:
    assert pinned(before, "compose", "image") == after


@pytest.mark.parametrize("key", ["on", "1", "1.50", "null", "2024-01-01", "é", "0x1F"])
def test_a_key_is_what_the_file_says(key: str) -> None:
    at = key if "." not in key else f'"{key}"'
    assert pinned(f"{key}: a\nz: b", "compose", at) == f"{key}: {TEXT}\nz: b"


def test_lists() -> None:
    text = "a:\n- [x, 'y']\n-\n- - z\n"
    assert pinned(text, "compose", "a[0][1]") == text.replace("'y'", f"'{TEXT}'")
    assert pinned(text, "compose", "a[1]") == text.replace("-\n", f"- {TEXT}\n", 1)
    assert pinned(text, "compose", "a[2][0]") == text.replace("z", TEXT)


def test_an_anchor_is_kept_and_its_aliases_are_named() -> None:
    text = "a: &img 'old'\nb: *img\nc: [*img, old]\n"
    value = find(text.encode(), "compose", "a", "f")
    assert value.notes == ("a is anchored: what the aliases in lines 2, 3 bring changes with it",)
    assert pinned(text, "compose", "a") == text.replace("'old'", f"'{TEXT}'")


def test_an_anchor_above_counts_too() -> None:
    text = "x: &c\n  image: old\ns:\n  a: {<<: *c}\n  b: *c\n"
    assert find(text.encode(), "compose", "x.image", "f").notes == (
        "x.image is anchored: what the aliases in lines 4, 5 bring changes with it",
    )
    assert pinned(text, "compose", "x.image") == text.replace("old", TEXT)


def test_a_value_beside_a_merge_key_is_its_own() -> None:
    text = "x: &c {image: old}\ns: {<<: *c, image: mine}\n"
    assert pinned(text, "compose", "s.image") == text.replace("mine", TEXT)
    assert find(text.encode(), "compose", "s.image", "f").notes == ()


def test_what_find_returns() -> None:
    value = find("é: 1\nimage: 'old'\n".encode(), "compose", "image", "f")
    assert (value.text, value.start, value.end) == ("old", 14, 17)
    assert (value.style, value.line, value.notes) == ("single", 2, ())


def test_a_list_within_itself() -> None:
    text = "a: &a [*a, 1]\nimage: old\n"
    assert pinned(text, "compose", "image") == text.replace("old", TEXT)


KUBERNETES = """\
apiVersion: v1
kind: Service
metadata: {name: vllm}
spec:
  ports:
    - port: 8000
---
# the server
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
  namespace: prod
spec:
  template:
    spec:
      initContainers:
        - name: warm
          image: old/warm:1
      containers:
        - image: "old/vllm:1"  # the name may come after
          name: vllm
        - name: sidecar
          image: old/side:1
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
  namespace: test
spec: {template: {spec: {containers: [{name: vllm, image: old/test:1}]}}}
---
apiVersion: v1
kind: List
items:
- kind: Pod
  metadata: {name: one}
  spec:
    containers:
    - {name: a, image: old/pod:1}
"""


@pytest.mark.parametrize(
    ("at", "old"),
    [
        ("Deployment/prod/vllm:spec.template.spec.containers[name=vllm].image", "old/vllm:1"),
        ("Deployment/prod/vllm:spec.template.spec.containers[name=sidecar].image", "old/side:1"),
        ("Deployment/prod/vllm:spec.template.spec.initContainers[name=warm].image", "old/warm:1"),
        ("Deployment/test/vllm:spec.template.spec.containers[name=vllm].image", "old/test:1"),
        ("Pod/one:spec.containers[name=a].image", "old/pod:1"),
    ],
)
def test_kubernetes(at: str, old: str) -> None:
    assert current_of(KUBERNETES, "kubernetes", at) == old
    assert pinned(KUBERNETES, "kubernetes", at) == KUBERNETES.replace(old, TEXT)


def test_an_object_that_one_document_is_needs_no_namespace() -> None:
    at = "Service/vllm:metadata.name"
    assert pinned(KUBERNETES, "kubernetes", at).startswith(
        f"apiVersion: v1\nkind: Service\nmetadata: {{name: {TEXT}}}\n"
    )
