"""A release's image, and short ways to pin it."""

from __future__ import annotations

import pytest

from composer.errors import InputError
from composer.oci.digest import Digest
from composer.pinning.pin import find, replace
from composer.pinning.pinned import Form, Pinned
from composer.pinning.place import Kind

HEX = "5e" * 32
DIGEST = f"sha256:{HEX}"
IMAGE_ID = "sha256:" + "1d" * 32
REPOSITORY = "registry.example/glm53"
NEW = Pinned(REPOSITORY, "v14", Digest.parse(DIGEST), Digest.parse(IMAGE_ID))
TEXT = f"{REPOSITORY}:v14@{DIGEST}"


def pin(
    text: str | bytes, kind: Kind, at: str, *, form: Form = "tag+digest", new: Pinned = NEW
) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return replace(raw, kind, at, new, form=form, shown="deploy/file")


def pinned(text: str, kind: Kind, at: str, *, form: Form = "tag+digest", new: Pinned = NEW) -> str:
    return pin(text, kind, at, form=form, new=new).decode()


def current_of(text: str, kind: Kind, at: str) -> str:
    return find(text.encode(), kind, at, "deploy/file").text


def refused(
    text: str | bytes, kind: Kind, at: str, *, form: Form = "tag+digest", new: Pinned = NEW
) -> str:
    with pytest.raises(InputError) as caught:
        pin(text, kind, at, form=form, new=new)
    return str(caught.value)
