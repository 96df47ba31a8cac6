"""What interpreter and system a wheel has to fit, said for the image and never for this host.

Sources: PEP 425 (tags), PEP 600 (manylinux_x_y and its aliases), PEP 656 is left out: images
with vLLM have glibc. OCI architecture names are Go's GOARCH (image-spec, image-index.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from ..oci.platform import Platform

__all__ = ["WheelTarget"]

# What `uname -m` says, by OCI architecture, or architecture and variant.
_MACHINES = {
    "386": "i686",
    "amd64": "x86_64",
    "arm": "armv7l",
    "arm/v6": "armv6l",
    "arm/v7": "armv7l",
    "arm64": "aarch64",
    "loong64": "loongarch64",
    "ppc64le": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
}
# PEP 600: manylinux1 is 2_5 and manylinux2010 is 2_12, both for x86 alone; manylinux2014 is 2_17.
_ALIASES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_OLDEST_X86, _OLDEST = 5, 17


@dataclass(frozen=True, slots=True)
class WheelTarget:
    """An image's interpreter and system: CPython `python` (`3.12`), `platform`, `glibc` (`2.35`).

    Raises:
        ValueError: not such versions, or a platform that wheels are not made for.
    """

    python: str
    platform: Platform
    glibc: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"3\.(?:[89]|[1-9]\d)", self.python):
            raise ValueError(f"python {self.python!r} is not a version such as 3.12")
        if not re.fullmatch(r"2\.\d{1,2}", self.glibc):
            raise ValueError(f"glibc {self.glibc!r} is not a version such as 2.35")
        self._machine()

    def _machine(self) -> str:
        architecture, variant = self.platform.architecture, self.platform.variant
        names = [f"{architecture}/{variant}", architecture]
        found = next((_MACHINES[name] for name in names if name in _MACHINES), None)
        if found is None or self.platform.os != "linux":
            raise ValueError(f"no wheels are made for platform {self.platform}")
        return found

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags that the system runs, the newest first."""
        machine = self._machine()
        oldest = _OLDEST_X86 if machine in ("x86_64", "i686") else _OLDEST
        return (*_manylinux(machine, int(self.glibc[2:]), oldest), f"linux_{machine}")

    @property
    def pip_options(self) -> tuple[str, ...]:
        """Options of `pip download` that ask for this target; abi3 and `none` are implied."""
        return self._options([f"cp{self.python.replace('.', '')}"], self.platforms)

    def pip_options_for(self, filename: str) -> tuple[str, ...]:
        """Return options that ask for one wheel, as nearly as tags can tell it from others.

        An index that gives no hashes of its files leaves pip no other way to find it.
        """
        *_, tags = parse_wheel_filename(filename)
        fitting = tags & self.tags() or self.tags()  # a file that does not fit is not found
        abis, platforms = {one.abi for one in fitting}, {one.platform for one in fitting}
        return self._options(sorted(abis), sorted(platforms))

    def _options(self, abis: Iterable[str], platforms: Iterable[str]) -> tuple[str, ...]:
        options = ["--python-version", self.python, "--implementation", "cp"]
        for abi in abis:
            options += ["--abi", abi]
        for platform in platforms:
            options += ["--platform", platform]
        return tuple(options)

    def tags(self) -> frozenset[Tag]:
        """Return every tag that the target accepts."""
        major, minor = (int(part) for part in self.python.split("."))
        version, name = (major, minor), f"cp{major}{minor}"
        exact = cpython_tags(version, [name], self.platforms)
        return frozenset({*exact, *compatible_tags(version, name, self.platforms)})

    def accepts(self, filename: str) -> bool:
        """Tell whether the wheel of that file name can be installed there."""
        try:
            *_, tags = parse_wheel_filename(filename)
        except InvalidWheelFilename:
            return False
        return not self.tags().isdisjoint(tags)

    def __str__(self) -> str:
        return f"CPython {self.python} on {self.platform}, glibc {self.glibc}"


def _manylinux(machine: str, newest: int, oldest: int) -> Iterator[str]:
    for minor in range(newest, oldest - 1, -1):
        yield f"manylinux_2_{minor}_{machine}"
        if minor in _ALIASES:
            yield f"{_ALIASES[minor]}_{machine}"
