"""RECORD: the list of a distribution's files with their hashes and sizes.

Sources: PyPA "Binary distribution format" (RECORD in a wheel: every file, sha256 or better) and
"Recording installed projects" (RECORD of an installed distribution, CSV of Python's dialect).
"""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..errors import Fault

__all__ = ["ALGORITHMS", "Claim", "Row", "format_record", "hash_text", "parse_record"]

# "The hash algorithm must be sha256 or better; specifically, md5, sha1 and sha224 are not
# permitted": what hashlib guarantees, of 32 bytes and more.
ALGORITHMS = frozenset(
    {
        "sha256", "sha384", "sha512", "sha3_256", "sha3_384", "sha3_512", "blake2b", "blake2s",
    }
)  # fmt: skip

_ENCODED = re.compile(r"[A-Za-z0-9_-]*={0,2}")


class Claim(NamedTuple):
    """What RECORD says of a file. `size` in bytes, None where it is left out."""

    algorithm: str
    digest: bytes
    size: int | None

    @property
    def text(self) -> str:
        """The hash as RECORD writes it."""
        return hash_text(self.algorithm, self.digest)


class Row(NamedTuple):
    """One line of an installed distribution's RECORD; `hash` and `size` may be empty."""

    path: str
    hash: str = ""
    size: str = ""


def hash_text(algorithm: str, digest: bytes) -> str:
    """Return a hash as RECORD writes it, such as `sha256=47DEQ…`."""
    # "the urlsafe base64 encoding of the digest, with trailing = characters removed"
    return f"{algorithm}={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def format_record(rows: Iterable[Row]) -> bytes:
    """Return the file of `rows`, sorted by path."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(sorted(rows))
    return text.getvalue().encode()


def parse_record(data: bytes) -> tuple[Mapping[str, Claim | None], list[Fault]]:
    """Return what a wheel's RECORD says by path, None where it gives no hash, and its faults."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        return {}, [Fault(what="RECORD is not CSV in UTF-8", found=str(error))]
    claims: dict[str, Claim | None] = {}
    faults = []
    for number, row in enumerate(rows, start=1):
        try:
            path, claim = _parse_row(row)
        except ValueError as error:
            faults.append(Fault(what=str(error), where=f"RECORD row {number}", found=repr(row)))
            continue
        if path in claims and claims[path] != claim:
            faults.append(Fault(what=f"RECORD contradicts itself over {path!r}"))
        claims[path] = claim
    return claims, faults


def _parse_row(row: list[str]) -> tuple[str, Claim | None]:
    if len(row) != 3:
        raise ValueError("not path, hash and size")
    path, text, size = row
    if not text:
        return path, None
    algorithm, _, encoded = text.partition("=")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"hash algorithm {algorithm!r} is not sha256 or better")
    if size and not (size.isascii() and size.isdigit()):
        raise ValueError("the size is not a number of bytes")
    return path, Claim(algorithm, _decode(algorithm, encoded), int(size) if size else None)


def _decode(algorithm: str, encoded: str) -> bytes:
    if not _ENCODED.fullmatch(encoded):
        raise ValueError("the hash is not urlsafe base64")
    encoded = encoded.rstrip("=")
    try:
        digest = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except binascii.Error as error:
        raise ValueError("the hash is not urlsafe base64") from error
    if len(digest) != hashlib.new(algorithm).digest_size:
        raise ValueError(f"the hash is not as long as a {algorithm}")
    return digest
