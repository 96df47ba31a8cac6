"""Busy registries, lost connections, proxies and certificates."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer.errors import InputError, UnreachableError
from composer.oci.reference import Reference
from composer.oci.registry.backoff import Policy
from composer.oci.registry.transport import BrokenError, Request, Transport
from tests.support.commands import ROOT
from tests.support.registry import Cut, Reply, Simulator

from .conftest import Client
from .content import Small

IMAGE = Small.make(b"layer")


@pytest.fixture
def stocked(sim: Simulator) -> Simulator:
    IMAGE.put_into(sim, "a/x", "v1")
    return sim


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_burst_of_refusals_is_sat_out(stocked: Simulator, client: Client, status: int) -> None:
    stocked.plan("GET", "/manifests/", Reply(status), times=3)
    client.source("a/x:v1").top()
    assert client.time.slept == [0.125, 0.25, 0.5]


@pytest.mark.parametrize("status", [400, 405, 501, 505])
def test_what_will_not_change_is_not_tried_again(
    stocked: Simulator, client: Client, status: int
) -> None:
    stocked.plan("GET", "/manifests/", Reply(status), times=9)
    with pytest.raises(UnreachableError, match=f"HTTP {status}"):
        client.source("a/x:v1").top()
    assert len(stocked.requests) == 1


@pytest.mark.parametrize(
    ("header", "slept"),
    [("7", 7.125), ("Tue, 14 Nov 2023 22:30:10 GMT", 10.125), ("nonsense", 0.125)],
)
def test_the_registry_says_when(
    stocked: Simulator, client: Client, header: str, slept: float
) -> None:
    stocked.plan("GET", "/manifests/", Reply(429, {"Retry-After": header}))
    client.source("a/x:v1").top()
    assert client.time.slept == [slept]


def test_a_wait_that_is_too_long_is_told(stocked: Simulator, client: Client) -> None:
    body = b'{"errors":[{"code":"TOOMANYREQUESTS","message":"pull rate limit"}]}'
    stocked.plan("GET", "/manifests/", Reply(429, {"Retry-After": "3600"}, body), times=9)
    with pytest.raises(UnreachableError, match="too many requests") as caught:
        client.source("a/x:v1").top()
    assert "TOOMANYREQUESTS: pull rate limit" in str(caught.value)
    assert "wait 3600 s" in str(caught.value)
    assert not client.time.slept


def test_a_registry_that_stays_busy(stocked: Simulator) -> None:
    client = Client.of(stocked.netloc, Policy(attempts=4))
    stocked.plan("GET", "/manifests/", Reply(503, body=b"<down>"), times=9)
    with pytest.raises(UnreachableError, match="HTTP 503: <down>"):
        client.source("a/x:v1").top()
    assert len(stocked.requests) == 4


def test_a_connection_that_breaks(stocked: Simulator, client: Client) -> None:
    stocked.plan("HEAD", "/manifests/", Cut(0))
    stocked.plan("GET", "/manifests/", Cut(0), times=2)
    client.source("a/x:v1").top()
    assert len(client.time.slept) == 2


def test_a_registry_that_is_silent(stocked: Simulator) -> None:
    stocked.delay = 0.5
    url = f"http://{stocked.netloc}/v2/a/x/manifests/v1"
    with pytest.raises(BrokenError, match=r"found: +timed out"):
        Transport({}).send(Request("GET", url, patience=0.05))


def test_nobody_there() -> None:
    client = Client.of("127.0.0.1:9")
    with pytest.raises(UnreachableError, match=r"127.0.0.1:9 cannot be reached") as caught:
        client.source("a/x:v1").top()
    assert "Connection refused" in str(caught.value)
    assert len(client.time.slept) == 2


def test_no_such_host() -> None:
    client = Client.of("registry.invalid")
    with pytest.raises(UnreachableError, match=r"registry.invalid cannot be reached"):
        client.source("a/x:v1").top()


def test_one_connection_serves_many_requests(stocked: Simulator, client: Client) -> None:
    source = client.source("a/x:v1")
    for _ in range(5):
        source.top()
    pools = client.registries._transport._pools
    assert [pool.num_connections for pool in pools.values()] == [1]


def test_nothing_is_imported_before_the_first_request() -> None:
    code = (
        "import sys; from composer.oci.registry import Registries; "
        "from composer.oci.reference import Reference; "
        "Registries.from_environment().source(Reference.parse('r.io/x')); "
        "print([one for one in ('urllib3', 'http.client', 'ssl') if one in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class _Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Proxy-Authorization")))
        self.send_response(407 if "refuse" in self.path else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def proxy() -> Iterator[tuple[str, type[_Proxy]]]:
    handler = type("Proxy", (_Proxy,), {"seen": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}", handler
        server.shutdown()
        thread.join()


def test_a_proxy_is_gone_through(proxy: tuple[str, type[_Proxy]]) -> None:
    netloc, handler = proxy
    environ = {"HTTP_PROXY": f"http://me:s3cret%21@{netloc}"}
    client = Client.of("lab.example:5000", environ=environ, plain=frozenset({"lab.example:5000"}))
    with pytest.raises(InputError, match="there is no image"):
        client.source("a/x:v1").top()
    assert handler.seen == [
        ("http://lab.example:5000/v2/a/x/manifests/v1", "Basic bWU6czNjcmV0IQ==")
    ]
    client = Client.of("r.example", environ={"HTTPS_PROXY": f"http://me:s3cret@{netloc}"})
    with pytest.raises(UnreachableError) as caught:  # this proxy knows no CONNECT
        client.source("a/x:v1").top()
    assert "s3cret" not in str(caught.value)


def test_a_proxy_of_another_kind() -> None:
    client = Client.of("r.example", environ={"HTTPS_PROXY": "socks5://me:s3cret@h:1"})
    with pytest.raises(InputError, match="not supported") as caught:
        client.source("a/x:v1").top()
    assert "socks5://h:1" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of localhost and its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(path), "-out", f"{path}.crt"]
    command = ["openssl", "req", "-x509", *curve, *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


@contextlib.contextmanager
def tls_in_front(netloc: str, certificate: Path) -> Iterator[str]:
    """End TLS before the simulator; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    host, _, port = netloc.partition(":")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def one(raw: socket.socket) -> None:
            with contextlib.suppress(OSError), contextlib.ExitStack() as open_sockets:
                front = open_sockets.enter_context(context.wrap_socket(raw, server_side=True))
                back = open_sockets.enter_context(socket.create_connection((host, int(port))))
                back.sendall(front.recv(65536))
                back.settimeout(0.3)
                while data := back.recv(65536):
                    front.sendall(data)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield str(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)


def test_certificates(stocked: Simulator, certificate: Path, tmp_path: Path) -> None:
    with tls_in_front(stocked.netloc, certificate) as port:
        known = tmp_path / "certs.d" / f"localhost:{port}"
        known.mkdir(parents=True)
        reference = Reference.parse(f"localhost:{port}/a/x:v1")
        client = Client.of(f"localhost:{port}", certs=(tmp_path / "certs.d",))
        with pytest.raises(UnreachableError, match="no secure connection") as caught:
            client.registries.source(reference).top()
        assert "self-signed certificate" in str(caught.value)
        assert f"/etc/docker/certs.d/localhost:{port}/ca.crt" in str(caught.value)
        shutil.copy(f"{certificate}.crt", known / "ca.crt")
        client = Client.of(f"localhost:{port}", certs=(tmp_path / "certs.d",))
        assert client.registries.source(reference).top() == IMAGE.manifest.descriptor()
        (known / "ca.crt").unlink()
        bundle = {"REQUESTS_CA_BUNDLE": f"{certificate}.crt"}
        client = Client.of(f"localhost:{port}", certs=(tmp_path / "certs.d",), environ=bundle)
        assert client.registries.source(reference).top() == IMAGE.manifest.descriptor()


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    known = tmp_path / "r.example"
    known.mkdir()
    (known / "ca.crt").write_text("not PEM")
    with pytest.raises(InputError, match="certificate for a registry cannot be used") as caught:
        Client.of("r.example", certs=(tmp_path,)).source("a/x:v1").top()
    assert str(known / "ca.crt") in str(caught.value)


def test_plain_http_where_tls_was_expected(stocked: Simulator, tmp_path: Path) -> None:
    (tmp_path / stocked.netloc).mkdir()
    with pytest.raises(UnreachableError, match="no secure connection") as caught:
        Client.of(stocked.netloc, certs=(tmp_path,)).source("a/x:v1").top()
    assert f"COMPOSE_INSECURE_REGISTRIES={stocked.netloc}" in str(caught.value)
