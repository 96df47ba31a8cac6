"""Wheels pinned by digest, and the store that keeps them.

Sources: PEP 508 (requirements), pip's "Secure installs" (`--hash`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from ..errors import Fault, InputError, IntegrityError, UnreachableError, raise_all
from ..oci.digest import Digest
from ..oci.layout import Ingest, Layout, storage_errors
from ..progress import transfer
from ..wheel.tags import WheelTarget
from ..wheelpin import WheelPin
from .pip import download

__all__ = ["fetch", "resolve"]

_CHUNK = 1024 * 1024


def resolve(
    requirements: Sequence[str], target: WheelTarget, layout: Layout
) -> tuple[WheelPin, ...]:
    """Ask pip for the wheels of `requirements`, without dependencies, and store them.

    Returns:
        A pin for each requirement, in their order.

    Raises:
        InputError: a requirement that is not a name and versions, or that no wheel fits.
        UnreachableError: no index can be reached, or pip is missing.
    """
    wanted = _parse(requirements)
    arguments = [*target.pip_options, *(str(one) for one in wanted.values())]
    with _download_directory(layout) as directory:
        with transfer(f"pip download {', '.join(map(str, wanted.values()))}") as advance:
            files = download(arguments, tuple(wanted.values()), target, directory)
            advance(sum(one.stat().st_size for one in files))
        named = _by_name(files, wanted, target)
        return tuple(
            _pin(text, named[canonicalize_name(one.name)], layout)
            for text, one in zip(requirements, wanted.values(), strict=True)
        )


def _parse(requirements: Sequence[str]) -> dict[str, Requirement]:
    """Return the requirements by normalised name."""
    wanted: dict[str, Requirement] = {}
    faults = []
    for text in requirements:
        try:
            one = _requirement(text)
        except ValueError as error:
            faults.append(Fault(what=str(error), where=text, fix='write it like "vllm==0.28.0"'))
            continue
        if (name := canonicalize_name(one.name)) in wanted:
            what = "two requirements for one distribution"
            faults.append(Fault(what=what, where=text, found=str(wanted[name])))
        wanted[name] = one
    raise_all(faults)
    return wanted


def _requirement(text: str) -> Requirement:
    """Parse a name and versions.

    Raises:
        ValueError: anything else, extras, markers and URLs included.
    """
    try:
        one = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError("not a requirement") from error
    for kind, found in (("a URL", one.url), ("extras", one.extras), ("a marker", one.marker)):
        if found:
            raise ValueError(f"a wheel's requirement has no use for {kind}")
    return one


def _by_name(
    files: Sequence[Path], wanted: dict[str, Requirement], target: WheelTarget
) -> dict[str, Path]:
    """Return the files by distribution: exactly those wanted, each fit for the target."""
    named: dict[str, Path] = {}
    faults = []
    for path in files:
        name = _distribution(path.name)
        if name not in wanted or name in named:
            what, fix = "pip brought a file nobody asked for", "python -m pip config list"
            faults.append(Fault(what=what, where=path.name, fix=f"see pip's settings: {fix}"))
        elif not target.accepts(path.name):
            what, expected = "pip brought a wheel for another system", str(target)
            faults.append(Fault(what=what, where=path.name, expected=expected))
        named[name] = path
    missing = sorted(wanted.keys() - named.keys())
    faults += [Fault(what="pip brought no file", where=str(wanted[name])) for name in missing]
    raise_all(faults)
    return named


def _distribution(filename: str) -> str:
    try:
        return parse_wheel_filename(filename)[0]
    except InvalidWheelFilename:
        return filename


def _pin(text: str, path: Path, layout: Layout) -> WheelPin:
    name, version, *_ = parse_wheel_filename(path.name)
    size = path.stat().st_size
    digest = _adopt(path, layout)
    return WheelPin(
        requirement=text,
        name=name,
        version=str(version),
        filename=path.name,
        digest=digest,
        size=size,
    )


def fetch(pin: WheelPin, target: WheelTarget, layout: Layout) -> Path:
    """Return where the pinned wheel lies in the store, downloaded first where it has to be.

    The stored bytes are hashed each time, which costs 0.2 s for 300 MB: RECORD vouches for the
    files of a wheel, but nothing in a wheel vouches for RECORD. A damaged blob is replaced.

    Raises:
        InputError: no index has the wheel any more.
        IntegrityError: the index has other bytes, or the stored ones are damaged and no index
            can be reached.
        UnreachableError: it is not held, and no index can be reached.
    """
    path = layout.path(pin.digest)
    if _held(pin, layout):
        return path
    with _download_directory(layout) as directory:
        if not _held(pin, layout):  # or another process has brought it meanwhile
            _download(pin, target, layout, directory)
    return path


def _held(pin: WheelPin, layout: Layout) -> bool:
    if not layout.has(pin.digest, pin.size):
        return False
    with layout.open(pin.digest) as file:
        return _hash(file) == pin.digest


def _download(pin: WheelPin, target: WheelTarget, layout: Layout, directory: Path) -> None:
    requirement = Requirement(f"{pin.name}=={pin.version}")
    listed = directory / "requirements.txt"
    with storage_errors(directory):
        listed.write_text(f"{requirement} --hash={pin.digest}\n")
    arguments = [*target.pip_options_for(pin.filename), "--requirement", str(listed)]
    try:
        with transfer(f"pip download {pin.filename}") as advance:
            files = download(arguments, [requirement], target, directory, constrained=False)
            advance(pin.size)
    except (InputError, UnreachableError) as error:
        if layout.has(pin.digest):
            raise layout.damaged(pin.digest, "other bytes") from error
        raise
    named = _by_name(files, {pin.name: requirement}, target)
    _adopt(named[pin.name], layout, pin.digest)


def _hash(file: BinaryIO) -> Digest:
    content = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        content.update(chunk)
    return Digest("sha256", content.hexdigest())


def _adopt(path: Path, layout: Layout, expected: Digest | None = None) -> Digest:
    """Move a download to where the store keeps it, without a copy, and return its digest.

    Raises:
        IntegrityError: the digest is not `expected`; nothing is stored.
    """
    # pip's files may be private to the user; the directory's mode tells the umask.
    path.chmod(path.parent.stat().st_mode & 0o666)
    with path.open("r+b") as file:
        digest = _hash(file)
        if expected not in (None, digest):
            raise IntegrityError.of(
                "pip brought another file than the lock pins",
                where=path.name,
                expected=str(expected),
                found=str(digest),
            )
        Ingest(layout, file, path).commit(digest)
    return digest


@contextlib.contextmanager
def _download_directory(layout: Layout) -> Iterator[Path]:
    """Give an empty directory on the store's file system, to one process at a time.

    What a process that was killed has left there is gone again with the next one.
    """
    with layout.exclusive("wheels"):
        wheels = layout.root / "ingest" / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        directory = wheels / os.urandom(8).hex()  # a pip that outlived its compose has another
        with storage_errors(directory):
            directory.mkdir(parents=True)
        try:
            yield directory
        finally:
            shutil.rmtree(wheels, ignore_errors=True)
