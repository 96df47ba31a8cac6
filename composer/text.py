"""Small texts for people."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["age", "nearest", "short", "size"]


def nearest(word: str, known: Sequence[str]) -> str:
    """Return what a person may have meant, or what there is."""
    import difflib  # noqa: PLC0415 - needed for a fault only

    if close := difflib.get_close_matches(word, known, n=1):
        return f"did you mean {close[0]!r}?"
    return f"known here: {', '.join(known)}" if known else "there are none"


def size(count: int) -> str:
    """Return a number of bytes: `723.4 MiB`."""
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB"):  # noqa: B007 - the last one is what is shown
        amount /= 1024
        if amount < 1024:
            break
    return f"{count} B" if count < 1024 else f"{amount:.1f} {unit}"


def short(digest: str | None) -> str:
    """Return a digest with its first twelve hex digits: `sha256:fb07f95658ae`."""
    if digest is None:
        return "absent"
    algorithm, _, encoded = digest.partition(":")
    return f"{algorithm}:{encoded[:12]}"


def age(seconds: int) -> str:
    """Return a time that has passed, in its largest unit: `3 days`."""
    amount, unit = max(0, seconds), "second"
    for count, larger in ((60, "minute"), (60, "hour"), (24, "day")):
        if amount < count:
            break
        amount, unit = amount // count, larger
    return f"{amount} {unit}{'' if amount == 1 else 's'}"
