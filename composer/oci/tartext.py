"""The numbers, texts and records in the headers of an archive.

Sources: POSIX.1-2017 pax, "pax Extended Header"; GNU tar manual for numbers in base 256.
"""

from __future__ import annotations

__all__ = [
    "Records",
    "TarFormatError",
    "TarRefusedError",
    "number",
    "records_of",
    "seconds",
    "text",
]

_DIGITS = 32  # more than any number here needs; a longer one is not worth converting


class TarFormatError(ValueError):
    """The archive is malformed; the message says how."""


class TarRefusedError(ValueError):
    """The archive may be well formed, and has what no image may have."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found)
        self.expected = expected


class Records(dict[str, bytes]):
    """The records of a PAX header; `sparse` are those that may repeat, in their order."""

    sparse: tuple[tuple[str, bytes], ...] = ()


def text(raw: bytes) -> str:
    """Decode a name or value; bytes that are not UTF-8 come back when it is encoded alike."""
    return raw.decode("utf-8", "surrogateescape")


def number(field: bytes, base: int = 8) -> int:
    """Read a number of a header (octal, or base 256) or of a PAX record (base 10).

    Raises:
        TarFormatError: it is none.
    """
    if field[:1] >= b"\x80" and base == 8:
        # The first bit marks the base, the second is the sign of the rest.
        value = int.from_bytes(field, "big") & (1 << 8 * len(field) - 1) - 1
        return value - (1 << 8 * len(field) - 1) if field[0] & 0x40 else value
    digits = field.strip(b" \0").partition(b"\0")[0]
    if digits and not (digits.isdigit() and len(digits) <= _DIGITS):
        raise TarFormatError(f"the number {digits[:_DIGITS]!r}")
    try:
        return int(digits or b"0", base)
    except ValueError as error:
        raise TarFormatError(f"the number {digits!r}") from error


def seconds(field: bytes) -> int:
    """Read a PAX time, fractions dropped: whole seconds, rounded down.

    Raises:
        TarFormatError: it is none.
    """
    whole, _, fraction = field.partition(b".")
    negative = whole.startswith(b"-")
    if fraction and not fraction.isdigit():
        raise TarFormatError(f"the time {field[:_DIGITS]!r}")
    value = number(whole[negative:], 10)
    return -value - bool(fraction.strip(b"0")) if negative else value


def records_of(body: bytes) -> Records:
    """Read the records of a PAX header; the last of equal keys counts.

    Raises:
        TarFormatError: it holds something else.
    """
    records, repeated, at = Records(), [], 0
    while at < len(body):
        # "%d %s=%s\n", the number being the length of the whole record.
        space = body.find(b" ", at, at + 20)
        digits = body[at:space] if space > at else b""
        end = at + int(digits) if digits.isdigit() else at
        equals = body.find(b"=", space, end)
        if equals < 0 or end > len(body) or body[end - 1] != 10:  # a newline
            raise TarFormatError(f"the record {body[at : at + 40]!r} in a PAX header")
        key = text(body[space + 1 : equals])
        records[key] = body[equals + 1 : end - 1]
        if key.startswith("GNU.sparse."):
            repeated.append((key, records[key]))
        at = end
    records.sparse = tuple(repeated)
    return records
