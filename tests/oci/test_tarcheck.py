"""The rules of our archives: each broken on purpose, and named."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from composer.oci.filetree import Entry
from composer.oci.layer import tar, whiteout
from composer.oci.tarcheck import check_tar

from .support import MEMBERS, archive, file, folder
from .test_layer import tricky

F, D = Entry("f"), Entry("d", mode=0o755)
END = bytes(1024)


def one(path: str, content: bytes = b"") -> bytes:
    """A file without an archive's end."""
    return b"".join(tar([file(path, content)]))[:-1024]


def dir_of(path: str) -> bytes:
    return b"".join(tar([folder(path)]))[:-1024]


def faults(data: bytes) -> list[str]:
    whole = check_tar([data])
    # However it is cut, the same is found.
    assert check_tar(data[at : at + 700] for at in range(0, len(data), 700)) == whole
    assert check_tar([b"", *(data[at : at + 1] for at in range(len(data))), b""]) == whole
    return whole


@pytest.mark.parametrize("members", [(), MEMBERS, tricky()], ids=["none", "few", "tricky"])
def test_what_layer_writes_is_without_fault(members: list[object]) -> None:
    assert faults(b"".join(tar(members))) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        # order and duplicates
        (one("b") + one("a") + END, ["'a' is out of order, after 'b'"]),
        (one("b") + one("a") + one("c") + END, ["'a' is out of order, after 'b'"]),
        (one("a") + one("a") + END, ["'a' is there twice"]),
        (one("a") + one("b") + one("a") + END, ["'a' is there twice"]),
        (dir_of("a") + one("a-b") + one("a/c") + END, []),
        # ancestors
        (one("a/b") + END, ["'a/b' has no entry for its directory 'a' before it"]),
        (dir_of("a/b") + END, ["'a/b' has no entry for its directory 'a' before it"]),
        (one("a") + one("a/b") + END, ["'a/b' has no entry for its directory 'a' before it"]),
        (one("a/b") + dir_of("a") + END, ["'a/b' has no entry for its directory 'a' before it",
                                          "'a' is out of order, after 'a/b'"]),
        (one("d/.wh.x") + END, ["'d/.wh.x' has no entry for its directory 'd' before it"]),
        # names
        (one("/a") + END, ["'/a' is not a normalised path"]),
        (one("./a") + END, ["'./a' is not a normalised path"]),
        (one("a//b") + END, ["'a//b' is not a normalised path"]),
        (one("a/./b") + END, ["'a/./b' is not a normalised path"]),
        (one("../a") + END, ["'../a' is not a normalised path"]),
        (one("a/") + END, ["'a/' is not a normalised path"]),
        (dir_of("a/") + END, ["'a//' is not a normalised path"]),
        (dir_of(".") + END, ["'./' is not a normalised path"]),
        (one("x" * 120 + "/") + END, [f"'{'x' * 120}/' is not a normalised path"]),
        # whiteouts
        (one(".wh.a", b"x") + END, ["'.wh.a' is a whiteout with 1 bytes in it"]),
        (one(".wh.a") + one("a") + END, ["'a' is both written and removed"]),
        (dir_of("d") + one("d/.wh.a") + dir_of("d/a") + END, ["'d/a' is both written and removed"]),
        # the end
        (one("a") + bytes(512), ["the archive ends 512 bytes early"]),
        (one("a"), ["the archive ends 512 bytes early"]),
        (one("a", b"x" * 600)[:-200] + b"", ["the archive ends 200 bytes early"]),
        (one("a") + END + b"x", ["1 bytes follow the archive's end"]),
        (one("a") + END + END, ["1024 bytes follow the archive's end"]),
        (one("a") + bytes(512) + one("b") + END,
         ["the archive does not end with two records of zeros",
          "1024 bytes follow the archive's end"]),
        (b"", ["the archive ends 512 bytes early"]),
    ],
)  # fmt: skip
def test_faults(data: bytes, found: list[str]) -> None:
    assert faults(data) == found


def test_every_fault_is_listed() -> None:
    data = one("b") + one("/x") + one("a/c") + one("b") + END + b"."
    assert faults(data) == [
        "'/x' is not a normalised path",
        "'a/c' is out of order, after 'b'",
        "'a/c' has no entry for its directory 'a' before it",
        "'b' is there twice",
        "1 bytes follow the archive's end",
    ]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (b"1", "'a' is a hard link, not a regular file or a directory"),
        (b"2", "'a' is a symbolic link, not a regular file or a directory"),
        (b"3", "'a' is an entry of type '3', not"),
        (b"g", "'a' is an entry of type 'g', not"),
        (b"L", "'a' is an entry of type 'L', not"),
        (b"S", "'a' is an entry of type 'S', not"),
        (b"\0", "'a' is an entry of type '\\x00', not"),
    ],
)
def test_other_kinds_of_entry(kind: bytes, found: str) -> None:
    header = bytearray(one("a"))
    header[156:157] = kind
    (fault,) = faults(resealed(header) + END)
    assert fault.startswith(found)


def resealed(header: bytearray) -> bytes:
    """The header with a checksum that is right again."""
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bytes(header)


def test_a_link_of_pythons_tarfile_is_found() -> None:
    data = archive([("a", F, b"x"), ("b", Entry("h", link="a"), b"")])
    assert "'b' is a hard link, not a regular file or a directory" in check_tar([data])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: data.__setitem__(0, 0x62), "a header says checksum"),
        (lambda data: data.__setitem__(slice(148, 156), b"xxxxxxxx"), "a checksum is b'xxxxxxxx'"),
        (lambda data: data.__setitem__(slice(124, 128), b"0_0\0"), "the size of 'a' is b'0_0"),
        (lambda data: data.__setitem__(slice(257, 265), b"ustar  \0"), "a header has magic"),
        (lambda data: data.__setitem__(slice(124, 128), b"\x80\0\0\0"), "the size of 'a' is"),
    ],
)
def test_headers_that_cannot_be_trusted(change: Callable[[bytearray], None], found: str) -> None:
    data = bytearray(one("a"))
    change(data)
    if "checksum" not in found:
        data = bytearray(resealed(data))
    (fault,) = faults(bytes(data) + END)
    assert fault.startswith(found)


def test_padding_is_zeros() -> None:
    data = bytearray(one("a", b"x"))
    data[512 + 100] = 1
    assert faults(bytes(data) + END) == ["'a' is padded with other bytes than zeros"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"13 path=abc\n", "an extended header has the record b'13 path=abc\\n'"),
        (b"x path=abc\n", "an extended header has the record b'x path=abc\\n'"),
        (b"11 pathxabc\n", "an extended header has the record b'11 pathxabc\\n'"),
        (b"0 path=abc\n", "an extended header has the record"),
        (b"9" * 5000 + b" path=abc\n", "an extended header has the record"),
        (b"4008 size=" + b"1" * 4000 + b"\n", "an extended header has the record"),
        (b"4011 size=" + b"1" * 4000 + b"\n", "an extended header has the size b'1111"),
        (b"11 size=-12\n", "an extended header has the record"),
        (b"12 size=-12\n", "an extended header has the size b'-12'"),
    ],
)
def test_broken_extended_headers(body: bytes, found: str) -> None:
    header = bytearray(one("././@PaxHeader", body))
    header[156:157] = b"x"
    data = resealed(header[:512]) if len(header) == 512 else resealed(header[:512]) + header[512:]
    (fault,) = faults(data + one("a") + END)
    assert fault.startswith(found), fault


def test_an_extended_header_over_the_limit_is_not_read() -> None:
    header = bytearray(one("x"))
    header[156:157] = b"x"
    header[124:136] = b"%011o\0" % (1024 * 1024 + 1)
    assert check_tar([resealed(header)]) == ["an extended header of 1048577 bytes"]


def test_whiteouts_of_ours_are_without_fault() -> None:
    members = [whiteout("a", 0), folder("d"), whiteout("d/a", 0), file("d/b", b"")]
    assert faults(b"".join(tar(members))) == []


def test_the_messages_quote_names_that_are_no_text() -> None:
    (fault,) = faults(one("\udce9/x") + END)
    assert re.fullmatch(r"'\\udce9/x' has no entry for its directory '\\udce9' before it", fault)
