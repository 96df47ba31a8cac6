"""Images in parts: kustomize's entries, Helm's mappings."""

from __future__ import annotations

import pytest

from composer.errors import InputError
from composer.oci.digest import Digest
from composer.pinning.pin import find
from composer.pinning.pinned import Pinned
from tests.pinning.support import DIGEST, NEW, REPOSITORY, TEXT, current_of, pinned, refused

KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - deployment.yaml
images:
  # the server
  - name: vllm/vllm-openai
    newName: mirror.example/vllm   # mirror
    newTag: "v0.28.0"
    digest: 'sha256:old'
  - name: 'busybox'   # a tool

  - name: nginx
    newTag: 1.27-alpine
patches: []
"""
VLLM = "images[name=vllm/vllm-openai]"


def test_kustomize_changes_values_only() -> None:
    expected = (
        KUSTOMIZATION.replace("mirror.example/vllm ", f"{REPOSITORY} ")
        .replace('"v0.28.0"', '"v14"')
        .replace("'sha256:old'", f"'{DIGEST}'")
    )
    assert pinned(KUSTOMIZATION, "kustomize", VLLM) == expected
    assert current_of(KUSTOMIZATION, "kustomize", VLLM) == "mirror.example/vllm:v0.28.0@sha256:old"
    assert current_of(expected, "kustomize", VLLM) == TEXT


def test_kustomize_adds_lines_like_their_neighbours() -> None:
    expected = KUSTOMIZATION.replace(
        "  - name: 'busybox'   # a tool\n",
        "  - name: 'busybox'   # a tool\n"
        f"    newName: '{REPOSITORY}'\n    newTag: 'v14'\n    digest: '{DIGEST}'\n",
    )
    assert pinned(KUSTOMIZATION, "kustomize", "images[name=busybox]") == expected
    assert current_of(KUSTOMIZATION, "kustomize", "images[name=busybox]") == "busybox"


def test_kustomize_adds_between_and_after() -> None:
    expected = KUSTOMIZATION.replace(
        "  - name: nginx\n    newTag: 1.27-alpine\n",
        f"  - name: nginx\n    newName: {REPOSITORY}\n    newTag: v14\n    digest: {DIGEST}\n",
    )
    assert pinned(KUSTOMIZATION, "kustomize", "images[name=nginx]") == expected


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_kustomize_at_the_end_of_a_file(end: str) -> None:
    text = f"images:{end}- name: a"
    added = f"{end}  newName: {REPOSITORY}{end}  digest: {DIGEST}"
    assert pinned(text, "kustomize", "images[0]", form="digest") == text + added


@pytest.mark.parametrize("rest", ["", "   # none"])
def test_kustomize_fills_what_is_empty(rest: str) -> None:
    text = f"images:\n- name: a\n  newTag:{rest}\nb: 1\n"
    assert pinned(text, "kustomize", "images[0]") == (
        f"images:\n- name: a\n  newName: {REPOSITORY}\n  newTag: v14{rest}\n"
        f"  digest: {DIGEST}\nb: 1\n"
    )


def test_kustomize_keeps_a_name_that_is_the_repository() -> None:
    text = f"images:\n- name: {REPOSITORY}\n  newTag: v13\n"
    expected = f"images:\n- name: {REPOSITORY}\n  newTag: v14\n  digest: {DIGEST}\n"
    assert pinned(text, "kustomize", "images[0]") == expected


def test_kustomize_in_one_line() -> None:
    text = "images: [{name: a, newName: b, newTag: c, digest: ''}]\n"
    expected = f"images: [{{name: a, newName: {REPOSITORY}, newTag: v14, digest: '{DIGEST}'}}]\n"
    assert pinned(text, "kustomize", "images[name=a]") == expected


def test_kustomize_pins_twice_the_same() -> None:
    once = pinned(KUSTOMIZATION, "kustomize", "images[name=busybox]")
    assert pinned(once, "kustomize", "images[name=busybox]") == once


@pytest.mark.parametrize("tag", ["14", "1.0", "1e3", "0o14", "true", "No", "null", "y", "_1", "a"])
def test_a_tag_stays_text(tag: str) -> None:
    new = Pinned(REPOSITORY, tag, Digest.parse(DIGEST))
    written = tag if tag == "a" else f'"{tag}"'
    text = "images:\n- name: a\n  newTag: old\n"
    result = pinned(text, "kustomize", "images[0]", new=new)
    assert f"  newTag: {written}\n" in result


def test_a_repository_in_brackets_is_quoted() -> None:
    new = Pinned("[::1]:5000/a", "v14", Digest.parse(DIGEST))
    assert pinned("image: old", "helm", "image", new=new) == f'image: "[::1]:5000/a:v14@{DIGEST}"'


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        ("{name: a, newTag: b}", "there is no images[0].newName, and no line to add it below"),
        ("{\n    name: a\n  }", "there is no images[0].newName, and no line to add it below"),
        ("name: b\n\r- name: a", "there is no images[1].newName, and no line to add it below"),
        ("\n  ? name\n  : a\n  ? newTag\n  : b", "there is no images[0].newName, and no line"),
        ("\n    name: a\n     more", "there is no images[0].newName, and no line to add it below"),
    ],
)
def test_kustomize_adds_only_where_a_line_has_a_key(entry: str, parts: str) -> None:
    at = "images[1]" if "\r" in entry else "images[0]"
    message = refused(f"images:\n- {entry}\n", "kustomize", at)
    assert message.startswith(parts)
    assert 'fix:      add newName: "" yourself' in message


def test_kustomize_refusals() -> None:
    text = "images:\n- name: a\n  newTag: b\n- newTag: c\n- d\n"
    assert refused(text, "kustomize", "images[0]", form="digest") == (
        'the form "digest" leaves no room for newTag\n'
        "  where:    deploy/file:3 images[0].newTag\n"
        "  found:    newTag 'b', which would stay beside the new digest\n"
        '  fix:      set form = "tag+digest", or remove newTag'
    )
    assert "an image id cannot be written in parts" in refused(
        text, "kustomize", "images[0]", form="image-id"
    )
    assert refused(text, "kustomize", "images[1]") == (
        "images[1] has no key 'name'\n"
        "  where:    deploy/file:4 images[1]\n"
        "  expected: a mapping of name, newName, newTag, digest\n"
        "  found:    the keys newTag"
    )
    assert "images[2] names no image" in refused(text, "kustomize", "images[2]")


VALUES = """\
# values of the chart
replicaCount: 2
image:
  registry: docker.io
  repository: vllm/vllm-openai   # upstream
  tag: "v0.28.0"
  digest: ""
  pullPolicy: IfNotPresent
sidecar:
  image:
    repository: 'old/side'
    tag: 'v1'
init:
  image: old/init:1
bare: &b
  repository: x
  tag:
copy: *b
"""


def test_helm_mapping() -> None:
    expected = (
        VALUES.replace("docker.io", "registry.example")
        .replace("vllm/vllm-openai ", "glm53 ")
        .replace('"v0.28.0"', '"v14"')
        .replace('digest: ""', f'digest: "{DIGEST}"')
    )
    assert pinned(VALUES, "helm", "image") == expected
    assert current_of(VALUES, "helm", "image") == "docker.io/vllm/vllm-openai:v0.28.0"
    assert current_of(expected, "helm", "image") == TEXT


def test_helm_without_a_digest() -> None:
    expected = VALUES.replace("'old/side'", f"'{REPOSITORY}'").replace("'v1'", f"'v14@{DIGEST}'")
    assert pinned(VALUES, "helm", "sidecar.image") == expected
    assert current_of(expected, "helm", "sidecar.image") == TEXT


def test_helm_text() -> None:
    assert pinned(VALUES, "helm", "init.image") == VALUES.replace("old/init:1", TEXT)


def test_helm_empty_and_shared() -> None:
    expected = VALUES.replace(
        "repository: x\n  tag:", f"repository: {REPOSITORY}\n  tag: v14@{DIGEST}"
    )
    assert pinned(VALUES, "helm", "bare") == expected
    assert find(VALUES.encode(), "helm", "bare", "f").notes == (
        "bare is anchored: what the aliases in line 18 bring changes with it",
    )


def test_helm_digest_alone() -> None:
    text = "image: {repository: a, digest: b, tag: ''}\n"
    expected = f"image: {{repository: {REPOSITORY}, digest: {DIGEST}, tag: ''}}\n"
    assert pinned(text, "helm", "image", form="digest") == expected


def test_helm_refusals() -> None:
    assert "leaves no room for tag\n  where:    deploy/file:6 image.tag" in refused(
        VALUES, "helm", "image", form="digest"
    )
    assert refused("image: {repository: a}", "helm", "image") == (
        "image has no key 'tag'\n"
        "  where:    deploy/file:1 image\n"
        '  expected: what the form "tag+digest" is written to\n'
        "  found:    the keys repository\n"
        '  fix:      add tag: "" if the chart reads it, or set form = "digest"'
    )
    assert "image has no key 'digest'" in refused(
        "image: {repository: a}", "helm", "image", form="digest"
    )
    assert "image has no key 'repository'" in refused("image: {name: a}", "helm", "image")
    assert "image names no image" in refused("image: [a]", "helm", "image")
    assert "image.tag is not text" in refused("image: {repository: a, tag: 1.0}", "helm", "image")
    assert "image.tag is an alias" in refused(
        "t: &t v1\nimage: {repository: a, tag: *t}", "helm", "image"
    )
    assert "image.repository comes through the merge key" in refused(
        "t: &t {repository: a}\nimage: {<<: *t, tag: v1}", "helm", "image"
    )


def test_a_form_needs_its_parts() -> None:
    bare = Pinned(REPOSITORY, None, NEW.digest)
    assert 'the form "tag+digest" needs a tag' in refused("a: b", "helm", "a", new=bare)
    assert 'the form "image-id" needs the image id' in refused(
        "a: b", "helm", "a", new=bare, form="image-id"
    )
    assert pinned("a: b", "helm", "a", new=bare, form="digest") == f"a: {REPOSITORY}@{DIGEST}"
    with pytest.raises(InputError, match="unknown form 'tag'"):
        NEW.text("tag")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("repository", "tag", "message"),
    [
        ("a/b:c", None, "'a/b:c' is a reference, not a repository"),
        ("A b", None, "is not a repository name"),
        ("a/b", "-x", "'-x' is not a tag"),
        ("a/b", "x y", "'x y' is not a tag"),
    ],
)
def test_what_is_no_image(repository: str, tag: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pinned(repository, tag, NEW.digest)
