"""Wheels: every rule of the format, all faults at once."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from composer.errors import Fault, InputError, IntegrityError, UnreachableError
from composer.wheel import Scheme, read_wheel

from .support.wheels import FILENAME, ROOT, Packed, Rows, build_wheel, patch

ENTRY_POINTS = (
    b"[console_scripts]\ndemo = demo.cli:main\n\n[gui_scripts]\ndemo-gui=demo:App.run [x]\n"
)


def faults_of(path: Path, filename: str = "") -> tuple[Fault, ...]:
    """Return what is wrong with a wheel."""
    with pytest.raises(InputError) as caught:
        read_wheel(path, filename=filename)
    faults: tuple[Fault, ...] = caught.value.faults
    return faults


def fault(what: str, inner: str = "", *, expected: str = "", found: str = "") -> Fault:
    """Return a fault at a file of the wheel."""
    where = f"{FILENAME}: {inner}" if inner else FILENAME
    return Fault(what=what, where=where, expected=expected, found=found)


# The scheme


def test_scheme_of_usr_local() -> None:
    assert Scheme(ROOT, "/p").prefix == "usr/local"
    assert Scheme(ROOT, "/p").scripts == "usr/local/bin"
    assert Scheme(ROOT, "/p").data == "usr/local"
    assert Scheme(ROOT, "/p").headers("demo") == "usr/local/include/python3.12/demo"


def test_scheme_of_the_root_of_a_venv_and_of_free_threading() -> None:
    assert Scheme("lib/python3.12/site-packages", "/p").scripts == "bin"
    assert Scheme("opt/venv/lib/python3.13/site-packages", "/p").data == "opt/venv"
    free = Scheme("opt/lib64/python3.13t/site-packages", "/p")
    assert free.headers("demo") == "opt/include/python3.13t/demo"


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("usr/lib/python3/dist-packages", "is not a directory below lib/pythonX.Y/"),
        ("app/site-packages", "is not a directory below lib/pythonX.Y/"),
        ("usr/lib/python3.12", "is not a directory below lib/pythonX.Y/"),
        ("usr/lib/python3.12/a/b", "is not a directory below lib/pythonX.Y/"),
        ("/usr/lib/python3.12/site-packages", "is absolute"),
        ("usr/../lib/python3.12/site-packages", "has a '..' part"),
    ],
)
def test_scheme_refuses_roots(root: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"package root '{root}' {reason}"):
        Scheme(root, "/usr/bin/python3.12")


@pytest.mark.parametrize("interpreter", ["python3", "/usr/bin/py thon", "/a\n", "/" + 125 * "x"])
def test_scheme_refuses_interpreters(interpreter: str) -> None:
    with pytest.raises(ValueError, match="interpreter '"):
        Scheme(ROOT, interpreter)


def test_scheme_takes_the_longest_interpreter() -> None:
    assert Scheme(ROOT, "/" + 124 * "x").interpreter


# Reading


def test_reads_a_wheel(tmp_path: Path) -> None:
    path = build_wheel(
        tmp_path,
        name="Foo_Bar",
        version="1.0rc1",
        tag="cp38-abi3-manylinux_2_28_x86_64",
        replaced={
            "METADATA": b"Metadata-Version: 2.1\nName: foo.bar\nVersion: 1.0-rc.1\n"
            b"Requires-Dist: torch==2.11.0\nRequires-Python: >=3.10\n",
            "entry_points.txt": ENTRY_POINTS,
        },
    )
    wheel = read_wheel(path)
    assert (wheel.name, str(wheel.version), wheel.purelib) == ("foo-bar", "1.0rc1", True)
    assert wheel.filename == "Foo_Bar-1.0rc1-cp38-abi3-manylinux_2_28_x86_64.whl"
    assert {str(tag) for tag in wheel.tags} == {"cp38-abi3-manylinux_2_28_x86_64"}
    assert wheel.metadata["requires_dist"] == ["torch==2.11.0"]
    assert wheel.metadata["requires_python"] == ">=3.10"
    assert wheel.dist_info == "Foo_Bar-1.0rc1.dist-info"
    assert [(one.name, one.module, one.attr) for one in wheel.entry_points] == [
        ("demo", "demo.cli", "main"),
        ("demo-gui", "demo", "App.run"),
    ]
    assert [one.packed.name for one in wheel.files] == [
        "Foo_Bar-1.0rc1.dist-info/METADATA",
        "Foo_Bar-1.0rc1.dist-info/RECORD",
        "Foo_Bar-1.0rc1.dist-info/WHEEL",
        "Foo_Bar-1.0rc1.dist-info/entry_points.txt",
        "Foo_Bar/__init__.py",
    ]


def test_reads_a_wheel_that_lies_under_another_name(tmp_path: Path) -> None:
    path = build_wheel(tmp_path).rename(tmp_path / "0123abcd")
    wheel = read_wheel(path, filename="demo-1.0-py3-none-any.whl")
    assert (wheel.name, wheel.path) == ("demo", path)
    assert faults_of(path)[0].where == "0123abcd"


INIT = "demo/__init__.py"
NAME = "a file name of the archive "
KINDS = ".data has directories data, headers, platlib, purelib, scripts, and nothing else"


@pytest.mark.parametrize(
    ("name", "shown", "reason"),
    [
        ("/etc/passwd", "/etc/passwd", "is absolute"),
        ("//etc/passwd", "//etc/passwd", "is absolute"),
        ("..", "..", "has a '..' part"),
        ("../evil", "../evil", "has a '..' part"),
        ("demo/../../evil", "demo/../../evil", "has a '..' part"),
        ("../dir/", "../dir/", "has a '..' part"),
        ("{data}/data/../../../evil", "demo-1.0.data/data/../../../evil", "has a '..' part"),
        ("demo/./a", "demo/./a", "has an empty or '.' part"),
        ("demo//a", "demo//a", "has an empty or '.' part"),
        ("demo\\a", "demo\\a", "holds a backslash or a control character"),
        ("..\\a", "..\\a", "holds a backslash or a control character"),
        ("demo/a\0.py", "demo/a\\x00.py", "holds a backslash or a control character"),
        ("demo/\x1b[2J", "demo/\\x1b[2J", "holds a backslash or a control character"),
        (
            "demo/.wh.torch",
            "demo/.wh.torch",
            "has a part that starts with .wh., which removes files in an image layer",
        ),
        (
            ".wh..wh..opq",
            ".wh..wh..opq",
            "has a part that starts with .wh., which removes files in an image layer",
        ),
    ],
)
def test_names_that_leave_their_place(tmp_path: Path, name: str, shown: str, reason: str) -> None:
    path = build_wheel(tmp_path, unlisted=[(name, b"evil")])
    assert fault(NAME + reason, shown) in faults_of(path)


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        (
            {"unlisted": [(INIT, b"")]},
            fault("the archive holds the file 2 times", INIT),
        ),
        (
            {"files": {"demo/a": Packed(b"/etc/shadow", 0o120777)}},
            fault("not a regular file", "demo/a", found="a symbolic link"),
        ),
        (
            {"files": {"demo/a": Packed(b"", 0o010644)}},
            fault("not a regular file", "demo/a", found="file type 0o10000"),
        ),
        ({"central": {INIT: {"flag_bits": 1}}}, fault("the file is encrypted", INIT)),
        (
            {"files": {"demo/a": Packed(b"a", method=zipfile.ZIP_BZIP2)}},
            fault(
                "a compression method that wheels do not use",
                "demo/a",
                expected="0 (stored) or 8 (deflated)",
                found="12",
            ),
        ),
        (
            {
                "files": {"a": Packed(b"12345678", method=0), "b": Packed(b"1234", method=0)},
                "central": {"a": {"compress_size": 90}},
            },
            fault("the file shares its bytes with 'a'", "b"),
        ),
    ],
)
def test_rules_of_the_archive(tmp_path: Path, knobs: dict[str, Any], expected: Fault) -> None:
    assert faults_of(build_wheel(tmp_path, **knobs)) == (expected,)


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        (
            {"dist_info": "other-1.0.dist-info"},
            fault(
                "the .dist-info directory is of another distribution or version",
                expected="demo-1.0.dist-info",
                found="other-1.0.dist-info",
            ),
        ),
        (
            {"dist_info": "demo-1.1.dist-info"},
            fault(
                "the .dist-info directory is of another distribution or version",
                expected="demo-1.0.dist-info",
                found="demo-1.1.dist-info",
            ),
        ),
        (
            {"files": {"old-1.dist-info/METADATA": b""}},
            fault(
                "a wheel has exactly one .dist-info directory",
                expected="demo-1.0.dist-info",
                found="demo-1.0.dist-info, old-1.dist-info",
            ),
        ),
        ({"files": {"{data}/etc/x": b""}}, fault(KINDS, "demo-1.0.data/etc/x")),
        ({"files": {"{data}/x": b""}}, fault(KINDS, "demo-1.0.data/x")),
        (
            {"files": {"demo-2.0.data/scripts/x": b""}},
            fault(
                "a .data directory of another distribution or version", "demo-2.0.data/scripts/x"
            ),
        ),
        (
            {"files": {"demo.data/x": b""}},
            fault("a .data directory of another distribution or version", "demo.data/x"),
        ),
        (
            {"files": {"a.py": b"1", "{data}/purelib/a.py": b"1"}},
            fault("goes where 'a.py' goes", "demo-1.0.data/purelib/a.py"),
        ),
        (
            {"files": {"{data}/platlib/a.py": b"1", "{data}/purelib/a.py": b"2"}},
            fault("goes where 'demo-1.0.data/platlib/a.py' goes", "demo-1.0.data/purelib/a.py"),
        ),
        (
            {"replaced": {"WHEEL": b"Root-Is-Purelib: true\n"}},
            fault(
                "a version of the wheel format that is not known",
                "WHEEL",
                expected="1.0",
                found="none",
            ),
        ),
        (
            {"replaced": {"WHEEL": b"Wheel-Version: 2.0\nRoot-Is-Purelib: true\n"}},
            fault(
                "a version of the wheel format that is not known",
                "WHEEL",
                expected="1.0",
                found="2.0",
            ),
        ),
        (
            {"replaced": {"WHEEL": b"Wheel-Version: 1.9\nRoot-Is-Purelib: maybe\n"}},
            fault("Root-Is-Purelib is neither true nor false", "WHEEL", found="maybe"),
        ),
        (
            {"replaced": {"METADATA": b"Name: other\nVersion: 1.0\n"}},
            fault(
                "METADATA is of another distribution", "METADATA", expected="demo", found="other"
            ),
        ),
        (
            {"replaced": {"METADATA": b"Name: demo\nVersion: one\n"}},
            fault("METADATA is of another version", "METADATA", expected="1.0", found="one"),
        ),
        *(
            (
                {"replaced": {name: None}},
                fault(f"the wheel has no {name}", f"demo-1.0.dist-info/{name}"),
            )
            for name in ("METADATA", "RECORD", "WHEEL")
        ),
    ],
)
def test_rules_of_the_wheel(tmp_path: Path, knobs: dict[str, Any], expected: Fault) -> None:
    assert faults_of(build_wheel(tmp_path, **knobs)) == (expected,)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("../evil = demo:main", "the script's name is not that of a file"),
        ("a/b = demo:main", "the script's name is not that of a file"),
        (".. = demo:main", "the script's name is not that of a file"),
        (".wh.sh = demo:main", "the script's name is not that of a file"),
        ("demo = demo", "a script needs a callable, such as package.module:main"),
        ("demo = demo:", "a script needs a callable, such as package.module:main"),
        ("demo = demo.:main", "a script needs a callable, such as package.module:main"),
        ("demo = demo:class", "a script needs a callable, such as package.module:main"),
        ("demo = demo:a;import os", "a script needs a callable, such as package.module:main"),
    ],
)
def test_rules_of_scripts(tmp_path: Path, line: str, what: str) -> None:
    data = f"[console_scripts]\n{line}\n".encode()
    path = build_wheel(tmp_path, replaced={"entry_points.txt": data})
    assert faults_of(path) == (fault(what, "entry_points.txt", found=line),)


def test_entry_points_that_cannot_be_read(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, replaced={"entry_points.txt": b"demo = demo:main\n"})
    (found,) = faults_of(path)
    assert (found.what, found.where) == ("not readable", f"{FILENAME}: entry_points.txt")
    assert "no section headers" in found.found


def test_entry_points_of_other_groups_say_nothing(tmp_path: Path) -> None:
    data = b"[vllm.general_plugins]\nLoRA = a.b:c\nlora = a.b\n"
    assert read_wheel(build_wheel(tmp_path, replaced={"entry_points.txt": data})).entry_points == ()


def rows(old: str, *new: tuple[str, str, str]) -> Callable[[Rows], Rows]:
    """Return a change of RECORD that replaces the row of the path `old`."""
    return lambda given: [row for row in given if row[0] != old] + list(new)


HASH = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"  # of nothing


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (rows(INIT), fault("RECORD does not list the file", INIT)),
        (
            rows("", ("demo/gone.py", HASH, "0")),
            fault("RECORD lists a file that the archive does not have", "demo/gone.py"),
        ),
        (rows(INIT, (INIT, "", "")), fault("RECORD gives no hash of the file", INIT)),
        (
            rows(INIT, (INIT, HASH, "5")),
            fault("the file's size differs", INIT, expected="5 bytes (RECORD)", found="0 bytes"),
        ),
        (
            rows("", (INIT, HASH.replace("47D", "48D"), "0")),
            fault(f"RECORD contradicts itself over '{INIT}'"),
        ),
        (
            rows(INIT, (INIT, "md5=1B2M2Y8AsgTpgAmY7PhCfg", "0")),
            fault(
                "hash algorithm 'md5' is not sha256 or better",
                "RECORD row 4",
                found=f"['{INIT}', 'md5=1B2M2Y8AsgTpgAmY7PhCfg', '0']",
            ),
        ),
        (
            rows(INIT, (INIT, "sha256=47DE", "0")),
            fault(
                "the hash is not as long as a sha256",
                "RECORD row 4",
                found=f"['{INIT}', 'sha256=47DE', '0']",
            ),
        ),
        (
            rows(INIT, (INIT, "sha256=4+/=", "0")),
            fault(
                "the hash is not urlsafe base64",
                "RECORD row 4",
                found=f"['{INIT}', 'sha256=4+/=', '0']",
            ),
        ),
        (
            rows(INIT, (INIT, HASH, "-1")),
            fault(
                "the size is not a number of bytes",
                "RECORD row 4",
                found=f"['{INIT}', '{HASH}', '-1']",
            ),
        ),
    ],
)
def test_rules_of_record(tmp_path: Path, record: Callable[[Rows], Rows], expected: Fault) -> None:
    assert faults_of(build_wheel(tmp_path, record=record)) == (expected,)


@pytest.mark.parametrize("raw", [b"\xff,,\n", b'"a\n', b"a,b\n"])
def test_record_that_is_no_record(tmp_path: Path, raw: bytes) -> None:
    found = faults_of(build_wheel(tmp_path, replaced={"RECORD": raw}))
    assert [one.what for one in found] in (
        ["RECORD is not CSV in UTF-8"],
        ["not path, hash and size"],
    )


@pytest.mark.parametrize(
    "record",
    [
        rows("", (INIT, HASH, "0")),  # twice the same
        rows(INIT, (INIT, HASH, "")),  # "either or both of the hash and size may be left empty"
        rows("demo-1.0.dist-info/RECORD"),  # "RECORD ... cannot be listed": some do not
    ],
)
def test_record_may_say_less(tmp_path: Path, record: Callable[[Rows], Rows]) -> None:
    assert read_wheel(build_wheel(tmp_path, record=record)).name == "demo"


def test_signatures_of_record_need_not_be_listed(tmp_path: Path) -> None:
    signatures = [("{info}/RECORD.jws", b"{}"), ("{info}/RECORD.p7s", b"x")]
    assert len(read_wheel(build_wheel(tmp_path, unlisted=signatures)).files) == 6


def test_every_fault_is_reported_at_once(tmp_path: Path) -> None:
    path = build_wheel(
        tmp_path,
        {"{data}/lib/x": b"", "demo/a": Packed(b"/", 0o120777), "demo/b": b"b"},
        replaced={"METADATA": b"Name: x\nVersion: 2\n", "WHEEL": b""},
        record=rows("demo/b"),
        unlisted=[("../evil", b""), ("demo/a", b"again")],
    )
    assert [one.what for one in faults_of(path)] == [
        "not a regular file",
        "a file name of the archive has a '..' part",
        "the archive holds the file 2 times",
        KINDS,
        "RECORD does not list the file",
        "RECORD does not list the file",
        "the file's size differs",
        "a version of the wheel format that is not known",
        "Root-Is-Purelib is neither true nor false",
        "METADATA is of another distribution",
        "METADATA is of another version",
    ]


@pytest.mark.parametrize(
    "filename", ["demo.whl", "demo-1.0.zip", "demo-1.0-py3-none.whl", "demo-x-py3-none-any.whl"]
)
def test_file_names(tmp_path: Path, filename: str) -> None:
    (found,) = faults_of(build_wheel(tmp_path), filename)
    assert (found.what, found.where) == ("not the name of a wheel", filename)


@pytest.mark.parametrize("cut", [0, 10, -10])
def test_a_file_that_is_no_archive(tmp_path: Path, cut: int) -> None:
    path = build_wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    (found,) = faults_of(path)
    assert (found.what, found.where) == ("not a zip archive, or a damaged one", str(path))
    assert found.fix == "fetch the file again"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="No such file or directory"):
        read_wheel(tmp_path / FILENAME)


def test_metadata_that_is_damaged(tmp_path: Path) -> None:
    data = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n\nhonest\n"
    path = build_wheel(tmp_path, replaced={"METADATA": Packed(data, method=0)})
    patch(path, b"honest", b"forged")
    with pytest.raises(IntegrityError) as caught:
        read_wheel(path)
    (found,) = caught.value.faults
    assert found.where == f"{FILENAME}: demo-1.0.dist-info/METADATA"
    assert found.expected.startswith("CRC-32 ")


def test_metadata_that_is_too_large(tmp_path: Path) -> None:
    size = 64 * 1024 * 1024 + 1
    path = build_wheel(
        tmp_path,
        record=rows("demo-1.0.dist-info/METADATA", ("demo-1.0.dist-info/METADATA", HASH, "")),
        central={"demo-1.0.dist-info/METADATA": {"file_size": size}},
    )
    inner = "demo-1.0.dist-info/METADATA"
    assert faults_of(path) == (fault("larger than 67108864 bytes", inner),)
