"""The store: whole blobs or none, checked reads, and writers that die, collide or run out."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import composer
from composer.errors import IntegrityError, UnreachableError
from composer.oci.digest import Digest, sha256
from composer.oci.layout import REF_NAME, Ingest, Layout, atomic_write, reading
from composer.oci.manifest import Descriptor, Index
from composer.oci.mediatype import OCI
from composer.oci.platform import Platform

from .support import (
    CREATED,
    MEMBERS,
    image,
    is_root,
    needs,
    run,
    store_image,
    store_layer,
    tmpfs,
)

HELLO = sha256(b"hello")
SHA512 = Digest.parse(
    "sha512:9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca7"
    "2323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043"
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "layout")


def files(root: Path) -> set[str]:
    """All files below `root`, lock files left out."""
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith("locks/")}


EMPTY_STORE = {"oci-layout", "index.json"}


# Blobs


def test_a_blob_is_stored_at_its_digest(layout: Layout) -> None:
    assert not layout.has(HELLO)
    assert layout.put(b"hello") == HELLO
    assert layout.path(HELLO) == layout.root / "blobs" / "sha256" / HELLO.hex
    assert layout.path(HELLO).read_bytes() == b"hello"
    assert layout.read(HELLO) == b"hello"
    assert layout.has(HELLO)
    assert layout.has(HELLO, 5)
    assert not layout.has(HELLO, 4)
    assert files(layout.root) == {*EMPTY_STORE, f"blobs/sha256/{HELLO.hex}"}


def test_a_layout_is_what_the_spec_asks_for(layout: Layout) -> None:
    layout.put(b"")
    assert json.loads((layout.root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    assert Index.parse((layout.root / "index.json").read_bytes()).manifests == ()


def test_nothing_is_written_by_looking(layout: Layout) -> None:
    assert layout.refs() == {}
    assert not layout.has(HELLO)
    layout.sweep()
    assert not layout.root.exists()


def test_a_blob_that_is_there_is_not_written_again(layout: Layout) -> None:
    layout.put(b"hello")
    before = layout.path(HELLO).stat()
    assert layout.put(b"hello") == HELLO
    assert layout.path(HELLO).stat().st_ino == before.st_ino


def test_a_blob_of_another_size_is_replaced(layout: Layout) -> None:
    layout.put(b"hello")
    layout.path(HELLO).write_bytes(b"hel")
    layout.put(b"hello")
    assert layout.read(HELLO) == b"hello"


@pytest.mark.parametrize("damage", [b"hellO", b"", b"hello "])
def test_a_damaged_blob_is_never_read(layout: Layout, damage: bytes) -> None:
    path = layout.path(layout.put(b"hello"))
    path.write_bytes(damage)
    with pytest.raises(IntegrityError) as caught:
        layout.read(HELLO)
    assert str(caught.value) == (
        "a blob of the store is damaged\n"
        f"  where:    {path}\n"
        f"  expected: {HELLO}\n"
        f"  found:    {sha256(damage)}\n"
        f"  fix:      remove it: rm {path}"
    )
    assert caught.value.exit_code == 4


def test_the_fix_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "my store's")
    layout.path(layout.put(b"hello")).write_bytes(b"x")
    with pytest.raises(IntegrityError) as caught:
        layout.read(HELLO)
    command = caught.value.faults[0].fix.removeprefix("remove it: ")
    subprocess.run(command, shell=True, check=True)
    assert not layout.has(HELLO)


def test_a_missing_blob(layout: Layout) -> None:
    for get in (layout.read, layout.open):
        with pytest.raises(UnreachableError, match=f"the store does not hold {HELLO}"):
            get(HELLO)


def test_a_blob_that_cannot_be_read(layout: Layout) -> None:
    layout.path(HELLO).mkdir(parents=True)
    with pytest.raises(UnreachableError, match=r"cannot read\n(.|\n)*Is a directory"):
        layout.read(HELLO)


def test_a_blob_over_the_limit_is_refused(layout: Layout) -> None:
    layout.put(b"hello")
    assert layout.read(HELLO, limit=5) == b"hello"
    with pytest.raises(IntegrityError, match="is larger than 4 bytes"):
        layout.read(HELLO, limit=4)


def test_streams(layout: Layout) -> None:
    assert layout.put_chunks([b"he", b"", b"llo"]) == HELLO
    assert layout.put_chunks([]) == sha256(b"")
    assert layout.put_chunks(iter([b"hello"]), HELLO) == HELLO
    assert layout.put_chunks([b"hello"], SHA512) == SHA512
    assert layout.read(SHA512) == b"hello"


def test_a_stream_of_other_bytes_is_not_stored(layout: Layout) -> None:
    with pytest.raises(IntegrityError) as caught:
        layout.put_chunks([b"hell", b"O"], HELLO)
    fault = caught.value.faults[0]
    assert fault.what == "the bytes received are not those asked for"
    assert (fault.expected, fault.found) == (str(HELLO), str(sha256(b"hellO")))
    assert files(layout.root) == EMPTY_STORE


def test_a_stream_that_breaks_off_leaves_nothing_and_keeps_its_error(layout: Layout) -> None:
    def broken() -> Iterator[bytes]:
        yield b"hello"
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    # An error of the source is the source's: it must not be told as one of the store.
    with pytest.raises(ConnectionResetError, match="Connection reset by peer"):
        layout.put_chunks(broken())
    assert files(layout.root) == EMPTY_STORE


def test_an_ingest_without_commit_leaves_nothing(layout: Layout) -> None:
    with layout.ingest() as ingest:
        ingest.write(b"x" * 3_000_000)
        assert len(files(layout.root) - EMPTY_STORE) == 1
    assert files(layout.root) == EMPTY_STORE


def test_reading_yields_a_file_in_chunks(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abcdefgh")
    chunks = reading(tmp_path / "f", 3)
    assert list(chunks()) == [b"abc", b"def", b"gh"]
    assert list(chunks()) == [b"abc", b"def", b"gh"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_modes_follow_the_umask(tmp_path: Path, mask: int) -> None:
    script = "from composer.oci.layout import *; from pathlib import Path; import sys, os\n"
    script += "os.umask(int(sys.argv[2])); Layout(Path(sys.argv[1])).put(b'hello')"
    python("-c", script, str(tmp_path / "s"), str(mask))
    layout = Layout(tmp_path / "s")
    for path in (layout.path(HELLO), layout.root / "index.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    assert stat.S_IMODE(layout.root.stat().st_mode) == 0o777 & ~mask


# Names


MANIFEST = Descriptor(OCI.manifest, HELLO, 5, Platform("linux", "amd64"))


def test_tags(layout: Layout) -> None:
    other = Descriptor(OCI.index, sha256(b"x"), 1)
    layout.tag("b", MANIFEST)
    layout.tag("a", other)
    refs = layout.refs()
    assert {name: one.digest for name, one in refs.items()} == {"a": other.digest, "b": HELLO}
    assert refs["b"].platform == MANIFEST.platform
    assert refs["b"].annotations == {REF_NAME: "b"}
    layout.tag("b", other)
    assert layout.refs()["b"].digest == other.digest
    assert len(Index.parse((layout.root / "index.json").read_bytes()).manifests) == 2


def test_golden_index(layout: Layout) -> None:
    layout.tag("v2", MANIFEST)
    layout.tag("v1", MANIFEST)
    entry = (
        '{{"annotations":{{"org.opencontainers.image.ref.name":"{}"}},"digest":"sha256:2cf24dba5fb0'
        'a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","mediaType":"application/vnd.oci.imag'
        'e.manifest.v1+json","platform":{{"architecture":"amd64","os":"linux"}},"size":5}}'
    )
    assert (layout.root / "index.json").read_text() == (
        f'{{"manifests":[{entry.format("v1")},{entry.format("v2")}],'
        '"mediaType":"application/vnd.oci.image.index.v1+json","schemaVersion":2}'
    )


def test_tagging_alike_writes_nothing(layout: Layout) -> None:
    layout.tag("v1", MANIFEST)
    before = (layout.root / "index.json").stat()
    layout.tag("v1", MANIFEST)
    assert (layout.root / "index.json").stat().st_ino == before.st_ino


def test_what_other_tools_wrote_into_the_index_is_kept(layout: Layout) -> None:
    theirs = {
        "mediaType": OCI.manifest,
        "digest": str(sha256(b"theirs")),
        "size": 6,
        "platform": {"os": "windows", "architecture": "amd64", "os.version": "10.0"},
        "x": 1,
    }
    named = {**theirs, "annotations": {REF_NAME: "a", "y": "z"}}
    document = {"schemaVersion": 2, "manifests": [named, theirs], "annotations": {"k": "v"}}
    layout.put(b"")
    (layout.root / "index.json").write_text(json.dumps(document))
    layout.tag("b", MANIFEST)
    found = json.loads((layout.root / "index.json").read_text())
    assert found["annotations"] == {"k": "v"}
    assert found["manifests"][:2] == [theirs, named]
    assert [one.get("annotations", {}).get(REF_NAME) for one in found["manifests"]] == [
        None,
        "a",
        "b",
    ]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"manifests":[1]}', b'{"schemaVersion":2}'])
def test_a_damaged_index_is_never_overwritten(layout: Layout, data: bytes) -> None:
    layout.put(b"")
    (layout.root / "index.json").write_bytes(data)
    for use in (layout.refs, lambda: layout.tag("a", MANIFEST)):
        with pytest.raises(IntegrityError, match=r"the store's index\.json is damaged"):
            use()
    assert (layout.root / "index.json").read_bytes() == data


def test_a_layout_of_another_tool_is_taken_as_it_is(layout: Layout) -> None:
    (layout.root / "blobs").mkdir(parents=True)
    (layout.root / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}\n')
    (layout.root / "index.json").write_text('{"schemaVersion":2,"manifests":[]}\n')
    layout.put(b"hello")
    layout.tag("v1", MANIFEST)
    assert layout.read(HELLO) == b"hello"
    assert list(layout.refs()) == ["v1"]
    assert (layout.root / "oci-layout").read_text().endswith("\n")


# Files outside the store


def test_atomic_write(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    atomic_write(path, b"1")
    atomic_write(path, b"22")
    assert path.read_bytes() == b"22"
    assert os.listdir(path.parent) == ["file"]


def test_atomic_write_keeps_mode_and_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    atomic_write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640


def test_a_reader_sees_the_old_file_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "file"
    versions = {bytes([letter]) * 100_000 for letter in b"ab"}
    atomic_write(path, b"a" * 100_000)
    script = (
        "import sys; from pathlib import Path; from composer.oci.layout import atomic_write\n"
        "for _ in range(40):\n"
        "    for letter in b'ab': atomic_write(Path(sys.argv[1]), bytes([letter]) * 100_000)\n"
    )
    read = 0
    with start("-c", script, str(path)) as writer:
        while writer.poll() is None:
            assert path.read_bytes() in versions
            read += 1
    assert writer.returncode == 0
    assert read > 10


# Several at once


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(composer.__file__).parents[1])}


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


def python(*arguments: str) -> str:
    process = start(*arguments)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


WRITER = """
import sys
from pathlib import Path
from composer.oci.digest import sha256
from composer.oci.layout import Layout
from composer.oci.manifest import Descriptor
from composer.oci.mediatype import OCI

layout, name = Layout(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(8):
    shared = layout.put(b"the same for all" * 1000 * number)
    own = layout.put(f"{name} {number}".encode())
    layout.tag(f"{name}-{number}", Descriptor(OCI.manifest, own, len(f"{name} {number}")))
    assert layout.read(shared) and layout.read(own) or not number
"""


@pytest.mark.parametrize("attempt", range(3))
def test_writers_at_once_lose_nothing(tmp_path: Path, attempt: int) -> None:
    layout = Layout(tmp_path / "store")
    writers = [start("-c", WRITER, str(layout.root), f"w{number}") for number in range(6)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:  # all find an empty store
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, err = writer.communicate()
        assert writer.returncode == 0, err
    refs = layout.refs()
    assert sorted(refs) == sorted(f"w{w}-{number}" for w in range(6) for number in range(8))
    for name, descriptor in refs.items():
        assert layout.read(descriptor.digest) == name.replace("-", " ").encode()
    assert {path for path in files(layout.root) if not path.startswith("blobs/")} == EMPTY_STORE
    for path in (layout.root / "blobs" / "sha256").iterdir():
        assert sha256(path.read_bytes()).hex == path.name


def test_a_late_comer_does_not_empty_the_index_of_an_early_one(layout: Layout) -> None:
    # The early one has made the store's first tag, and has yet to write `oci-layout`.
    (layout.root / "locks").mkdir(parents=True)
    with (layout.root / "locks" / "index").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        script = "import sys; from pathlib import Path; from composer.oci.layout import Layout\n"
        script += "print('ready', flush=True); Layout(Path(sys.argv[1])).put(b'hello')"
        late = start("-c", script, str(layout.root))
        assert late.stdout is not None
        late.stdout.readline()
        time.sleep(0.2)
        assert files(layout.root) == set(), "it waits"
        named = replace(MANIFEST, annotations={REF_NAME: "early"})
        (layout.root / "index.json").write_bytes(Index.make(OCI, [named]).raw)
    _, err = late.communicate()
    assert late.returncode == 0, err
    assert list(layout.refs()) == ["early"]
    assert layout.read(HELLO) == b"hello"


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from pathlib import Path; from composer.oci.layout import Layout\n"
        "held = Path(sys.argv[2])\n"
        "for _ in range(5):\n"
        "    with Layout(Path(sys.argv[1])).exclusive('table'):\n"
        "        os.close(os.open(held, os.O_CREAT | os.O_EXCL)); time.sleep(0.01); held.unlink()\n"
    )
    holders = [
        start("-c", script, str(tmp_path / "store"), str(tmp_path / "held")) for _ in range(4)
    ]
    for holder in holders:
        _, err = holder.communicate()
        assert holder.returncode == 0, err


def test_a_lock_is_free_again_after_an_error(layout: Layout) -> None:
    with contextlib.suppress(KeyError), layout.exclusive("x"):
        raise KeyError
    with layout.exclusive("x"), layout.exclusive("y"):
        pass


# Writers that die


INGEST = """
import sys
from pathlib import Path
from composer.oci.layout import Layout

with Layout(Path(sys.argv[1])).ingest() as ingest:
    ingest.write(b"x" * 3_000_000)
    ingest.file.flush()
    print(ingest.path, flush=True)
    sys.stdin.readline()
"""


def test_kill_in_the_middle_of_an_ingest(layout: Layout) -> None:
    layout.put(b"hello")
    writer = start("-c", INGEST, str(layout.root))
    assert writer.stdout is not None
    left = Path(writer.stdout.readline().strip())
    assert left.stat().st_size == 3_000_000
    age(left)
    layout.sweep()
    assert left.exists(), "its writer lives"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert files(layout.root) - EMPTY_STORE == {
        f"blobs/sha256/{HELLO.hex}",
        str(left.relative_to(layout.root)),
    }
    assert layout.read(HELLO) == b"hello"
    os.utime(left)
    layout.sweep()
    assert left.exists(), "it is too young to be told from one that is just being locked"
    age(left)
    layout.sweep()
    assert files(layout.root) - EMPTY_STORE == {f"blobs/sha256/{HELLO.hex}"}


def age(path: Path) -> None:
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))


def test_sweep_takes_what_is_left_of_an_index_too(layout: Layout) -> None:
    layout.tag("v1", MANIFEST)
    left = layout.root / ".index.json.tmp-0123456789abcdef"
    left.write_bytes(b"{")
    age(left)
    age(layout.root / "index.json")
    age(layout.root / "oci-layout")
    layout.sweep()
    assert files(layout.root) == EMPTY_STORE
    assert list(layout.refs()) == ["v1"]


PUTTER = """
import sys
from pathlib import Path
from composer.oci.digest import sha256
from composer.oci.layout import Layout
from composer.oci.manifest import Descriptor
from composer.oci.mediatype import OCI

layout = Layout(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(100_000):
    digest = layout.put(str(number).encode() * 20_000)
    layout.tag(f"t{number % 7}", Descriptor(OCI.manifest, digest, 1))
"""


def test_kill_at_any_moment_leaves_a_whole_store(layout: Layout) -> None:
    for delay in (0.0, 0.005, 0.01, 0.02, 0.03, 0.05):
        writer = start("-c", PUTTER, str(layout.root))
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(delay)
        writer.kill()
        writer.communicate()
        for descriptor in layout.refs().values():
            assert layout.read(descriptor.digest)
        for path in (layout.root / "blobs" / "sha256").glob("*"):
            assert sha256(path.read_bytes()).hex == path.name
    assert layout.put(b"hello") == HELLO


# Disks that are full, and stores that cannot be written


def test_a_full_device(layout: Layout) -> None:
    with layout.ingest() as whole, Path("/dev/full").open("wb") as full:
        ingest = Ingest(layout, full, whole.path)
        ingest.write(b"x" * 100)
        with pytest.raises(UnreachableError) as caught:
            ingest.commit(HELLO)
        with contextlib.suppress(OSError):
            full.close()
    assert caught.value.faults[0].what == "the disk is full"
    assert caught.value.exit_code == 3
    assert files(layout.root) == EMPTY_STORE


def test_a_full_disk(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "fs") as root:
        layout = Layout(root / "store")
        kept = layout.put(b"k" * 400_000)
        layout.tag("kept", Descriptor(OCI.manifest, kept, 400_000))
        before = files(layout.root)
        for put in (
            lambda: layout.put(b"n" * 2_000_000),
            lambda: layout.put_chunks([b"n" * 65536] * 30),
            lambda: atomic_write(root / "lock", b"n" * 2_000_000),
        ):
            with pytest.raises(UnreachableError) as caught:
                put()
            fault = caught.value.faults[0]
            assert (fault.what, fault.found) == ("the disk is full", os.strerror(errno.ENOSPC))
            assert fault.fix.startswith("free some space")
            assert files(layout.root) == before
        assert not (root / "lock").exists()
        assert sha256(layout.read(kept)) == kept
        assert list(layout.refs()) == ["kept"]
        layout.put(b"n" * 100_000)  # there is room again at once


def test_a_store_on_a_read_only_file_system(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "fs") as root:
        layout = Layout(root)
        layout.put(b"hello")
        layout.tag("v1", MANIFEST)
        run("mount", "-o", "remount,ro", root)
        check_unwritable(layout, os.strerror(errno.EROFS))


@pytest.mark.skipif(not is_root, reason="takes root to become another user")
def test_a_store_of_another_user() -> None:
    with tempfile.TemporaryDirectory() as where:
        Path(where).chmod(0o755)
        layout = Layout(Path(where, "store"))
        layout.put(b"hello")
        layout.tag("v1", MANIFEST)
        python("-c", AS_NOBODY, str(layout.root))


# The change of user comes last: the interpreter itself may lie in a home that is closed to others.
AS_NOBODY = """
import errno, os, sys
from pathlib import Path
from composer.oci.layout import Layout
from tests.oci.test_layout import check_unwritable

os.setgroups([]), os.setgid(65534), os.setuid(65534)
check_unwritable(Layout(Path(sys.argv[1])), os.strerror(errno.EACCES))
"""


def check_unwritable(layout: Layout, reason: str) -> None:
    """What is there can be used; what is not is refused with what to do."""
    assert layout.read(HELLO) == b"hello"
    assert list(layout.refs()) == ["v1"]
    assert layout.put(b"hello") == HELLO
    layout.tag("v1", MANIFEST)
    layout.sweep()
    for use in (
        lambda: layout.put(b"new"),
        lambda: layout.put_chunks([b"new"]),
        lambda: layout.tag("v2", MANIFEST),
    ):
        with pytest.raises(UnreachableError) as caught:
            use()
        fault = caught.value.faults[0]
        assert (fault.what, fault.found) == ("cannot write", reason)
        assert fault.where.startswith(str(layout.root))
        assert fault.fix == "make it writable, or set COMPOSE_STORE to another directory"


# Other tools


@needs("skopeo")
def test_skopeo_reads_a_layout(layout: Layout) -> None:
    made = image([store_layer(layout, MEMBERS)], config={"Labels": {"a": "b"}})
    store_image(layout, made, "v1")
    found = json.loads(run("skopeo", "inspect", f"oci:{layout.root}:v1"))
    assert found["Digest"] == str(made.digest)
    assert found["Layers"] == [str(one.digest) for one in made.manifest.layers]
    assert (found["Os"], found["Architecture"]) == ("linux", "amd64")
    assert found["Created"] == CREATED
    assert found["Labels"] == {"a": "b"}
    assert run("skopeo", "inspect", "--raw", f"oci:{layout.root}:v1") == made.manifest.raw.decode()


@needs("umoci")
def test_umoci_lists_tags_and_collects_no_blob_that_is_used(layout: Layout) -> None:
    store_image(layout, image([store_layer(layout, MEMBERS)]), "v1")
    store_image(layout, image([]), "v0")
    before = files(layout.root)
    assert run("umoci", "ls", "--layout", layout.root).split() == ["v0", "v1"]
    run("umoci", "gc", "--layout", layout.root)
    assert files(layout.root) == before
