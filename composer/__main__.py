"""`compose`, also as `python -m composer`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    from .cli import run  # noqa: PLC0415 - an import error is shown by Python as it is

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
