"""Layers: golden bytes, and archives that GNU tar and Python's tarfile read as they were meant."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.oci.digest import Digest, sha256
from composer.oci.encoding import stored_gzip
from composer.oci.filetree import Entry
from composer.oci.layer import Layer, Member, encode_layer, tar, whiteout
from composer.oci.manifest import Descriptor
from composer.oci.mediatype import DOCKER, OCI
from composer.oci.tarcheck import check_tar

from .support import MEMBERS, MTIME, file, folder, is_root, needs, properties, run

LONG = "very-long-directory-name-of-just-fifty-characters-"
# A capability as the kernel keeps it: binary, and no valid UTF-8 throughout.
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000080").decode(
    "utf-8", "surrogateescape"
)


def tricky() -> list[Member]:
    """Everything that a header's fixed fields cannot say, and the edges of what they can."""
    members = [
        folder("d", mode=0o1777, uid=0o7777777, gid=0o7777777, mtime=0),
        file("d/empty", b"", mode=0, mtime=0o77777777777),
        file("d/exact", bytes(512), mode=0o4755, uid=0o10000000, gid=2**31 - 1),
        file("d/late", b"x" * 513, mtime=0o100000000000),
        folder("d/old", mtime=-1),
        file("d/older", b"x" * 511, mtime=-86400 * 365 * 60),
        file("d/xattrs", b"y", xattrs=(("user.b", "1 = 2\n"), ("user.a", "é"))),
        folder("d/xattrs.d", xattrs=(("user.empty", ""), ("user.bin", "\udcff\udc80"))),
        file("d/zürich \t\n.py", "naïve".encode()),
        file("d/\udce9", b"no utf-8"),
        folder(LONG + LONG),  # 100 characters, 101 with its slash
        folder(f"{LONG}{LONG}/x"),
        folder(f"{LONG}{LONG[:-2]}"),  # 98 and the slash
        folder(f"{LONG}{LONG[:-2]}/{'n' * 255}"),
        file(f"{LONG}{LONG[:-2]}/b", b"100 bytes, and the slash is the 99th"),
        file(f"{LONG}{LONG[:-1]}", b"99 bytes"),
        folder(LONG),
        file(f"{LONG}/{LONG[:-1]}", b"100 bytes"),
        file(f"{LONG}/{LONG}", b"101 bytes"),
        folder(f"{LONG}/{LONG[:-2]}"),  # 99: its slash is the 100th byte
        file(f"{LONG}/{LONG[:-2]}/after", b"cut at 100 bytes, it ends in a slash"),
        whiteout("d/gone.py", MTIME),
        whiteout("gone", MTIME),
    ]
    return sorted(members, key=lambda member: member.path)


def made(members: Sequence[Member]) -> bytes:
    return b"".join(tar(members))


def encode(members: Sequence[Member]) -> tuple[Layer, bytes]:
    out = bytearray()
    layer = encode_layer(members, out.extend)
    return layer, bytes(out)


# Goldens: a change of any of these is a change of the format version.


def test_golden_header() -> None:
    data = made([file("a/b", b"hello\n", mode=0o4755, uid=1000, gid=100)])
    header = (
        b"a/b".ljust(100, b"\0")
        + b"0004755\0" + b"0001750\0" + b"0000144\0"
        + b"00000000006\0" + b"14614432710\0"
        + b"006423\0 " + b"0" + bytes(100)
        + b"ustar\x0000" + bytes(247)
    )  # fmt: skip
    assert data == header + b"hello\n".ljust(512, b"\0") + bytes(1024)


def test_golden_extended_header() -> None:
    data = made([folder("é", mtime=-1, xattrs=(("user.x", "1"), ("user.a", "2")))])
    body = (
        b"25 SCHILY.xattr.user.a=2\n"
        b"25 SCHILY.xattr.user.x=1\n"
        b"12 mtime=-1\n"
        b"12 path=\xc3\xa9/\n"
    )  # fmt: skip
    assert data[:100] == b"././@PaxHeader".ljust(100, b"\0")
    assert data[124:157] == b"%011o\0" % len(body) + b"00000000000\0" + data[148:156] + b"x"
    assert data[512:1024] == body.ljust(512, b"\0")
    assert data[1024:1029] == b"\xc3\xa9/\0\0"
    assert data[1024 + 136 : 1024 + 148] == b"00000000000\0"


def test_golden_digests() -> None:
    layer, _ = encode(MEMBERS)
    assert layer == Layer(
        Digest.parse("sha256:38ead15eba6f0438a7ab4f6238536bdce191b8d0e74805db128b7182f0ed7150"),
        Digest.parse("sha256:51d3dcb358d4bd2787165cd09332e217df9e3a5a15a2eb36a52ef7872a4893f8"),
        4119,
    )
    layer, _ = encode(tricky())
    assert layer == Layer(
        Digest.parse("sha256:720c7add946afde52020a45aa9a0b4f5bff141b78882496a585ca8537efd797c"),
        Digest.parse("sha256:7009ad3510e12ab9da6fbe0e28d1fc86704fdc38d38d6685f0861d2d941db65b"),
        32279,
    )


def test_golden_digests_of_an_empty_layer() -> None:
    layer, data = encode([])
    assert str(layer.diff_id) == (
        "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
    )
    assert layer == Layer(sha256(bytes(1024)), sha256(data), 1024 + 23)


# What a layer is


@pytest.mark.parametrize("members", [(), MEMBERS, tricky()], ids=["none", "few", "tricky"])
def test_a_layer_is_the_canonical_gzip_of_its_archive(members: Sequence[Member]) -> None:
    layer, data = encode(members)
    archive = made(members)
    assert gzip.decompress(data) == archive
    assert data == b"".join(stored_gzip([archive]))
    assert layer == Layer(sha256(archive), sha256(data), len(data))
    assert check_tar([archive]) == []


def test_a_large_layer_is_the_same_in_whatever_pieces_it_comes() -> None:
    size = 5 * 1024 * 1024 + 17
    data = os.urandom(1024) * (size // 1024 + 1)

    def member(piece: int) -> Member:
        def chunks() -> Iterator[bytes]:
            for at in range(0, size, piece):
                yield data[at : min(at + piece, size)]

        return Member("big", file("big", data[:size]).entry, chunks)

    layer, stored = encode([file("big", data[:size])])
    assert sha256(stored) == layer.digest
    assert len(stored) == layer.size
    for piece in (4093, 65536, size):
        assert encode([member(piece)]) == (layer, stored)


def test_the_descriptor_follows_the_family() -> None:
    layer, data = encode(MEMBERS)
    for family in (OCI, DOCKER):
        assert layer.descriptor(family) == Descriptor(family.layer_gzip, sha256(data), len(data))


def test_a_whiteout_is_an_empty_file_of_its_own_name() -> None:
    assert whiteout("a/b/c.py", 5) == Member("a/b/.wh.c.py", Entry("f", mode=0o644, mtime=5))
    assert whiteout("c", 5).path == ".wh.c"


def test_file_contents_and_numbers_far_beyond_the_fields() -> None:
    entry = Entry("f", size=0o77777777777 + 1, uid=2**32 - 2, gid=2**32 - 2, mtime=2**40)
    first = next(tar([Member("big", entry, lambda: iter(()))]))
    info = tarfile.TarInfo.frombuf(first[-512:], "utf-8", "strict")
    assert (info.size, info.mtime) == (0o77777777777, 0o77777777777)
    records = first[512:-512].rstrip(b"\0").splitlines()
    assert records == [
        b"18 gid=4294967294", b"23 mtime=1099511627776", b"19 size=8589934592",
        b"18 uid=4294967294",
    ]  # fmt: skip


# Refusals


@pytest.mark.parametrize("paths", [("b", "a"), ("a", "a"), ("a/b", "a"), ("a/b", "a-b"), ("", "a")])
def test_unsorted_and_duplicate_members_are_refused(paths: Sequence[str]) -> None:
    with pytest.raises(ValueError, match=r"layer entries out of order: '.*' after '.*'"):
        made([file(path, b"") for path in paths])


@pytest.mark.parametrize("size", [0, 4, 6, 512])
@pytest.mark.parametrize("streamed", [False, True])
def test_content_of_another_size_is_refused(size: int, streamed: bool) -> None:
    data: Any = (lambda: iter([b"he", b"llo"])) if streamed else b"hello"
    member = Member("a", Entry("f", size=size), data)
    with pytest.raises(ValueError, match=re.escape(f"a: 5 bytes, its entry says {size}")):
        made([member])
    with pytest.raises(ValueError, match="a: 5 bytes"):
        encode([member])


@pytest.mark.parametrize("kind", ["l", "h", "c", "b", "p"])
def test_links_and_devices_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=f"a: entries of kind '{kind}' are never written"):
        made([Member("a", Entry(kind, link="b"))])


def test_an_error_of_the_receiver_is_passed_on() -> None:
    def full(data: bytes | memoryview) -> None:
        raise OSError(28, "No space left on device")

    big = file("a", bytes(9_000_000))
    for members in ([file("a", b"")], [big]):
        with pytest.raises(OSError, match="No space left on device"):
            encode_layer(members, full)


def test_an_error_of_a_source_is_passed_on() -> None:
    def chunks() -> Iterator[bytes]:
        yield bytes(3_000_000)
        raise OSError(5, "Input/output error")

    member = Member("a", Entry("f", size=9_000_000), chunks)
    with pytest.raises(OSError, match="Input/output error"):
        encode_layer([member], lambda data: None)


# Read by others


def test_tarfile_reads_what_was_written(tmp_path: Path) -> None:
    members = tricky()
    with tarfile.open(fileobj=io.BytesIO(made(members))) as archive:
        found = archive.getmembers()
        assert [one.name for one in found] == [member.path for member in members]
        for info, member in zip(found, members, strict=True):
            entry = member.entry
            assert info.isdir() == entry.is_dir
            assert info.isreg() == entry.is_file
            assert (info.mode, info.uid, info.gid) == (entry.mode, entry.uid, entry.gid)
            assert (info.mtime, info.size) == (entry.mtime, entry.size)
            assert xattrs_of(info) == dict(entry.xattrs)
            if entry.is_file:
                content = archive.extractfile(info)
                assert content is not None
                assert content.read() == member.data


def xattrs_of(info: tarfile.TarInfo) -> dict[str, str]:
    prefix = "SCHILY.xattr."
    return {
        key.removeprefix(prefix): value
        for key, value in info.pax_headers.items()
        if key.startswith(prefix)
    }


LISTED = re.compile(r"(?P<kind>.)(?P<mode>\S{9})\S* +(?P<uid>\d+)/(?P<gid>\d+) +(?P<size>\d+) "
                    r"(?P<date>\S+ \S+) (?P<name>.*)")  # fmt: skip


@needs("tar")
def test_gnu_tar_lists_what_was_written(tmp_path: Path) -> None:
    members = tricky()
    (tmp_path / "layer.tar").write_bytes(made(members))
    listing = run(
        "tar", "--xattrs", "--xattrs-include=*", "-tvvf", tmp_path / "layer.tar",
        "--numeric-owner", "--full-time", "--quoting-style=escape",
        env={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
    )  # fmt: skip
    lines = [line for line in listing.splitlines() if not line.startswith("  x:")]
    for line, member in zip(lines, members, strict=True):
        found = LISTED.fullmatch(line)
        assert found, line
        entry = member.entry
        kind = stat.S_IFDIR if entry.is_dir else stat.S_IFREG
        assert found["kind"] + found["mode"] == stat.filemode(kind | entry.mode)
        assert (int(found["uid"]), int(found["gid"])) == (entry.uid, entry.gid)
        assert int(found["size"]) == entry.size
        moment = datetime.fromtimestamp(entry.mtime, UTC)
        assert found["date"] == moment.strftime("%Y-%m-%d %H:%M:%S")
        assert unescaped(found["name"]) == member.path + ("/" if entry.is_dir else "")
    listed = [line.split(maxsplit=2)[1:] for line in listing.splitlines() if "  x:" in line]
    expected = [
        [str(len(value.encode("utf-8", "surrogateescape"))), key]
        for member in members
        for key, value in sorted(member.entry.xattrs)
    ]
    assert listed == expected


def unescaped(name: str) -> str:
    """Undo GNU tar's quoting style `escape`."""
    data = name.encode("latin-1", "backslashreplace") if name.isascii() else name.encode()
    return data.decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")


@needs("tar")
@pytest.mark.skipif(not is_root, reason="owners take root")
def test_gnu_tar_extracts_what_was_written(tmp_path: Path) -> None:
    members = tricky()
    root = tmp_path / "root"
    root.mkdir()
    keep = ["--xattrs", "--xattrs-include=*"] if takes_xattrs(tmp_path) else []
    (tmp_path / "layer.tar").write_bytes(made(members))
    layer = tmp_path / "layer.tar"
    run("tar", *keep, "--same-owner", "-p", "--warning=no-timestamp", "-xf", layer, "-C", root)
    on_disk = {str(path.relative_to(root)) for path in root.rglob("*")}
    assert on_disk == {member.path for member in members}
    for member in members:
        check_on_disk(root / member.path, member, xattrs=bool(keep))


def check_on_disk(path: Path, member: Member, *, xattrs: bool) -> None:
    entry, status = member.entry, path.lstat()
    assert stat.S_ISDIR(status.st_mode) == entry.is_dir
    assert stat.S_IMODE(status.st_mode) == entry.mode
    if 0 <= entry.mtime < 2**33:  # ext4 keeps 34 bits
        assert int(status.st_mtime) == entry.mtime, path
    assert (status.st_uid, status.st_gid) == (entry.uid, entry.gid)
    if xattrs:
        found = {name: os.getxattr(path, name) for name in os.listxattr(path)}
        assert found == {
            name: value.encode("utf-8", "surrogateescape") for name, value in entry.xattrs
        }
    if entry.is_file:
        assert path.read_bytes() == member.data


def takes_xattrs(where: Path) -> bool:
    try:
        os.setxattr(where, "user.probe", b"1")
    except OSError:
        return False
    os.removexattr(where, "user.probe")
    return True


@needs("tar")
@pytest.mark.skipif(not is_root, reason="capabilities take root")
def test_a_capability_survives(tmp_path: Path) -> None:
    member = file("ping", b"#!", mode=0o755, xattrs=(("security.capability", CAPABILITY),))
    (tmp_path / "layer.tar").write_bytes(made([member]))
    run("tar", "--xattrs", "--xattrs-include=*", "-xf", tmp_path / "layer.tar", "-C", tmp_path)
    kept = os.getxattr(tmp_path / "ping", "security.capability")
    assert kept == CAPABILITY.encode("utf-8", "surrogateescape")


@needs("tar")
@needs("gunzip")
def test_the_shells_own_tools_read_a_stored_layer(tmp_path: Path) -> None:
    _, data = encode(MEMBERS)
    (tmp_path / "layer.tar.gz").write_bytes(data)
    listed = run("tar", "-tzf", tmp_path / "layer.tar.gz").splitlines()
    assert listed == ["opt/", "opt/app/", "opt/app/main.py", "opt/app/run.sh"]
    done = subprocess.run(
        ["gunzip", "-c", tmp_path / "layer.tar.gz"], capture_output=True, check=True
    )
    assert hashlib.sha256(done.stdout).hexdigest() == encode(MEMBERS)[0].diff_id.hex


# Any members


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=40)
NAMES = NAMES.filter(lambda name: name not in (".", "..") and not name.startswith(".wh."))
IDS = st.sampled_from([0, 1, 1000, 0o7777777, 0o10000000, 2**31 - 1])
TIMES = st.sampled_from([-(2**31), -1, 0, 1, MTIME, 0o77777777777, 2**35])
XATTRS = st.dictionaries(
    st.from_regex(r"user\.[a-z]{1,9}", fullmatch=True), st.binary(max_size=40), max_size=3
)


@st.composite
def members(draw: st.DrawFn) -> list[Member]:
    chosen: dict[str, Member] = {}
    for parts in draw(st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=6)):
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            header: dict[str, Any] = {
                "uid": draw(IDS),
                "gid": draw(IDS),
                "mtime": draw(TIMES),
                "mode": draw(st.integers(0, 0o7777)),
                "xattrs": tuple(
                    (key, value.decode("utf-8", "surrogateescape"))
                    for key, value in sorted(draw(XATTRS).items())
                ),
            }
            if depth < len(parts) or path in chosen:
                chosen[path] = folder(path, **header)
            else:
                chosen[path] = file(path, draw(st.binary(max_size=1100)), **header)
    return sorted(chosen.values(), key=lambda member: member.path)


@properties(120)
@given(members())
def test_any_layer_is_read_back_by_tarfile(made_up: list[Member]) -> None:
    data = made(made_up)
    assert len(data) % 512 == 0
    assert check_tar([data]) == []
    back = []
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as archive:
        for info in archive:
            content = archive.extractfile(info) if info.isreg() else None
            entry = Entry(
                "f" if info.isreg() else "d",
                mode=info.mode,
                uid=info.uid,
                gid=info.gid,
                mtime=int(info.mtime),
                size=info.size,
                xattrs=tuple(sorted(xattrs_of(info).items())),
            )
            back.append((info.name, entry, content.read() if content else b""))
    assert back == [(one.path, one.entry._replace(sha256=""), one.data) for one in made_up]
