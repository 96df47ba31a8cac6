"""The metadata files of a wheel: WHEEL, METADATA and entry_points.txt.

Sources: PyPA "Binary distribution format" (WHEEL), "Core metadata specifications",
"Entry points specification" (file format, use for scripts).
"""

from __future__ import annotations

import configparser
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser

from packaging.metadata import RawMetadata, parse_email
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ..errors import Fault
from .archive import path_fault

__all__ = ["EntryPoint", "check_wheel_file", "parse_entry_points", "parse_metadata"]

_SCRIPTS = ("console_scripts", "gui_scripts")  # the same thing everywhere but on Windows
# "importable.module:object.attr", and extras, which the specification has since withdrawn.
_OBJECT = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<attr>[\w.]+)\s*(?:\[[^]]*\]\s*)?")


@dataclass(frozen=True, slots=True, order=True)
class EntryPoint:
    """A script called `name` that calls `attr` of `module`."""

    name: str
    module: str
    attr: str


def check_wheel_file(data: bytes) -> tuple[bool, list[Fault]]:
    """Return what WHEEL says of Root-Is-Purelib, and what is wrong with the file."""
    headers = HeaderParser().parsestr(data.decode("utf-8", "replace"))
    version, pure = headers.get("Wheel-Version", ""), headers.get("Root-Is-Purelib", "")
    faults = []
    # "warn if minor version is greater, abort if major version is greater"
    if not re.fullmatch(r"1\.\d+", version.strip()):
        what = "a version of the wheel format that is not known"
        faults.append(Fault(what=what, where="WHEEL", expected="1.0", found=version or "none"))
    if pure.strip().lower() not in ("true", "false"):
        what = "Root-Is-Purelib is neither true nor false"
        faults.append(Fault(what=what, where="WHEEL", found=pure or "none"))
    return pure.strip().lower() == "true", faults


def parse_metadata(data: bytes, name: str, version: Version) -> tuple[RawMetadata, list[Fault]]:
    """Return METADATA, which must name the distribution of the wheel's file name."""
    metadata, _ = parse_email(data)
    faults = []
    found = metadata.get("name", "")
    if canonicalize_name(found) != name:
        what = "METADATA is of another distribution"
        faults.append(Fault(what=what, where="METADATA", expected=name, found=found or "none"))
    number = metadata.get("version", "")
    if not _same_version(number, version):
        what = "METADATA is of another version"
        expected = str(version)
        faults.append(Fault(what=what, where="METADATA", expected=expected, found=number or "none"))
    return metadata, faults


def _same_version(text: str, version: Version) -> bool:
    try:
        return Version(text) == version
    except InvalidVersion:
        return False


class _CaseSensitive(configparser.ConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def parse_entry_points(data: bytes) -> tuple[tuple[EntryPoint, ...], list[Fault]]:
    """Return the scripts of entry_points.txt, and what is wrong with them."""
    parser = _CaseSensitive(delimiters=("=",), interpolation=None)
    try:
        parser.read_string(data.decode(), "entry_points.txt")
    except (configparser.Error, UnicodeDecodeError) as error:
        return (), [Fault(what="not readable", where="entry_points.txt", found=str(error))]
    points, faults = [], []
    for name, value in _scripts(parser):
        try:
            points.append(_entry_point(name, value))
        except ValueError as error:
            found = f"{name} = {value}"
            faults.append(Fault(what=str(error), where="entry_points.txt", found=found))
    return tuple(sorted(points)), faults


def _scripts(parser: configparser.ConfigParser) -> Iterator[tuple[str, str]]:
    for section in _SCRIPTS:
        if parser.has_section(section):
            yield from parser.items(section)


def _entry_point(name: str, value: str) -> EntryPoint:
    """Parse one script.

    Raises:
        ValueError: the name is not that of a file, or the value not that of a callable.
    """
    if "/" in name or path_fault(name):
        raise ValueError("the script's name is not that of a file")
    match = _OBJECT.fullmatch(value)
    dotted = f"{match['module']}.{match['attr']}".split(".") if match else [""]
    if match is None or not all(
        one.isidentifier() and not keyword.iskeyword(one) for one in dotted
    ):
        raise ValueError("a script needs a callable, such as package.module:main")
    return EntryPoint(name, match["module"], match["attr"])
