"""Content digests.

Grammar and algorithms: OCI image-spec, descriptor.md, "Digests".
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Digest", "sha256"]

# Registered algorithms of the image spec that we accept, with the length of their encoded part.
_HEX_LENGTH = {"sha256": 64, "sha512": 128}
_HEX = re.compile(r"[0-9a-f]+\Z")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """`algorithm:encoded`, as in `sha256:fb07…`.

    Raises:
        ValueError: an algorithm that is not registered, or an encoded part of other length or
            characters than the algorithm's.
    """

    algorithm: str
    hex: str

    def __post_init__(self) -> None:
        length = _HEX_LENGTH.get(self.algorithm)
        if length is None:
            raise ValueError(f"digest algorithm {self.algorithm!r} is none of sha256, sha512")
        if len(self.hex) != length or not _HEX.match(self.hex):
            raise ValueError(
                f"{self.algorithm} digest {self.hex!r} is not {length} lower-case hex digits"
            )

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Parse `algorithm:encoded`.

        Raises:
            ValueError: `text` is not a digest.
        """
        return _parse(text)

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.hex}"

    @property
    def short(self) -> str:
        """The first twelve hex digits, for people's eyes only."""
        return self.hex[:12]


@lru_cache(maxsize=65536)
def _parse(text: str) -> Digest:
    algorithm, colon, encoded = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a digest, such as sha256:<64 hex digits>")
    return Digest(algorithm, encoded)


def sha256(data: bytes | bytearray | memoryview) -> Digest:
    """Return the SHA-256 digest of `data`."""
    return Digest("sha256", hashlib.sha256(data).hexdigest())
