"""A registry in a thread, with everything in memory and a knob for every quirk that one met.

It is written from distribution-spec 1.1 and shares no code with the client: what it stores is
found in `blobs`, `repositories`, and what it was asked in `requests`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

__all__ = ["Cut", "Reply", "Repo", "Seen", "Simulator"]

_API = re.compile(
    r"/v2/(?P<name>.+)/(?P<kind>blobs/uploads|blobs|manifests|referrers|tags)/(?P<rest>[^/]*)\Z"
)

_INDEX = "application/vnd.oci.image.index.v1+json"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Seen:
    """A request that came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Repo:
    """One repository: which blobs it links to, its manifests and tags."""

    blobs: set[str] = field(default_factory=set)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class Reply:
    """An answer that is given instead of the right one."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass
class Cut:
    """The connection ends after `after` bytes of the request's or the answer's body.

    kept: the upload keeps what it got of a request. reset: by RST, which may take what was sent
    before along with it, instead of FIN.
    """

    after: int
    kept: bool = True
    reset: bool = True


@dataclass
class _Planned:
    method: str
    path: re.Pattern[str]
    action: Reply | Cut
    times: int
    skip: int


@dataclass
class Simulator:
    """The registry. Knobs may be changed at any time."""

    auth: str = ""  # "", "basic", "bearer"
    user: tuple[str, str] = ("ann", "s3cret-pa55")
    identity_token: str = "id-t0ken-s3cret"
    token_requests: int = 1_000_000  # how many requests a token is good for
    expires_in: int | None = 300
    anonymous_pull: bool = False
    refused_scopes: set[str] = field(default_factory=set)  # repositories nobody gets a token for
    extra_scope: str = ""  # a repository that may be pulled by all who read any
    refused_silently: bool = False  # ... and the token comes without them
    mount: str = "201"  # or 202, 401, 403, 404, 405
    ranges: bool = True
    relative_location: bool = False
    location_query: bool = False
    location_scheme: str = ""
    immutable_tags: bool = False
    digest_header: str = "right"  # or "wrong", "none"
    head_manifests: bool = True
    content_type: str = ""  # of manifests, instead of their own
    redirect_blobs: str = ""  # an origin
    min_chunk: int = 0
    page: int = 1000
    delay: float = 0.0  # seconds before an answer
    pace: float = 0.0  # seconds after each eighth of a blob's content
    damage: str = ""  # of blobs: "corrupt", "longer", "shorter"
    chunked_answers: bool = False
    auto_create: bool = True
    api_version: str = "registry/2.0"
    referrers: bool = True

    blobs: dict[str, bytes] = field(default_factory=dict)
    repositories: dict[str, Repo] = field(default_factory=dict)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    tokens: dict[str, tuple[set[tuple[str, str]], int]] = field(default_factory=dict)
    requests: list[Seen] = field(default_factory=list)
    planned: list[_Planned] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    netloc: str = ""

    @contextlib.contextmanager
    def running(self) -> Iterator[Simulator]:
        server = _Server(("127.0.0.1", 0), _Handler)
        server.simulator = self  # type: ignore[attr-defined]
        self.netloc = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def plan(
        self, method: str, path: str, action: Reply | Cut, times: int = 1, skip: int = 0
    ) -> None:
        """Act on the next `times` requests that match, after `skip` of them."""
        self.planned.append(_Planned(method, re.compile(path), action, times, skip))

    def repo(self, name: str) -> Repo:
        return self.repositories.setdefault(name, Repo())

    def look(self, name: str) -> Repo:
        return self.repositories.get(name, Repo())

    def add_blob(self, name: str, data: bytes) -> str:
        digest = digest_of(data)
        self.blobs[digest] = data
        self.repo(name).blobs.add(digest)
        return digest

    def add_manifest(self, name: str, raw: bytes, media_type: str, *tags: str) -> str:
        digest = digest_of(raw)
        self.repo(name).manifests[digest] = (media_type, raw)
        self.repo(name).tags.update(dict.fromkeys(tags, digest))
        return digest

    def asked(self, method: str = "", path: str = "") -> list[Seen]:
        """The requests so far that match."""
        return [
            one
            for one in self.requests
            if one.method.startswith(method) and re.search(path, one.path)
        ]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, ValueError):
            super().handle()

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_GET  # noqa: N815

    @property
    def sim(self) -> Simulator:
        return self.server.simulator  # type: ignore[attr-defined,no-any-return]

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self.query = parse_qs(parts.query)
        seen = Seen(self.command, parts.path, self.query, dict(self.headers.items()))
        with self.sim.lock:
            self.sim.requests.append(seen)
            action = self._planned(parts.path)
        time.sleep(self.sim.delay)
        self.cut = action if isinstance(action, Cut) else None
        length = int(self.headers.get("Content-Length", 0))
        if self.cut is not None and self.command in ("PATCH", "PUT"):
            self._cut_upload(parts.path, self.cut, min(length, self.cut.after))
            return
        self.body = self.rfile.read(length)
        if isinstance(action, Reply):
            self._reply(action.status, action.headers, action.body)
            return
        with self.sim.lock:
            answer = self._route(parts.path)
        self._reply(*answer)

    def _planned(self, path: str) -> Reply | Cut | None:
        for plan in self.sim.planned:
            if plan.method == self.command and plan.path.search(path) and plan.times:
                if plan.skip:
                    plan.skip -= 1
                    return None
                plan.times -= 1
                return plan.action
        return None

    def _cut_upload(self, path: str, cut: Cut, length: int) -> None:
        data = self.rfile.read(length)
        upload = self.sim.uploads.get(path.rpartition("/")[2])
        if upload is not None and cut.kept and self.command == "PATCH":
            upload += data
        self._reset(cut)

    def _reset(self, cut: Cut) -> None:
        with contextlib.suppress(OSError):
            self.wfile.flush()
        if cut.reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()
        raise ConnectionResetError

    def _reply(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        chunked = self.sim.chunked_answers and "/blobs/" in self.path and status == 200
        if chunked:
            headers = {**headers, "Transfer-Encoding": "chunked"}
        elif "Content-Length" not in headers:
            headers = {**headers, "Content-Length": str(len(body))}
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if chunked:
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        if self.cut is not None:
            self.wfile.write(body[: self.cut.after])
            self._reset(self.cut)
        if not self.sim.pace or "/blobs/" not in self.path:
            self.wfile.write(body)
            return
        step = -(-len(body) // 8) or 1
        for start in range(0, len(body), step):
            self.wfile.write(body[start : start + step])
            self.wfile.flush()
            time.sleep(self.sim.pace)

    def _error(self, status: int, code: str, message: str, **headers: str) -> Any:
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        return status, {"Content-Type": "application/json", **headers}, body

    def _route(self, path: str) -> Any:
        if path == "/token":
            return self._token()
        if path == "/v2/":
            version = self.sim.api_version
            named = {"Docker-Distribution-API-Version": version} if version else {}
            status, headers, body = self._refuse("") or (200, {}, b"{}")
            return status, {**headers, **named}, body
        match = _API.match(path)
        if match is None:
            return 404, {}, b"404 page not found"
        name, kind, rest = match["name"], match["kind"], match["rest"]
        if refusal := self._refuse(name):
            return refusal
        handler = {
            "blobs": self._blob,
            "blobs/uploads": self._upload,
            "manifests": self._manifest,
            "referrers": self._referrers,
            "tags": self._tags,
        }[kind]
        return handler(name, rest)

    # -- who may -----------------------------------------------------------------------------

    def _refuse(self, name: str) -> Any:
        action = "pull" if self.command in ("GET", "HEAD") else "push"
        wanted = {(name, action)} if name else set()
        if "from" in self.query and "mount" in self.query:
            wanted.add((self.query["from"][0], "pull"))
        if self.sim.extra_scope:
            wanted.add((self.sim.extra_scope, "pull"))
        sent = self.headers.get("Authorization", "")
        if self.sim.auth == "basic":
            if sent == _basic(*self.sim.user):
                return None
            return self._error(
                401, "UNAUTHORIZED", "log in", **{"WWW-Authenticate": 'Basic realm="sim"'}
            )
        if self.sim.auth != "bearer":
            return None
        granted, left = self.sim.tokens.get(sent.removeprefix("Bearer "), (set(), 0))
        if left and wanted <= granted:
            self.sim.tokens[sent.removeprefix("Bearer ")] = (granted, left - 1)
            return None
        scope = " ".join(sorted(f"repository:{repo}:{one}" for repo, one in wanted))
        challenge = (
            f'Bearer realm="http://{self.sim.netloc}/token",service="sim, the one",scope="{scope}"'
        )
        if left:
            challenge += ',error="insufficient_scope"'
        return self._error(
            401, "UNAUTHORIZED", f"no access with {sent}", **{"WWW-Authenticate": challenge}
        )

    def _token(self) -> Any:
        if self.command == "POST":
            form = dict(parse_qsl(self.body.decode()))
            known = form.get("refresh_token") == self.sim.identity_token
            scopes, service = form.get("scope", "").split(), form.get("service")
        else:
            sent = self.headers.get("Authorization")
            known = sent == _basic(*self.sim.user)
            if sent and not known:
                return self._error(401, "UNAUTHORIZED", f"wrong: {sent}")
            scopes, service = self.query.get("scope", []), self.query.get("service", [""])[0]
        if service != "sim, the one" or (not known and not self.sim.anonymous_pull):
            return self._error(401, "UNAUTHORIZED", "who are you?")
        granted = set()
        for scope in scopes:
            _, name, actions = scope.split(":")
            if name in self.sim.refused_scopes:
                if self.sim.refused_silently:
                    continue
                return self._error(403, "DENIED", f"no scope for {name}")
            granted |= {(name, one) for one in actions.split(",") if known or one == "pull"}
        token = f"tok3n-{len(self.sim.tokens)}-secret"
        self.sim.tokens[token] = (granted, self.sim.token_requests)
        document: dict[str, Any] = {"token": token}
        if self.sim.expires_in is not None:
            document["expires_in"] = self.sim.expires_in
        return 200, {"Content-Type": "application/json"}, json.dumps(document).encode()

    # -- content -----------------------------------------------------------------------------

    def _blob(self, name: str, digest: str) -> Any:
        if digest not in self.sim.look(name).blobs:
            return self._error(404, "BLOB_UNKNOWN", "blob unknown to registry")
        if self.sim.redirect_blobs:
            place = f"{self.sim.redirect_blobs}/v2/{name}/blobs/{digest}?signature=h1dden-sig"
            return 307, {"Location": place}, b""
        data = self._damaged(self.sim.blobs[digest])
        wanted = re.match(r"bytes=(\d+)-(\d*)\Z", self.headers.get("Range", ""))
        if wanted is None or not self.sim.ranges:
            return (
                200,
                {"Docker-Content-Digest": digest, "Content-Length": str(len(data))}
                if (not self.sim.chunked_answers)
                else {},
                data,
            )
        start = int(wanted[1])
        part = data[start : int(wanted[2]) + 1 if wanted[2] else None]
        where = f"bytes {start}-{start + len(part) - 1}/{len(data)}"
        return 206, {"Content-Range": where}, part

    def _damaged(self, data: bytes) -> bytes:
        if self.sim.damage == "corrupt":
            return data[:-1] + bytes([data[-1] ^ 1])
        if self.sim.damage == "longer":
            return data + b"!" * 100
        return data[:-1] if self.sim.damage == "shorter" else data

    def _manifest(self, name: str, which: str) -> Any:
        if self.command == "PUT":
            return self._put_manifest(self.sim.repo(name), which)
        repo = self.sim.look(name)
        if self.command == "HEAD" and not self.sim.head_manifests:
            return 405, {}, b""
        digest = repo.tags.get(which, which)
        if digest not in repo.manifests:
            return self._error(404, "MANIFEST_UNKNOWN", "manifest unknown", Echo=which)
        media_type, raw = repo.manifests[digest]
        accepted = self.headers.get("Accept", "")
        if media_type not in accepted:
            return self._error(404, "MANIFEST_UNKNOWN", f"{media_type} not accepted: {accepted}")
        headers = {"Content-Type": self.sim.content_type or media_type}
        return 200, {**headers, **self._digest_header(digest)}, raw

    def _digest_header(self, digest: str) -> dict[str, str]:
        if self.sim.digest_header == "none":
            return {}
        wrong = self.sim.digest_header == "wrong"
        return {"Docker-Content-Digest": digest_of(b"other") if wrong else digest}

    def _put_manifest(self, repo: Repo, which: str) -> Any:
        digest = digest_of(self.body)
        document = json.loads(self.body)
        parts = [document["config"], *document["layers"]] if "layers" in document else []
        for part in parts:
            if part["digest"] not in repo.blobs:
                return self._error(400, "MANIFEST_BLOB_UNKNOWN", f"blob unknown: {part['digest']}")
        if which in repo.tags and self.sim.immutable_tags:
            return self._error(400, "TAG_INVALID", f"the tag '{which}' is immutable")
        repo.manifests[digest] = (self.headers["Content-Type"], self.body)
        if not which.startswith("sha256:"):
            repo.tags[which] = digest
        elif which != digest:
            return self._error(400, "DIGEST_INVALID", "digest did not match")
        return 201, {"Location": "/v2/", **self._digest_header(digest)}, b""

    def _referrers(self, name: str, subject: str) -> Any:
        if not self.sim.referrers:
            return 404, {}, b"404 page not found"
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": []}
        return 200, {"Content-Type": _INDEX}, json.dumps(index).encode()

    def _tags(self, name: str, rest: str) -> Any:
        if name not in self.sim.repositories or rest != "list":
            return self._error(404, "NAME_UNKNOWN", "repository name not known to registry")
        last = self.query.get("last", [""])[0]
        names = sorted(tag for tag in self.sim.look(name).tags if tag > last)
        page = min(self.sim.page, int(self.query.get("n", ["1000"])[0]))
        headers = {"Content-Type": "application/json"}
        if len(names) > page:
            link = f"</v2/{name}/tags/list?last={names[page - 1]}&n={page}>"
            headers["Link"] = f'{link}; rel="next"'
        return 200, headers, json.dumps({"name": name, "tags": names[:page]}).encode()

    # -- uploads -----------------------------------------------------------------------------

    def _upload(self, name: str, upload: str) -> Any:
        if self.command == "POST":
            return self._begin(name)
        if upload not in self.sim.uploads:
            return self._error(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry")
        held = self.sim.uploads[upload]
        if self.command == "GET":
            return 204, self._place(name, upload, len(held)), b""
        sent = self.headers.get("Content-Range")
        if sent and int(sent.partition("-")[0]) != len(held):
            return 416, self._place(name, upload, len(held)), b""
        held += self.body
        if self.command == "PATCH":
            if len(self.body) < self.sim.min_chunk:
                return self._error(416, "SIZE_INVALID", "the chunk is too small")
            return 202, self._place(name, upload, len(held)), b""
        digest = self.query["digest"][0]
        del self.sim.uploads[upload]
        if digest_of(bytes(held)) != digest:
            return self._error(400, "DIGEST_INVALID", "provided digest did not match")
        self.sim.add_blob(name, bytes(held))
        return 201, {"Location": f"/v2/{name}/blobs/{digest}"}, b""

    def _begin(self, name: str) -> Any:
        if name not in self.sim.repositories and not self.sim.auto_create:
            return self._error(404, "NAME_UNKNOWN", "create the repository first")
        if "mount" in self.query and self.sim.mount not in ("201", "202"):
            return self._error(int(self.sim.mount), "UNSUPPORTED", "no mounts here")
        if "mount" in self.query and self.sim.mount == "201":
            digest, source = self.query["mount"][0], self.query["from"][0]
            if digest in self.sim.look(source).blobs:
                self.sim.repo(name).blobs.add(digest)
                return 201, {"Location": f"/v2/{name}/blobs/{digest}"}, b""
        upload = f"upload-{next(self.sim.numbers)}"
        self.sim.uploads[upload] = bytearray()
        headers = self._place(name, upload, 0)
        if self.sim.min_chunk:
            headers["OCI-Chunk-Min-Length"] = str(self.sim.min_chunk)
        return 202, headers, b""

    def _place(self, name: str, upload: str, held: int) -> dict[str, str]:
        place = f"/v2/{name}/blobs/uploads/{upload}"
        if not self.sim.relative_location:
            place = f"http://{self.sim.netloc}{place}"
        if self.sim.location_query:
            place += "?_state=abc%3D&x=1"
        return {"Location": place, "Range": f"0-{max(held - 1, 0)}"}


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
