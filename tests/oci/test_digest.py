"""Digests: the grammar of the image spec, for the two algorithms that are taken."""

from __future__ import annotations

import hashlib
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.oci.digest import Digest, sha256

from .support import needs, properties

EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_sha256_of_known_bytes() -> None:
    assert str(sha256(b"")) == EMPTY
    assert (
        str(sha256(memoryview(b"xabc")[1:]))
        == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


@needs("sha256sum")
def test_sha256_is_what_sha256sum_says() -> None:
    data = bytes(range(256)) * 1000
    found = subprocess.run(["sha256sum"], input=data, capture_output=True, check=True).stdout
    assert sha256(data).hex == found.decode().split()[0]


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_parse_and_print_are_each_others_inverse(algorithm: str) -> None:
    text = f"{algorithm}:{hashlib.new(algorithm, b'x').hexdigest()}"
    parsed = Digest.parse(text)
    assert str(parsed) == text
    assert (parsed.algorithm, parsed.hex) == tuple(text.split(":"))
    assert text.partition(":")[2].startswith(parsed.short)
    assert len(parsed.short) == 12


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' is not a digest"),
        (EMPTY.removeprefix("sha256:"), "is not a digest, such as sha256:<64 hex digits>"),
        (EMPTY[:-1], "is not 64 lower-case hex digits"),
        (EMPTY + "0", "is not 64 lower-case hex digits"),
        (EMPTY + "\n", "is not 64 lower-case hex digits"),
        (EMPTY[:-1] + "\n", "is not 64 lower-case hex digits"),
        (EMPTY[:-1] + "g", "is not 64 lower-case hex digits"),
        ("sha256:" + EMPTY[7:].upper(), "is not 64 lower-case hex digits"),
        ("sha512:" + EMPTY[7:], "is not 128 lower-case hex digits"),
        ("sha256:../" + "0" * 61, "is not 64 lower-case hex digits"),
        ("md5:d41d8cd98f00b204e9800998ecf8427e", "algorithm 'md5' is none of sha256, sha512"),
        ("SHA256:" + EMPTY[7:], "algorithm 'SHA256' is none of"),
        (":" + EMPTY[7:], "algorithm '' is none of"),
        ("sha256:" + "٣" * 64, "is not 64 lower-case hex digits"),
    ],
)
def test_what_is_no_digest_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        Digest.parse(text)


@properties(200)
@given(st.text(max_size=80))
def test_a_text_is_refused_or_kept(text: str) -> None:
    try:
        parsed = Digest.parse(text)
    except ValueError:
        return
    assert str(parsed) == text


def test_digests_sort_by_their_text() -> None:
    digests = [sha256(bytes([number])) for number in range(20)]
    assert [str(one) for one in sorted(digests)] == sorted(str(one) for one in digests)
