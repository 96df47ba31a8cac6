"""Platforms: their spellings, and the variants that mean the same as none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.oci.platform import Platform

from .support import properties


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("linux/amd64", Platform("linux", "amd64")),
        ("linux/amd64/v1", Platform("linux", "amd64")),
        ("linux/amd64/v3", Platform("linux", "amd64", "v3")),
        ("linux/arm64", Platform("linux", "arm64")),
        ("linux/arm64/v8", Platform("linux", "arm64")),
        ("linux/arm64/v9", Platform("linux", "arm64", "v9")),
        ("linux/arm/v7", Platform("linux", "arm")),
        ("linux/arm/v6", Platform("linux", "arm", "v6")),
        ("linux/ppc64le", Platform("linux", "ppc64le")),
    ],
)
def test_parse(text: str, platform: Platform) -> None:
    assert Platform.parse(text) == platform
    assert Platform.parse(str(platform)) == platform


@pytest.mark.parametrize(
    "text",
    [
        "",
        "linux",
        "linux/",
        "/amd64",
        "linux/amd64/",
        "linux//v8",
        "a/b/c/d",
        "Linux/amd64",
        "linux/amd 64",
        "linux/amd64\n",
    ],
)
def test_what_is_no_platform_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a platform, such as linux/amd64") as caught:
        Platform.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"os": "linux", "architecture": "amd64"}, "linux/amd64"),
        ({"os": "linux", "architecture": "arm64", "variant": "v8"}, "linux/arm64"),
        ({"os": "linux", "architecture": "arm64", "variant": ""}, "linux/arm64"),
        # config.md: null is the same as absent
        ({"os": "linux", "architecture": "arm64", "variant": None}, "linux/arm64"),
        ({"os": "windows", "architecture": "amd64", "os.version": "10.0"}, "windows/amd64"),
        ({"os": "unknown", "architecture": "unknown"}, "unknown/unknown"),
        ({}, ""),
    ],
)
def test_of_a_document(document: dict[str, object], text: str) -> None:
    assert str(Platform.of(document)) == text


def test_document_leaves_out_what_is_empty() -> None:
    assert Platform("linux", "amd64").document() == {"architecture": "amd64", "os": "linux"}
    assert Platform("linux", "arm", "v6").document() == {
        "architecture": "arm",
        "os": "linux",
        "variant": "v6",
    }


PARTS = st.from_regex(r"[a-z0-9._-]{1,6}", fullmatch=True)


@properties(200)
@given(PARTS, PARTS, st.just("") | PARTS)
def test_text_and_document_say_the_same(os: str, architecture: str, variant: str) -> None:
    platform = Platform(os, architecture, variant).normalised()
    assert Platform.parse(str(platform)) == platform
    assert Platform.of(platform.document()) == platform
