"""Whose credentials go to which registry: the files and helpers of docker and podman.

The first file that has an answer wins: REGISTRY_AUTH_FILE alone where it is set, else podman's
`$XDG_RUNTIME_DIR/containers/auth.json`, else docker's `config.json` (`$DOCKER_CONFIG` or
`~/.docker`). In a file a key with a longer repository path wins over a shorter one.
Sources: containers-auth.json(5); docker's "docker login" reference; docker-credential-helpers.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError
from .complaint import redact

__all__ = ["ANONYMOUS", "Credentials", "auth_files", "find_credentials"]

_HELPER_TIMEOUT = 60.0  # seconds; a helper may have to ask a person
_TOKEN_USER = "<token>"  # noqa: S105 - a helper's word for "the secret is an identity token"
# What docker calls its own registry in its files.
_HUB_SERVER = "https://index.docker.io/v1/"
_HUB_NAMES = frozenset({"index.docker.io", "registry-1.docker.io", "docker.io"})


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and password, an identity token, or a token for the registry itself.

    source: where they come from, as it may be shown. No secret is ever in the `repr`.
    """

    source: str
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.username or self.identity_token or self.registry_token)

    @property
    def basic(self) -> str:
        """The value of an `Authorization` header for Basic."""
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


ANONYMOUS = Credentials("no credentials")


def auth_files(environ: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return the files that may hold credentials, in their order."""
    if chosen := environ.get("REGISTRY_AUTH_FILE"):
        return (Path(chosen),)
    files = []
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        files.append(Path(runtime) / "containers" / "auth.json")
    docker = environ.get("DOCKER_CONFIG")
    files.append((Path(docker) if docker else home / ".docker") / "config.json")
    return tuple(files)


def find_credentials(domain: str, path: str, files: tuple[Path, ...]) -> Credentials:
    """Return the credentials for a repository; `ANONYMOUS`, with a reason, where there are none.

    A helper that fails is no error yet: a public image needs none. Its failure is in `source`,
    which the registry's refusal will name.

    Raises:
        InputError: a file is there and cannot be read or understood.
    """
    failures: list[str] = []
    for file in files:
        document = _read(file)
        for found in _candidates(document, file, domain, path):
            if found:
                return found
            failures.append(found.source)
    looked = ", ".join(str(file) for file in files)
    return Credentials("; ".join(failures) or f"no credentials (looked in {looked})")


def _read(file: Path) -> Mapping[str, Any]:
    try:
        text = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _broken(file, error.strerror or str(error)) from error
    try:
        document = json.loads(text or b"{}")
    except (ValueError, RecursionError) as error:
        raise _broken(file, "not valid JSON") from error
    if not isinstance(document, dict):
        raise _broken(file, "not a JSON object")
    return document


def _broken(file: Path, found: str) -> InputError:
    return InputError.of(
        "a file of registry credentials cannot be used",
        where=str(file),
        expected='JSON such as {"auths": {"HOST": {"auth": "..."}}}',
        found=found,
        fix="repair it, or name another: REGISTRY_AUTH_FILE=FILE",
    )


def _candidates(
    document: Mapping[str, Any], file: Path, domain: str, path: str
) -> Iterator[Credentials]:
    helpers = _object(document, "credHelpers", file)
    for key, helper in sorted(helpers.items()):
        if _normalise(key) == domain:
            yield from _ask_helper(str(helper), domain, file)
    auths = _object(document, "auths", file)
    wanted = f"{domain}/{path}"
    matching = [key for key in auths if f"{wanted}/".startswith(f"{_normalise(key)}/")]
    # Of keys that mean the same, docker's `https://HOST/v1/` and `HOST`, either will do.
    for key in sorted(matching, key=lambda one: (-len(_normalise(one)), one)):
        if found := _entry(auths[key], f"{file} ({_normalise(key)})", file):
            yield found
    if store := document.get("credsStore"):
        yield from _ask_helper(str(store), domain, file)


def _object(document: Mapping[str, Any], key: str, file: Path) -> Mapping[str, Any]:
    value = document.get(key) or {}
    if not isinstance(value, dict):
        raise _broken(file, f"{key} is not an object")
    return value


def _normalise(key: str) -> str:
    """Return a key of `auths` as `host[/path]`: docker writes URLs of API versions too."""
    name = key.partition("://")[2] or key
    if "://" in key:
        for suffix in ("/v1", "/v2"):
            name = name.rstrip("/").removesuffix(suffix)
    host, slash, path = name.rstrip("/").partition("/")
    return f"{'docker.io' if host in _HUB_NAMES else host}{slash}{path}"


def _entry(entry: Any, source: str, file: Path) -> Credentials | None:
    if not isinstance(entry, dict):
        raise _broken(file, "an entry of auths is not an object")
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if auth := entry.get("auth"):
        try:
            pair = base64.b64decode(str(auth), validate=True).decode()
        except (binascii.Error, ValueError) as error:
            raise _broken(file, "an auth is not base64 of user:password") from error
        username, _, password = pair.partition(":")
        password = password.rstrip("\0")  # docker itself cuts these
    found = Credentials(
        source,
        username,
        password,
        str(entry.get("identitytoken") or ""),
        str(entry.get("registrytoken") or ""),
    )
    return found or None


def _ask_helper(name: str, domain: str, file: Path) -> Iterator[Credentials]:
    """Ask `docker-credential-NAME`; yields nothing where it holds none, a failure's reason else."""
    import subprocess  # noqa: PLC0415 - few machines have a helper

    program = f"docker-credential-{name}"
    server = _HUB_SERVER if domain == "docker.io" else domain
    source = f"{program} of {file}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=server.encode(),
            capture_output=True,
            timeout=_HELPER_TIMEOUT,
            check=False,
            env=dict(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Credentials(f"no credentials: {source} failed: {type(error).__name__}")
        return
    if done.returncode != 0:
        said = redact(done.stdout.decode("utf-8", "replace"))
        if "credentials not found" not in said:
            yield Credentials(f"no credentials: {source} failed: {said or done.returncode}")
        return
    yield _of_helper(done.stdout, source)


def _of_helper(output: bytes, source: str) -> Credentials:
    try:
        document = json.loads(output)
        username, secret = str(document["Username"]), str(document["Secret"])
    except (ValueError, KeyError, TypeError):
        return Credentials(f"no credentials: {source} failed: its answer is not the JSON it owes")
    if username == _TOKEN_USER:
        return Credentials(source, identity_token=secret)
    return Credentials(source, username, secret)
