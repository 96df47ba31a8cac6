"""What a failed `pip download` said, as one error of ours.

pip tells little by its exit code and reports an index that it could not reach as a version that
does not exist; the log of the run tells them apart. The texts looked for are the same in
pip 23.2 to 26.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from ..errors import ComposeError, Fault, InputError, IntegrityError, UnreachableError
from ..wheel.tags import WheelTarget

__all__ = ["Said", "failure", "redact"]

_CREDENTIALS = re.compile(r"//[^/\s@]+@")
_NO_PIP = re.compile(r"No module named '?pip\b")
_HASH = re.compile(r"Expected sha256 (?P<expected>\w+)\s+Got\s+(?P<found>\w+)")
_UNFETCHED = re.compile(
    r"Could not fetch URL (?P<url>\S+?): (?P<reason>.*?)(?: - skipping)?$", re.MULTILINE
)
_NETWORK = re.compile(
    r"connection-\w+|ssl-\w+|proxy-\w+|incomplete-download|Failed to (?:connect|resolve)"
    r"|Max retries exceeded|(?:Connection|Timeout|Proxy|SSL|Protocol|IncompleteRead)Error"
    r"|HTTP error \d+|IncompleteRead"
)
_NOT_FOUND = re.compile(r"No matching distribution found for (?P<name>[A-Za-z0-9._-]+)")
_VERSIONS = re.compile(r"\(from versions: (?P<versions>[^)]*)\)")
_SKIPPED = re.compile(r"Skipping link: (?:none of the wheel's tags|No sources).*?: (?P<url>\S+)")
_REQUESTED = re.compile(r"The user requested .*")
_SHOWN = 6  # file names and versions in an error


@dataclass(frozen=True, slots=True)
class Said:
    """What pip wrote to the terminal, and its log of the run, which is far more."""

    output: str
    log: str


def redact(text: str) -> str:
    """Return `text` without the user and password of any URL in it."""
    return _CREDENTIALS.sub("//****@", text)


def failure(said: Said, requirements: Sequence[Requirement], target: WheelTarget) -> ComposeError:
    """Return the error that tells why pip failed.

    InputError: the index has no such wheel, or the constraints exclude it. IntegrityError: a
    file has another hash. UnreachableError: an index, or pip itself, could not be used.
    """
    where = ", ".join(str(one) for one in requirements)
    rules: tuple[Callable[[], ComposeError | None], ...] = (
        lambda: _no_pip(said),
        lambda: _wrong_hash(said, where),
        lambda: _full_disk(said, where),
        lambda: _unreachable(said, where),
        lambda: _nothing_fits(said, requirements, target),
        lambda: _conflict(said, where),
    )
    for rule in rules:
        if (error := rule()) is not None:
            return error
    return UnreachableError(
        Fault(what="pip download failed", where=where, context=_last_lines(said.output))
    )


def _no_pip(said: Said) -> ComposeError | None:
    if not _NO_PIP.search(said.output):
        return None
    return UnreachableError.of(
        "pip, which downloads wheels, is not installed beside compose",
        found=said.output.strip().splitlines()[-1],
        fix="install it: python -m ensurepip",
    )


def _wrong_hash(said: Said, where: str) -> ComposeError | None:
    if (match := _HASH.search(said.output)) is None:
        return None
    return IntegrityError.of(
        "the package index serves a file with another hash",
        where=where,
        expected=f"sha256:{match['expected']}",
        found=f"sha256:{match['found']}",
        fix="find out who changed the file before you lock again",
    )


def _full_disk(said: Said, where: str) -> ComposeError | None:
    if "No space left on device" not in said.output:
        return None
    fix = "free some space, or set COMPOSE_STORE to another file system"
    return UnreachableError.of("the disk is full", where=where, fix=fix)


def _unreachable(said: Said, where: str) -> ComposeError | None:
    """Tell whether an index was out of reach. A page that is not there (404) is an answer."""
    reasons = [
        f"{match['url']}: {match['reason']}"
        for match in _UNFETCHED.finditer(said.log)
        if "404 Client Error" not in match["reason"]
    ]
    if not reasons:
        reasons = [line for line in said.output.splitlines() if _NETWORK.search(line)][-1:]
    if not reasons:
        return None
    return UnreachableError.of(
        "the package index cannot be reached",
        where=where,
        found=redact("; ".join(sorted(set(reasons)))),
        fix="check the network and pip's settings: python -m pip config list",
    )


def _nothing_fits(
    said: Said, requirements: Sequence[Requirement], target: WheelTarget
) -> ComposeError | None:
    if (match := _NOT_FOUND.search(said.output)) is None:
        return None
    name = canonicalize_name(match["name"])
    wanted = next((one for one in requirements if canonicalize_name(one.name) == name), None)
    fault = Fault(
        what="the package index has no wheel that fits",
        where=str(wanted or name),
        expected=f"a wheel for {target}: {_asked(target)}",
        found=redact(_offers(said, wanted)),
        fix=f"choose a version and platform that has one: python -m pip index versions {name}",
        context=tuple(line for line in said.output.splitlines() if "Requires-Python" in line),
    )
    return InputError(fault)


def _asked(target: WheelTarget) -> str:
    """Return the tags that were asked for, from the best to the last."""
    abi = f"cp{target.python.replace('.', '')}"
    return f"{abi}, abi3 or none, on {target.platforms[0]} to {target.platforms[-1]}, or any"


def _offers(said: Said, wanted: Requirement | None) -> str:
    """Return what there is instead: files of the version that do not fit, or other versions."""
    files = sorted({name for name in _skipped(said.log) if wanted and _is_of(name, wanted)})
    if files:
        return _shortened(files)
    match = _VERSIONS.search(said.output)
    versions = match["versions"].split(", ")[::-1] if match else ["none"]
    return "no version at all" if versions == ["none"] else f"versions {_shortened(versions)}"


def _skipped(log: str) -> Iterator[str]:
    for match in _SKIPPED.finditer(log):
        yield match["url"].partition("#")[0].rpartition("/")[2]


def _is_of(filename: str, wanted: Requirement) -> bool:
    parsed = _parsed(filename)
    return (
        parsed is not None
        and parsed[0] == canonicalize_name(wanted.name)
        and wanted.specifier.contains(parsed[1], prereleases=True)
    )


def _parsed(filename: str) -> tuple[str, Version] | None:
    try:
        if filename.endswith(".whl"):
            name, version, *_ = parse_wheel_filename(filename)
        else:
            name, version = parse_sdist_filename(filename)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    return name, version


def _shortened(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _conflict(said: Said, where: str) -> ComposeError | None:
    if "ResolutionImpossible" not in said.output:
        return None
    fault = Fault(
        what="pip's constraints exclude what is asked for",
        where=where,
        fix="change the version, or the constraints: python -m pip config list",
        context=tuple(_REQUESTED.findall(said.log)),
    )
    return InputError(fault)


def _last_lines(text: str, count: int = 8) -> tuple[str, ...]:
    return tuple(line for line in redact(text).splitlines() if line.strip())[-count:]
