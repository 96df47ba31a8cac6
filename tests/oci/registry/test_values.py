"""Headers, locations, proxies, waits and error bodies, as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.errors import UnreachableError
from composer.oci.registry.backoff import Patience, Policy, retry_after
from composer.oci.registry.challenge import Challenge, parse_challenges, pick
from composer.oci.registry.complaint import Complaint, redact
from composer.oci.registry.location import Endpoint, Origin, resolve, shown
from composer.oci.registry.proxies import proxy_for
from tests.oci.support import properties

from .conftest import FakeTime

HUB = 'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="a:b:pull"'


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            HUB,
            [
                (
                    "bearer",
                    {
                        "realm": "https://auth.docker.io/token",
                        "service": "registry.docker.io",
                        "scope": "a:b:pull",
                    },
                )
            ],
        ),
        ('Basic realm="a, b"', [("basic", {"realm": "a, b"})]),
        (r'BASIC Realm = "say \"hi\""', [("basic", {"realm": 'say "hi"'})]),
        ("Negotiate, Basic realm=x", [("negotiate", {}), ("basic", {"realm": "x"})]),
        (
            'Basic realm="x", Bearer realm="https://y", service=z',
            [("basic", {"realm": "x"}), ("bearer", {"realm": "https://y", "service": "z"})],
        ),
        ("", []),
        ('=,"', []),
    ],
)
def test_challenges(header: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    found = [(one.scheme, one.parameters) for one in parse_challenges([header])]
    assert found == expected


def test_bearer_is_preferred_but_not_without_a_realm() -> None:
    basic, bearer = Challenge("basic"), Challenge("bearer", {"realm": "https://a/t"})
    assert pick([basic, bearer]) == bearer
    assert pick([Challenge("bearer"), basic]) == basic
    assert pick([Challenge("negotiate")]) is None


@given(st.text())
@properties(200)
def test_any_header_is_survived(text: str) -> None:
    parse_challenges([text])
    Complaint.parse(400, {}, text.encode("utf-8", "replace"))
    retry_after(text, 0.0)


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("docker.io", "https://registry-1.docker.io"),
        ("ghcr.io", "https://ghcr.io"),
        ("ghcr.io:8443", "https://ghcr.io:8443"),
        ("localhost:5000", "http://localhost:5000"),
        ("localhost", "http://localhost"),
        ("localhost:443", "https://localhost"),
        ("127.8.9.1:5000", "http://127.8.9.1:5000"),
        ("[::1]:5000", "http://[::1]:5000"),
        ("10.0.0.1:5000", "https://10.0.0.1:5000"),
        ("lab:5000", "http://lab:5000"),
        ("lab", "https://lab"),
        ("localhost.example.com:5000", "https://localhost.example.com:5000"),
    ],
)
def test_where_a_registry_is_spoken_to(domain: str, expected: str) -> None:
    assert str(Endpoint.of(domain, {"lab:5000"}).origin) == expected


def test_certificates_for_a_loopback_registry_mean_tls() -> None:
    assert str(Endpoint.of("localhost:5000", tls=True).origin) == "https://localhost:5000"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/v2/a/blobs/uploads/1?_state=x%3D", "https://r.io/v2/a/blobs/uploads/1?_state=x%3D"),
        ("1?x=1", "https://r.io/v2/a/blobs/uploads/1?x=1"),
        ("https://cdn.io/b?sig=1", "https://cdn.io/b?sig=1"),
        ("http://r.io/v2/b?q=1", "https://r.io/v2/b?q=1"),  # a proxy in front ends TLS
        ("//r.io/v2/b", "https://r.io/v2/b"),
        ("http://lab:5000/x", "http://lab:5000/x"),
    ],
)
def test_locations(location: str, expected: str) -> None:
    endpoint = Endpoint.of("r.io", {"lab:5000"})
    assert resolve(endpoint, "https://r.io/v2/a/blobs/uploads/", location) == expected


@pytest.mark.parametrize("location", ["http://cdn.io/x?sig=h1dden", "ftp://r.io/x", "http://[x"])
def test_a_location_that_gives_up_tls_is_refused(location: str) -> None:
    with pytest.raises(UnreachableError, match="cannot be used") as caught:
        resolve(Endpoint.of("r.io"), "https://r.io/v2/", location)
    assert "h1dden" not in str(caught.value)


def test_what_is_shown_of_a_url() -> None:
    assert shown("https://me:pw@r.io:1/a?sig=1#x") == "https://r.io:1/a"


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("https://r.io", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://r.io", {"https_proxy": "p:1"}, "http://p:1"),
        ("http://r.io", {"HTTPS_PROXY": "http://p:1"}, None),
        ("http://r.io", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),
        ("http://r.io", {"http_proxy": "http://p:1", "REQUEST_METHOD": "GET"}, "http://p:1"),
        ("http://127.0.0.1:5000", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://r.io", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x, r.io"}, None),
        ("https://a.r.io", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "R.io"}, None),
        ("https://a.r.io", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".r.io"}, None),
        ("https://r.io", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".r.io"}, "http://p:1"),
        ("https://br.io", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "r.io"}, "http://p:1"),
        ("https://r.io:1", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "r.io:2"}, "http://p:1"),
        ("https://r.io:2", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "r.io:2"}, None),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://[fd00::1]", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "fd00::1"}, None),
        ("https://r.io", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
    ],
)
def test_proxies(url: str, environ: dict[str, str], expected: str | None) -> None:
    assert proxy_for(Origin.of(url), environ) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0),
        ("Tue, 14 Nov 2023 22:13:10 GMT", 0.0),
        ("soon", None),
        ("-3", None),
    ],
)
def test_retry_after(header: str | None, expected: float | None) -> None:
    assert retry_after(header, 1_700_000_000.0) == expected


def test_waits_grow_and_end() -> None:
    time = FakeTime()
    patience = Patience(Policy(attempts=8, first=1.0, longest=10.0), time.clock())
    while patience.wait():
        pass
    assert time.slept == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


def test_waits_are_bounded_in_all() -> None:
    time = FakeTime()
    patience = Patience(Policy(total=10.0), time.clock())
    assert patience.wait(6.0)
    assert not patience.wait(6.0)
    assert time.slept == [6.125]


def test_no_wait_for_what_never_connected_lasts_long() -> None:
    time = FakeTime()
    patience = Patience(Policy(), time.clock())
    assert [patience.wait(unconnected=True) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            b'{"errors":[{"code":"DENIED","message":"no","detail":{"a":1}},{"code":"X"}]}',
            'HTTP 403: DENIED: no ({"a": 1}); X',
        ),
        (b'{"errors":[]}', 'HTTP 403: {"errors":[]}'),
        (b"plain\nwords\x1b[31m", "HTTP 403: plain words [31m"),
        (b"", "HTTP 403"),
        (b"x" * 1000, f"HTTP 403: {'x' * 300}…"),
        (b'{"errors":[{"message":"sent Basic YW5uOnBhc3M="}]}', "HTTP 403: sent Basic ***"),
    ],
)
def test_complaints(body: bytes, expected: str) -> None:
    assert str(Complaint.parse(403, {}, body)) == expected


def test_a_web_page_is_not_quoted() -> None:
    page = Complaint.parse(502, {"Content-Type": "text/html; charset=utf-8"}, b"<html>no</html>")
    assert str(page) == "HTTP 502"


@pytest.mark.parametrize(
    "text",
    [
        "Bearer h1dden.secret",
        '{"token": "h1dden"}',
        "refresh_token=h1dden&x=1",
        "password: h1dden",
        "https://s3/b?X-Amz-Signature=h1dden",
        "see https://me:h1dden@r.io/x",
        "https://s3/b#h1dden",
    ],
)
def test_secrets_are_taken_out(text: str) -> None:
    assert "h1dden" not in redact(text)


def test_words_about_authentication_stay() -> None:
    assert redact("Bearer authentication required") == "Bearer authentication required"
