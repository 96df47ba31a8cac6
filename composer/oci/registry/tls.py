"""Which certificates are trusted for a registry, beyond those of the system.

SSL_CERT_FILE and SSL_CERT_DIR are OpenSSL's own; REQUESTS_CA_BUNDLE is added to them, because
pip's users behind a proxy have it. docker's and podman's `certs.d/HOST[:PORT]/` holds authorities
(`*.crt`) and our own certificate (`*.cert` with its `*.key`).
Sources: dockerd "Verify repository client with certificates"; containers-certs.d(5).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from ...errors import InputError
from .location import Origin

__all__ = ["context"]


def context(
    origin: Origin, environ: Mapping[str, str], directories: tuple[Path, ...]
) -> ssl.SSLContext:
    """Return the TLS settings for an origin; names and chains are always checked.

    Raises:
        InputError: a configured certificate cannot be used.
    """
    made = ssl.create_default_context()
    if bundle := environ.get("REQUESTS_CA_BUNDLE"):
        _trust(made, Path(bundle))
    for directory in directories:
        for authority in sorted((directory / origin.netloc).glob("*.crt")):
            _trust(made, authority)
        for certificate in sorted((directory / origin.netloc).glob("*.cert")):
            _identify(made, certificate)
    return made


def _trust(made: ssl.SSLContext, path: Path) -> None:
    try:
        made.load_verify_locations(
            cafile=None if path.is_dir() else str(path), capath=str(path) if path.is_dir() else None
        )
    except OSError as error:  # ssl.SSLError is one
        raise _unusable(path, "PEM certificates", error) from error


def _identify(made: ssl.SSLContext, certificate: Path) -> None:
    try:
        made.load_cert_chain(certificate, certificate.with_suffix(".key"))
    except OSError as error:
        raise _unusable(certificate, "a PEM certificate and its .key beside it", error) from error


def _unusable(path: Path, expected: str, error: OSError) -> InputError:
    return InputError.of(
        "a certificate for a registry cannot be used",
        where=str(path),
        expected=expected,
        found=error.strerror or str(error),
    )
