"""A place and a release's image -> the values that are to be written there, by kind of file.

Most kinds name an image with one text. Two have images in parts:

- kustomize, an entry of `images` ("ImageTagTransformer" in its reference): `newName`, `newTag`,
  `digest`. It always reads them, so a missing one is inserted.
- helm, by the custom of charts: a text, or a mapping of `repository`, `tag`, `digest`, with
  `registry` at times. A chart need not read what others do, so nothing is inserted; a chart
  without `digest` gets it after the tag, `v14@sha256:...`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from ..oci.reference import Reference
from .nodes import Map, Node, Scalar, describe
from .pinned import Form, Pinned
from .source import Source
from .walk import Spot, child

__all__ = ["Setting", "parts", "read", "settings"]

_KUSTOMIZE = ("newName", "newTag", "digest")
_HELM = ("registry", "repository", "tag", "digest")


@dataclass(frozen=True, slots=True)
class Setting:
    """`text` becomes the value of `key`; without a key, the value at the place itself."""

    key: str | None
    text: str


def parts(source: Source, kind: str, spot: Spot, at: str) -> dict[str | None, Spot]:
    """Return the values that name the image, by key, in the order of a reference.

    Raises:
        InputError: what is there names no image in this kind of file.
    """
    if kind == "kustomize":
        return _of_map(source, spot, at, _KUSTOMIZE, "name")
    if kind == "helm" and not isinstance(spot.node, Scalar):
        return _of_map(source, spot, at, _HELM, "repository")
    return {None: spot}


def _of_map(
    source: Source, spot: Spot, at: str, keys: tuple[str, ...], needed: str
) -> dict[str | None, Spot]:
    node = spot.node
    others = ", ".join(key for key in keys if key != needed)
    if not isinstance(node, Map):
        raise InputError.of(
            f"{at} names no image",
            where=source.where(node.start, at),
            expected=f"a mapping of {needed}, {others}",
            found=describe(node),
        )
    if child(source, spot, needed, at) is None:
        raise InputError.of(
            f"{at} has no key {needed!r}",
            where=source.where(node.start, at),
            expected=f"a mapping of {needed}, {others}",
            found=f"the keys {_keys(node)}" if node.entries else "no key",
        )
    found = {key: child(source, spot, key, at) for key in keys}
    return {key: below for key, below in found.items() if below is not None}


def _keys(node: Map) -> str:
    return ", ".join(entry.text or "?" for entry in node.entries)


def read(kind: str, node: Node, found: dict[str | None, str]) -> str:
    """Return the image that values name, as one reference."""
    if None in found:
        return found[None]
    if kind == "kustomize":
        assert isinstance(node, Map)
        name, tag = found.get("newName") or node.text("name") or "", found.get("newTag")
    else:
        name, tag = found["repository"], found.get("tag")
        name = f"{found['registry']}/{name}" if found.get("registry") else name
    digest = found.get("digest")
    return name + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")


def settings(
    source: Source, kind: str, node: Node, *, at: str, new: Pinned, form: Form
) -> list[Setting]:
    """Return what is to be written at a place that `parts` accepts.

    Raises:
        InputError: the release or the place has no room for the form.
    """
    if not isinstance(node, Map):
        return [Setting(None, new.text(form))]
    if form == "image-id":
        raise InputError.of(
            f"an image id cannot be written in parts, as a {kind} file has them",
            where=source.where(node.start, at),
            fix='set form = "tag+digest" or "digest"',
        )
    new.text(form)  # refuses what the release lacks
    if kind == "kustomize":
        return _kustomize(source, node, at, new, form)
    return _helm(source, node, at, new, form)


def _kustomize(source: Source, node: Map, at: str, new: Pinned, form: Form) -> list[Setting]:
    found: list[Setting] = []
    if node.get("newName") is not None or node.text("name") != new.repository:
        found.append(Setting("newName", new.repository))
    if form == "tag+digest":
        found.append(Setting("newTag", new.needed_tag()))
    else:
        _refuse_tag(source, node, at, "newTag")
    return [*found, Setting("digest", str(new.digest))]


def _helm(source: Source, node: Map, at: str, new: Pinned, form: Form) -> list[Setting]:
    found = [Setting("repository", new.repository)]
    if node.get("registry") is not None:
        reference = Reference.parse(new.repository)
        found = [Setting("registry", reference.domain), Setting("repository", reference.path)]
    has_digest = node.get("digest") is not None
    if form == "digest":
        _refuse_tag(source, node, at, "tag")
    else:
        if node.get("tag") is None:
            raise _no_key(source, node, at, "tag", form)
        tag = new.needed_tag()
        found.append(Setting("tag", tag if has_digest else f"{tag}@{new.digest}"))
    if has_digest:
        return [*found, Setting("digest", str(new.digest))]
    if form == "digest":
        raise _no_key(source, node, at, "digest", form)
    return found


def _refuse_tag(source: Source, node: Map, at: str, key: str) -> None:
    if node.text(key):
        entry = node.get(key)
        raise InputError.of(
            f'the form "digest" leaves no room for {key}',
            where=source.where(entry.start if entry else node.start, f"{at}.{key}"),
            found=f"{key} {node.text(key)!r}, which would stay beside the new digest",
            fix=f'set form = "tag+digest", or remove {key}',
        )


def _no_key(source: Source, node: Map, at: str, key: str, form: Form) -> InputError:
    other = "tag+digest" if form == "digest" else "digest"
    return InputError.of(
        f"{at} has no key {key!r}",
        where=source.where(node.start, at),
        expected=f'what the form "{form}" is written to',
        found=f"the keys {_keys(node)}",
        fix=f'add {key}: "" if the chart reads it, or set form = "{other}"',
    )
