"""Layers scanned: what GNU tar and Python's tarfile write is read as tarfile reads it."""

from __future__ import annotations

import gzip
import io
import os
import random
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.errors import InputError, IntegrityError
from composer.oci.decode import Limits
from composer.oci.digest import sha256
from composer.oci.encoding import stored_gzip
from composer.oci.filetree import Entry, LayerTable
from composer.oci.layer import Member, tar
from composer.oci.scan import Scanned, scan
from composer.oci.toc import decode, encode

from .support import MEMBERS, file, folder, is_root, needs, properties, run

TYPE = "application/octet-stream"
KINDS = {
    tarfile.REGTYPE: "f",
    tarfile.AREGTYPE: "f",
    tarfile.GNUTYPE_SPARSE: "f",
    tarfile.DIRTYPE: "d",
    tarfile.SYMTYPE: "l",
    tarfile.LNKTYPE: "h",
    tarfile.CHRTYPE: "c",
    tarfile.BLKTYPE: "b",
    tarfile.FIFOTYPE: "p",
}


def scanned(data: bytes, size: int = 1 << 20, **options: object) -> Scanned:
    """Scan an archive in chunks of `size` bytes."""
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    return scan(chunks, TYPE, where="layer 7", **options)  # type: ignore[arg-type]


def by_tarfile(data: bytes) -> LayerTable:
    """The table as Python's own reader sees the archive."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        return LayerTable.of([(one.name, entry_of(archive, one)) for one in archive])


def entry_of(archive: tarfile.TarFile, one: tarfile.TarInfo) -> Entry:
    kind = KINDS[one.type]
    content = archive.extractfile(one) if kind == "f" else None
    prefix = "SCHILY.xattr."
    xattrs = [
        (key.removeprefix(prefix), value)
        for key, value in sorted(one.pax_headers.items())
        if key.startswith(prefix)
    ]
    return Entry(
        kind,
        mode=one.mode & 0o7777,
        uid=one.uid,
        gid=one.gid,
        mtime=int(one.mtime // 1),
        size=one.size if kind == "f" else 0,
        sha256=sha256(content.read()).hex if content else "",
        link=one.linkname if kind in "hl" else "",
        xattrs=tuple(xattrs),
    )


def check(data: bytes, size: int = 1 << 20) -> LayerTable:
    found = scanned(data, size)
    assert found.table == by_tarfile(data)
    assert found.diff_id == sha256(data)
    assert found.size == len(data)
    assert decode(encode(found.table)) == found.table
    return found.table


def block(name: bytes, content: bytes = b"", **fields: bytes) -> bytes:
    """One entry with its raw fields; `checksum` last, so that it is right unless given."""
    header = bytearray(512)
    places = {"mode": 100, "uid": 108, "gid": 116, "size": 124, "mtime": 136, "kind": 156}
    places |= {"link": 157, "magic": 257, "prefix": 345, "sparse": 386, "tail": 508}
    default = {"mode": b"0000644", "size": b"%011o" % len(content), "magic": b"ustar\x0000"}
    header[: len(name)] = name
    for key, value in {**default, "kind": b"0", **fields}.items():
        if key != "checksum":
            header[places[key] : places[key] + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = fields.get("checksum", b"%06o\0 " % sum(header))
    return bytes(header) + content + bytes(-len(content) % 512)


def pax(kind: bytes, **records: bytes) -> bytes:
    return block(b"pax", b"".join(record(*one) for one in records.items()), kind=kind)


def record(key: str, value: bytes) -> bytes:
    rest = b" " + key.encode() + b"=" + value + b"\n"
    length = len(rest) + 1
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


END = bytes(1024)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one of everything that a tar may hold."""
    root = tmp_path_factory.mktemp("tree")
    content = random.Random(1)
    deep = root / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    (root / "empty").write_bytes(b"")
    (root / "large.bin").write_bytes(content.randbytes(3_000_000))
    (deep / ("f" * 90)).write_bytes(b"long")
    (root / "sub").mkdir()
    for number in range(60):
        (root / "sub" / f"{number}.py").write_bytes(content.randbytes(number * 37))
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o4755)
    (root / "link").symlink_to("../elsewhere/" + "t" * 150)
    (root / "hard").hardlink_to(root / "run.sh")
    (root / ".wh.gone").write_bytes(b"")
    (root / "sub" / ".wh..wh..opq").write_bytes(b"")
    os.mkfifo(root / "pipe")
    os.utime(root / "empty", (1, 1_700_000_000.75))
    if is_root:
        os.mknod(root / "null", 0o20666, os.makedev(1, 3))
        os.chown(root / "empty", 3_000_000, 4_000_000)
    return root


@pytest.fixture(scope="session")
def holes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of sparse files: one of few parts, one of many, one of a hole alone."""
    root = tmp_path_factory.mktemp("holes")
    with (root / "few").open("wb") as out:
        out.write(b"head")
        out.seek(1 << 20)
        out.write(b"middle" * 1000)
        out.truncate(3 << 20)
    with (root / "many").open("wb") as out:
        for number in range(90):
            out.seek(number * 64 * 1024)
            out.write(b"%d" % number)
    with (root / "none").open("wb") as out:
        out.truncate(1 << 20)
    (root / "plain").write_bytes(b"plain")
    return root


def packed(root: Path, *options: str) -> bytes:
    done = subprocess.run(
        ["tar", "-cf", "-", *options, "-C", str(root), "."], capture_output=True, check=True
    )
    return done.stdout


@needs("tar")
@pytest.mark.parametrize(
    "options",
    [
        ("--format=gnu",),
        ("--format=oldgnu", "--numeric-owner"),
        ("--format=pax",),
        ("--format=pax", "--pax-option=delete=atime,delete=ctime", "--blocking-factor=1"),
        ("--format=pax", "--xattrs"),
    ],
)
@pytest.mark.parametrize("size", [511, 1 << 20])
def test_gnu_tar(tree: Path, options: tuple[str, ...], size: int) -> None:
    table = check(packed(tree, *options), size)
    assert table.whiteouts == {"gone"}
    assert table.opaque == {"sub"}
    assert table.entries["hard"].link == "run.sh" or table.entries["run.sh"].link == "hard"
    assert table.entries["empty"].mtime == 1_700_000_000


@needs("tar")
def test_ustar_and_v7(tree: Path) -> None:
    for form in ("ustar", "v7"):
        too_long = "fff*" if form == "ustar" else "ddd*"
        options = ["--owner=0", "--group=0", "--exclude=link", f"--exclude={too_long}"]
        data = packed(tree, *options, f"--format={form}", "--exclude=pipe", "--exclude=null")
        table = check(data)
        assert ("d" * 90 in table.entries) == (form == "ustar")


@needs("tar")
@pytest.mark.parametrize(
    "options", ["gnu", "oldgnu", "pax --sparse-version=0.0", "pax --sparse-version=0.1", "pax"]
)
def test_sparse_files(holes: Path, options: str) -> None:
    data = packed(holes, "--sparse", *f"--format={options}".split())
    assert len(data) < 2 << 20  # it is sparse, or this tests nothing
    found = scanned(data, 700, wanted=lambda path, _: path == "many")
    for name in ("few", "many", "none", "plain"):
        content = (holes / name).read_bytes()
        entry = found.table.entries[name]
        assert (entry.size, entry.sha256) == (len(content), sha256(content).hex), name
    assert found.contents == {"many": (holes / "many").read_bytes()}


@needs("tar")
def test_extended_attributes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    value = bytes(range(1, 256)) + b"=\n\0\xff"
    try:
        os.setxattr(tmp_path / "a", "user.binary", value)
    except OSError:
        pytest.skip("this file system keeps no extended attributes")
    table = check(packed(tmp_path, "--format=pax", "--xattrs"))
    ((key, text),) = table.entries["a"].xattrs
    assert (key, text.encode("utf-8", "surrogateescape")) == ("user.binary", value)


names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=130)
paths = st.lists(names, min_size=1, max_size=3).map("/".join).filter(lambda one: ".." not in one)
numbers = st.one_of(st.integers(0, 5000), st.integers(0, 2**40))


@st.composite
def infos(draw: st.DrawFn) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(draw(st.sampled_from(["", "./", "/"])) + draw(paths))
    # Not the oldest type: tarfile judges by a name's first 100 bytes whether it is a directory.
    info.type = draw(st.sampled_from(sorted(KINDS.keys() - {b"\0", tarfile.GNUTYPE_SPARSE})))
    content = draw(st.binary(max_size=1500)) if KINDS[info.type] == "f" else b""
    info.size = len(content)
    info.mode = draw(st.integers(0, 0o7777))
    info.uid, info.gid = draw(numbers), draw(numbers)
    info.mtime = draw(numbers)
    if KINDS[info.type] in "hl":
        info.linkname = draw(paths)
    return info, content


@given(
    st.lists(infos(), max_size=6),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.integers(1, 2000),
)
@properties(150)
def test_any_tree_of_tarfile(
    members: list[tuple[tarfile.TarInfo, bytes]], form: int, size: int
) -> None:
    packing = io.BytesIO()
    with tarfile.open(fileobj=packing, mode="w", format=form) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    data = packing.getvalue()
    try:
        expected = by_tarfile(data)
    except ValueError:  # a file with others in it, or a whiteout of nothing
        with pytest.raises(InputError, match="layer 7"):
            scanned(data, size)
    else:
        assert scanned(data, size).table == expected


def test_a_layer_of_ours() -> None:
    capability = bytes.fromhex("0100000200200000000000000000000000000080")
    xattrs = (("security.capability", capability.decode("utf-8", "surrogateescape")),)
    members: list[Member] = [
        folder("a", mtime=-5, xattrs=xattrs),
        file("a/" + "n" * 200 + "\udcff", b"x" * 1000, uid=2**33, mode=0o755),
        *MEMBERS,
    ]
    found = scan(map(bytes, stored_gzip(tar(members))), TYPE, where="layer 7")
    assert dict(found.table.entries) == {one.path: one.entry for one in members}
    assert found.diff_id == sha256(b"".join(tar(members)))


def test_later_entries_win_and_names_are_normal() -> None:
    data = b"".join(
        [
            block(b"./a", b"old"),
            block(b"/b//c/", kind=b"5"),
            block(b"./", kind=b"5"),
            block(b"a", b"new"),
            block(b"olddir/", kind=b"\0"),
            block(b"lib", kind=b"2", link=b"b/c"),
            block(b"lib/x", b"through a link"),
            END,
        ]
    )
    found = scanned(data, wanted=lambda *_: True)
    assert sorted(found.table.entries) == ["a", "b/c", "b/c/x", "lib", "olddir"]
    assert found.contents == {"a": b"new", "b/c/x": b"through a link"}
    assert found.table.entries["olddir"].is_dir


def test_pax_as_engines_read_it() -> None:
    data = b"".join(
        [
            pax(b"g", mtime=b"99", path=b"elsewhere", comment=b"from git archive"),
            block(b"plain", mtime=b"00000000007"),
            pax(b"x", mtime=b"-1.5", uid=b"", linkpath=b"far/away"),
            block(b"link", kind=b"2", link=b"near", uid=b"0000012"),
            END,
        ]
    )
    table = scanned(data).table
    assert table.entries["plain"].mtime == 7
    assert table.entries["link"] == Entry("l", 0o644, 10, 0, -2, link="far/away")


def test_numbers_in_base_256() -> None:
    data = block(
        b"a",
        uid=b"\x80" + struct.pack(">Q", 2**40)[1:],
        gid=b"\x80\0\0\0\0\0\1\0",
        mtime=b"\xff" * 11 + b"\xfb",
    )
    entry = check(data + END).entries["a"]
    assert (entry.uid, entry.gid, entry.mtime) == (2**40, 256, -5)


def test_star_and_signed_checksums() -> None:
    prefix = b"p" * 131 + b"00000000000 00000000000 "
    table = scanned(block(b"a", prefix=prefix, tail=b"tar\0") + END).table
    assert list(table.entries) == ["p" * 131 + "/a"]
    header = bytearray(block(b"\xe9t\xe9"))
    signed = sum(header) - sum(header[148:156]) + 256 - 2 * 256
    header[148:156] = b"%06o\0 " % signed
    assert list(scanned(bytes(header) + END).table.entries) == ["\udce9t\udce9"]


def test_what_follows_the_end_is_hashed_and_not_read() -> None:
    data = block(b"a") + END + b"not a header" * 1000
    found = scanned(data, 100)
    assert list(found.table.entries) == ["a"]
    assert found.diff_id == sha256(data)


def test_an_archive_without_its_end_marker() -> None:
    assert list(scanned(block(b"a", b"text")).table.entries) == ["a"]
    assert scanned(b"").table.entries == {}


MALFORMED = {
    "states the checksum": block(b"a", checksum=b"0000012\0"),
    "cut short by 3": block(b"a", b"abc")[:-512],
    "cut short by 509": block(b"a", b"abc")[:-509],
    "cut short in a header": block(b"a")[:-1],
    "where the archive's end has two": bytes(512) + block(b"a"),
    "the number b'12x'": block(b"a", mtime=b"12x"),
    "the number b'9'": block(b"a", uid=b"9"),
    "a regular file of -1 bytes": block(b"a", size=b"\xff" * 12),
    "a regular file of 0 bytes named './'": block(b"./"),
    "the record b'99 path=a": block(b"p", b"99 path=a\n", kind=b"x") + block(b"a"),
    "the record b'path=a": block(b"p", b"path=a\n", kind=b"x") + block(b"a"),
    "the time b'1.x'": pax(b"x", mtime=b"1.x") + block(b"a"),
    "does not fit it": pax(b"x", **{"GNU.sparse.size": b"9", "GNU.sparse.map": b"0,5"})
    + block(b"a", b"1234"),
    "map of an odd length": pax(b"x", **{"GNU.sparse.size": b"9", "GNU.sparse.map": b"0,5,9"})
    + block(b"a", b"1234"),
    "of an unknown version": pax(b"x", **{"GNU.sparse.size": b"9", "GNU.sparse.major": b"7"})
    + block(b"a", b"1234"),
    "map without end": pax(
        b"x", **{"GNU.sparse.realsize": b"9", "GNU.sparse.major": b"1", "GNU.sparse.minor": b"0"}
    )
    + block(b"a", b"99999999999\n" + b"1\n" * (1 << 20)),
}
REFUSED = {
    "has a '..' part": block(b"a/../../etc/passwd"),
    "'..' has a '..' part": block(b"..", kind=b"5"),
    "'../x' has a '..' part": block(b"h", kind=b"1", link=b"../x"),
    "a name or link of 5000 bytes": pax(b"x", path=b"n" * 5000) + block(b"a"),
    "a name or link of 4097 bytes": block(b"K", b"n" * 4097, kind=b"K") + block(b"a", kind=b"2"),
    "a NUL in a name": pax(b"x", path=b"a\0b") + block(b"a"),
    "an entry of type 'V'": block(b"label", kind=b"V"),
    "an entry of type 'M'": block(b"part", kind=b"M"),
    "a PAX header of 1073741824 bytes": block(b"p", kind=b"x", size=b"10000000000"),
    "a long name of 1048577 bytes": block(b"p", kind=b"L", size=b"00004000001"),
    "names nothing": block(b"d/.wh."),
    "is not a directory": block(b"a") + block(b"a/b"),
}


@pytest.mark.parametrize("found", MALFORMED)
def test_malformed(found: str) -> None:
    with pytest.raises(IntegrityError, match="archive is malformed") as caught:
        scanned(block(b"before") + MALFORMED[found] + (END if "short" not in found else b""))
    (fault,) = caught.value.faults
    assert found in fault.found
    assert fault.where.startswith("layer 7, at or after entry '")


@pytest.mark.parametrize("found", REFUSED)
def test_refused(found: str) -> None:
    with pytest.raises(InputError, match="no image may have") as caught:
        scanned(block(b"before") + REFUSED[found] + END)
    (fault,) = caught.value.faults
    assert found in fault.found
    assert fault.where.startswith("layer 7, at or after entry '")


def test_holes_without_end_are_refused() -> None:
    data = pax(b"x", **{"GNU.sparse.size": b"9" * 17, "GNU.sparse.map": b""}) + block(b"a")
    with pytest.raises(IntegrityError, match="holes without end"):
        scanned(data + END)


def test_holes_are_counted_together() -> None:
    sparse = pax(b"x", **{"GNU.sparse.size": b"1000000", "GNU.sparse.map": b""})
    data = b"".join(sparse + block(b"%d" % number) for number in range(3))
    limits = Limits(total=2_500_000, ratio=1, free=2_500_000)
    with pytest.raises(IntegrityError, match="holes without end") as caught:
        scanned(data + END, limits=limits)
    assert caught.value.faults[0].found.startswith("3000000 bytes")


def test_contents_are_those_of_the_table() -> None:
    def long_ones(_: str, entry: Entry) -> bool:
        return entry.size > 3

    data = block(b"a", b"wanted") + block(b"b", b"wanted") + block(b"c", b"wanted")
    data += block(b"a", b"not") + block(b"b", kind=b"5") + END
    assert scanned(data, wanted=long_ones).contents == {"c": b"wanted"}


def test_damage_below_the_archive_is_named_so() -> None:
    packed_up = gzip.compress(block(b"a", random.Random(3).randbytes(2_000_000)) + END)
    with pytest.raises(IntegrityError, match="gzip: the stream is cut short"):
        scanned(packed_up[: len(packed_up) // 2])


def test_room_for_contents_is_limited() -> None:
    data = block(b"a", b"x" * 600) + block(b"b", b"y" * 600) + END
    found = scanned(data, wanted=lambda *_: True, room=1200)
    assert found.contents == {"a": b"x" * 600, "b": b"y" * 600}
    with pytest.raises(InputError, match="600 bytes to be held in memory"):
        scanned(data, wanted=lambda *_: True, room=1199)


def test_wanted_sees_each_file_before_its_content() -> None:
    seen: list[tuple[str, Entry]] = []

    def wanted(path: str, entry: Entry) -> bool:
        seen.append((path, entry))
        return entry.size < 5

    data = block(b"./a", b"1234") + block(b"d/", kind=b"5") + block(b"b", b"12345") + END
    assert scanned(data, wanted=wanted).contents == {"a": b"1234"}
    assert seen == [("a", Entry("f", size=4)), ("b", Entry("f", size=5))]


@pytest.mark.parametrize("count", [0, 5000])
def test_a_fault_of_the_source_is_preferred(count: int) -> None:
    def chunks() -> Iterator[bytes]:
        yield block(b"a", checksum=b"0000012\0")
        yield from many_files(count, 1000)
        raise IntegrityError.of("other bytes were sent")

    with pytest.raises(IntegrityError, match="other bytes were sent"):
        scan(chunks(), TYPE, where="layer 7")


def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()
    data = gzip.compress(block(b"a", checksum=b"0000012\0") + bytes(64 << 20), 1)
    with pytest.raises(IntegrityError, match="malformed"):
        scanned(data, 4096)
    assert threading.active_count() == before


def many_files(count: int, size: int) -> Iterator[bytes]:
    content = random.Random(2).randbytes(size)
    for number in range(count):
        yield block(b"file-%d" % number, content)
    yield END


def test_memory_stays_small(tmp_path: Path) -> None:
    """A layer of 600 MB, of large files, in a process of its own: its peak, in kilobytes."""
    path = tmp_path / "layer"
    with path.open("wb") as out:
        for chunk in stored_gzip(many_files(6, 100_000_000)):
            out.write(chunk)
    script = (
        "import sys; from composer.oci.scan import scan; from composer.oci.layout import"
        " reading; from pathlib import Path; "
        f"found = scan(reading(Path(sys.argv[1]))(), {TYPE!r}, where='');"
        "assert len(found.table.entries) == 6;"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    )
    assert int(run(sys.executable, "-c", script, path)) < 100_000
