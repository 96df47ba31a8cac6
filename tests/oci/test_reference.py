"""References: what people write, what docker makes of it, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from composer.oci.digest import Digest, sha256
from composer.oci.reference import Reference, is_tag

from .support import properties

DIGEST = sha256(b"")
ID = "4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1"


@pytest.mark.parametrize(
    ("written", "domain", "path", "tag", "familiar"),
    [
        # written, registry, repository, tag, what docker shows
        ("ubuntu", "docker.io", "library/ubuntu", None, "ubuntu"),
        ("ubuntu:24.04", "docker.io", "library/ubuntu", "24.04", "ubuntu:24.04"),
        ("library/ubuntu", "docker.io", "library/ubuntu", None, "ubuntu"),
        ("docker.io/ubuntu", "docker.io", "library/ubuntu", None, "ubuntu"),
        ("index.docker.io/ubuntu", "docker.io", "library/ubuntu", None, "ubuntu"),
        ("index.docker.io/a/b", "docker.io", "a/b", None, "a/b"),
        ("vllm/vllm-openai:v0.28.0", "docker.io", "vllm/vllm-openai", "v0.28.0", None),
        ("docker.io/vllm/vllm-openai", "docker.io", "vllm/vllm-openai", None, "vllm/vllm-openai"),
        ("library/a/b", "docker.io", "library/a/b", None, "library/a/b"),
        ("a/b/c/d", "docker.io", "a/b/c/d", None, "a/b/c/d"),
        ("other/library", "docker.io", "other/library", None, "other/library"),
        # no slash: a name of docker.io, whatever it looks like
        ("localhost", "docker.io", "library/localhost", None, "localhost"),
        ("localhost:5000", "docker.io", "library/localhost", "5000", "localhost:5000"),
        ("ghcr.io", "docker.io", "library/ghcr.io", None, "ghcr.io"),
        ("10.0.0.1:80", "docker.io", "library/10.0.0.1", "80", "10.0.0.1:80"),
        # a dot, a colon, `localhost` or an upper-case letter make a registry of the first part
        ("localhost/app", "localhost", "app", None, None),
        ("localhost:5000/app", "localhost:5000", "app", None, None),
        ("localhost:5000/app:v1", "localhost:5000", "app", "v1", None),
        ("ghcr.io/a/b:c", "ghcr.io", "a/b", "c", None),
        ("registry.example/app", "registry.example", "app", None, None),
        ("Registry/app", "Registry", "app", None, None),
        ("registry/app", "docker.io", "registry/app", None, None),
        ("10.0.0.1:5000/a/b", "10.0.0.1:5000", "a/b", None, None),
        ("[fd00::1]:5000/a/b:c", "[fd00::1]:5000", "a/b", "c", None),
        ("[fd00::1]/a", "[fd00::1]", "a", None, None),
        ("ghcr.io/library/a", "ghcr.io", "library/a", None, None),
        ("my-registry.example:443/x", "my-registry.example:443", "x", None, None),
        # separators inside a component: one dot, one or two underscores, any dashes
        ("a.b/c__d-e---f_g", "a.b", "c__d-e---f_g", None, None),
        # 64 hex digits are an ID only where nothing else stands beside them
        (f"docker.io/{ID}", "docker.io", f"library/{ID}", None, f"docker.io/library/{ID}"),
        (f"{ID}:v1", "docker.io", f"library/{ID}", "v1", f"docker.io/library/{ID}:v1"),
        (f"{ID[:-1]}", "docker.io", f"library/{ID[:-1]}", None, ID[:-1]),
        # the short spelling would name another registry
        ("docker.io/ghcr.io/a", "docker.io", "ghcr.io/a", None, "docker.io/ghcr.io/a"),
        ("docker.io/localhost/a", "docker.io", "localhost/a", None, "docker.io/localhost/a"),
    ],
)
def test_normalisation(
    written: str, domain: str, path: str, tag: str | None, familiar: str | None
) -> None:
    reference = Reference.parse(written)
    assert reference == Reference(domain, path, tag)
    assert reference.familiar == (familiar or written.removeprefix("docker.io/"))
    assert reference.repository == f"{domain}/{path}"


def test_a_tag_and_a_digest_are_both_kept() -> None:
    reference = Reference.parse(f"vllm/vllm-openai:v0.28.0@{DIGEST}")
    assert (reference.tag, reference.digest) == ("v0.28.0", DIGEST)
    assert str(reference) == f"docker.io/vllm/vllm-openai:v0.28.0@{DIGEST}"
    assert reference.familiar == f"vllm/vllm-openai:v0.28.0@{DIGEST}"


def test_with_tag_and_with_digest() -> None:
    reference = Reference.parse(f"ghcr.io/a:old@{DIGEST}")
    assert str(reference.with_tag("new")) == "ghcr.io/a:new"
    assert str(reference.with_tag(None)) == "ghcr.io/a"
    assert str(reference.with_digest(sha256(b"x"))) == f"ghcr.io/a:old@{sha256(b'x')}"
    assert str(reference.with_digest(None)) == "ghcr.io/a:old"


@pytest.mark.parametrize(
    ("written", "part"),
    [
        ("", "'' is not a repository name"),
        ("docker/Ubuntu", "'docker/Ubuntu' is not a repository name"),
        ("Ubuntu", "'Ubuntu' is not a repository name"),
        ("ghcr.io/", "'' is not a repository name"),
        ("ghcr.io/a/", "'a/' is not a repository name"),
        ("/a", "'/a' is not a repository name"),
        ("a//b", "'a//b' is not a repository name"),
        ("a/-b", "is not a repository name"),
        ("a-/b", "is not a repository name"),
        ("a/b..c", "is not a repository name"),
        ("a/b___c", "is not a repository name"),
        ("a/b_.c", "is not a repository name"),
        ("a b", "is not a repository name"),
        (" a", "is not a repository name"),
        ("a\n", "is not a repository name"),
        ("é/a", "is not a repository name"),
        ("https://ghcr.io/a", "'https:' is not a registry host"),
        ("fd00::1:5000/a", "'fd00::1:5000' is not a registry host"),
        ("[fd00::1%eth0]/a", "is not a registry host"),
        ("[fd00::1%eth0]:5000/a", "is not a registry host"),
        ("[::1]", "is not a repository name"),
        ("-ghcr.io/a", "'-ghcr.io' is not a registry host"),
        ("ghcr.io:port/a", "'ghcr.io:port' is not a registry host"),
        ("ghcr..io/a", "'ghcr..io' is not a registry host"),
        ("user@ghcr.io/a", "'ghcr.io/a' is not a digest"),
        ("a:", "'' is not a tag"),
        ("a:-x", "'-x' is not a tag"),
        ("a:.x", "'.x' is not a tag"),
        ("a:" + "x" * 129, "is not a tag"),
        ("a:é", "is not a tag"),
        ("a:v1\n", "is not a tag"),
        ("a:v1:v2", "is not a repository name"),
        ("a@", "'' is not a digest"),
        (f"a@{ID}", "is not a digest"),
        ("a@sha256:12", "is not 64 lower-case hex digits"),
        (f"a@{DIGEST}@{DIGEST}", "is not 64 lower-case hex digits"),
        (f"a@{DIGEST}:tag", "is not 64 lower-case hex digits"),
        (ID, "64 hex digits are an image ID, not a name"),
        ("ghcr.io/" + "a" * 256, "longer than 255 characters"),
    ],
)
def test_what_is_no_reference_is_refused(written: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(part)):
        Reference.parse(written)


def test_a_transport_is_the_callers_to_split_off() -> None:
    assert str(Reference.parse("oci:dir")) == "docker.io/library/oci:dir"


@pytest.mark.parametrize("tag", ["a", "_", "v1.2-3_4", "X" * 128, "latest"])
def test_tags(tag: str) -> None:
    assert is_tag(tag)


COMPONENTS = st.from_regex(r"[a-z0-9]{1,4}((\.|_|__|-{1,3})[a-z0-9]{1,3}){0,2}", fullmatch=True)
DOMAINS = st.sampled_from(["docker.io", "localhost", "ghcr.io", "r:5000", "[::1]:80", "Host"])
DOMAINS |= st.from_regex(r"[a-z][a-z0-9]{0,4}\.[a-z]{2,3}(:[1-9][0-9]{0,3})?", fullmatch=True)
TAGS = st.none() | st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
DIGESTS = st.none() | st.binary(max_size=4).map(sha256)


@properties(300)
@given(DOMAINS, st.lists(COMPONENTS, min_size=1, max_size=4), TAGS, DIGESTS)
def test_what_is_printed_is_read_back(
    domain: str, components: list[str], tag: str | None, digest: Digest | None
) -> None:
    if domain == "docker.io" and len(components) == 1:
        components = ["library", *components]
    assume(domain != "index.docker.io")
    reference = Reference(domain, "/".join(components), tag, digest)
    assert Reference.parse(str(reference)) == reference
    assert Reference.parse(reference.familiar) == reference


@properties(300)
@given(st.text(alphabet="aZ0.:/@-_ []é\n", max_size=12))
def test_any_text_is_refused_or_settles_at_once(text: str) -> None:
    try:
        reference = Reference.parse(text)
    except ValueError:
        return
    assert Reference.parse(str(reference)) == reference
    assert Reference.parse(reference.familiar) == reference
