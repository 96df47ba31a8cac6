"""Run `pip download`. Why it failed is told by `composer.wheelhouse.failure`.

The user's pip configuration counts: indexes, mirrors, proxies, certificates, cache. Only what
would answer another question than the one asked (another interpreter, another set of files), or
wait for a person, is overridden.
Source: pip user guide, "Configuration" (variables come before files, and the command line first).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from ..wheel.tags import WheelTarget
from .failure import Said, failure

__all__ = ["download"]

_SET = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_COLOR": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_REQUIRE_HASHES": "0",  # a file that gives hashes turns it on again
    "PIP_REQUIRE_VIRTUALENV": "0",  # nothing is installed
    "PYTHONUTF8": "1",
}
_UNSET = {
    "PIP_ABI", "PIP_DEST", "PIP_EDITABLE", "PIP_GROUP", "PIP_IMPLEMENTATION", "PIP_LOG",
    "PIP_NO_BINARY", "PIP_ONLY_BINARY", "PIP_ONLY_DEPS", "PIP_PLATFORM", "PIP_PYTHON",
    "PIP_PYTHON_VERSION", "PIP_QUIET", "PIP_REQUIREMENT", "PIP_VERBOSE", "PYTHONWARNINGS",
}  # fmt: skip


def download(
    arguments: Sequence[str],
    requirements: Sequence[Requirement],
    target: WheelTarget,
    directory: Path,
    *,
    constrained: bool = True,
) -> tuple[Path, ...]:
    """Download what `arguments` name into the empty `directory` and return the files.

    Dependencies are not followed and nothing is built. `requirements` are what the arguments
    ask for, for the sake of errors. constrained: the user's constraints count, as they do not
    where a lock has decided already.

    Raises:
        InputError, IntegrityError, UnreachableError: see `failure`.
    """
    files, log = directory / "files", directory / "pip.log"
    # -P: the current directory, which may hold anything, is not imported from.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--log", str(log), "--dest", str(files), *arguments]
    done = subprocess.run(
        command,
        env=_environment(os.environ, directory, constrained=constrained),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise failure(Said(done.stdout, _text(log)), requirements, target)
    return tuple(sorted(files.iterdir())) if files.is_dir() else ()


def _environment(
    variables: Mapping[str, str], directory: Path, *, constrained: bool
) -> dict[str, str]:
    """Return the variables that pip runs with; its temporary files go to `directory`."""
    kept = {key: value for key, value in variables.items() if key.upper() not in _UNSET}
    if not constrained:
        kept["PIP_CONSTRAINT"] = os.devnull  # an empty value would leave the files' setting
    return {**kept, **_SET, "TMPDIR": str(directory)}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
