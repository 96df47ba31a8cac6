"""`compose`, also as `python -m composer`."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    from .cli import run  # noqa: PLC0415 - an import error is shown by Python as it is

    code = run(sys.argv[1:])
    gc.freeze()  # an interpreter that ends looks for cycles in all it holds: 14 ms for nothing
    sys.exit(code)


if __name__ == "__main__":
    main()
