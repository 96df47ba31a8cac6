"""One suite over every source of images that lies in files."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from composer.errors import ComposeError, InputError, IntegrityError, UnreachableError
from composer.oci.archive import write_archive
from composer.oci.archivesource import ArchiveSource
from composer.oci.digest import Digest, sha256
from composer.oci.image import Image, index_of
from composer.oci.layer import tar
from composer.oci.layout import Layout
from composer.oci.layoutsource import LayoutSource
from composer.oci.manifest import Config, Descriptor, Index, Manifest
from composer.oci.mediatype import OCI
from composer.oci.ports import Source
from composer.oci.scan import scan
from composer.oci.verify import verified

from .support import MEMBERS, file, folder, image, needs, run, store_image, store_layer

TOP = (folder("opt"), file("opt/new", b"new"))
ARCHIVES = [b"".join(tar(members)) for members in (MEMBERS, TOP, MEMBERS)]
DIFF_IDS = tuple(map(sha256, ARCHIVES))


@dataclass(frozen=True)
class Case:
    """A source of one image of three layers, the first and last alike, and how to break it."""

    source: Source
    path: Path  # the file that holds the middle layer
    again: Callable[[], Source] = field(repr=False)


def built(root: Path) -> tuple[Layout, Image]:
    layout = Layout(root)
    layers = [store_layer(layout, members) for members in (MEMBERS, TOP, MEMBERS)]
    return layout, store_image(layout, image(layers), "v1")


def oci_layout(root: Path) -> Case:
    layout, made = built(root / "layout")

    def again() -> LayoutSource:
        return LayoutSource.parse(f"{root}/layout:v1")

    return Case(again(), layout.path(made.manifest.layers[1].digest), again)


def archived(path: Path) -> Case:
    def again() -> ArchiveSource:
        return ArchiveSource.parse(str(path))

    return Case(again(), path, again)


def oci_archive(root: Path) -> Case:
    layout, made = built(root / "layout")
    path = root / "image.tar"
    write_archive(path, [made], None, "v1", lambda one: [layout.read(one.digest)])
    return archived(path)


def pack(path: Path, members: Iterable[tuple[str, bytes | str]]) -> Path:
    """Write a tar of files (bytes) and symbolic links (their targets)."""
    with tarfile.open(path, "w") as out:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                out.addfile(info)
            else:
                info.size = len(content)
                out.addfile(info, io.BytesIO(content))
    return path


def config() -> Config:
    return image([(Descriptor("", one, 0), one) for one in DIFF_IDS]).config


def docker_save(
    path: Path, layers: list[tuple[str, bytes | str]], tags: Any = ("local/app:v1",)
) -> Path:
    name = f"{config().digest.hex}.json"
    entry = {"Config": name, "RepoTags": tags and list(tags), "Layers": [one for one, _ in layers]}
    manifest = ("manifest.json", json.dumps([entry]).encode())
    return pack(path, [*layers, (name, config().raw), manifest])


def old_docker_archive(root: Path) -> Case:
    links: list[tuple[str, bytes | str]] = [
        ("aaa/layer.tar", ARCHIVES[0]),
        ("bbb/layer.tar", ARCHIVES[1]),
        ("ccc/layer.tar", "../aaa/layer.tar"),
    ]
    return archived(docker_save(root / "old.tar", links))


def new_docker_archive(root: Path) -> Case:
    path = root / "new.tar"
    names = [f"blobs/sha256/{one.hex}" for one in DIFF_IDS]
    pairs: list[tuple[str, bytes | str]] = list(zip(names, ARCHIVES, strict=True))
    return archived(docker_save(path, pairs))


def gzipped_docker_archive(root: Path) -> Case:
    pairs: list[tuple[str, bytes | str]] = [
        (f"{number}.tar.gz", gzip.compress(data)) for number, data in enumerate(ARCHIVES)
    ]
    return archived(docker_save(root / "gz.tar", pairs))


CASES = [
    oci_layout,
    oci_archive,
    old_docker_archive,
    new_docker_archive,
    gzipped_docker_archive,
]


@pytest.fixture(params=CASES, ids=lambda make: make.__name__)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    made: Case = request.param(tmp_path)
    return made


def image_of(source: Source) -> Image:
    top = source.top()
    manifest = Manifest.parse(source.document(top), top.media_type)
    return Image(manifest, Config.parse(source.document(manifest.config)))


def test_the_image_is_the_same_everywhere(case: Case) -> None:
    found = image_of(case.source)
    assert found.config.raw == config().raw
    assert found.manifest.family is OCI
    contents = []
    for layer, diff_id in zip(found.manifest.layers, DIFF_IDS, strict=True):
        scanned = scan(case.source.chunks(layer), layer.media_type, where=str(layer.digest))
        assert scanned.diff_id == diff_id
        contents.append(scanned.table.entries["opt"])
    assert len(contents) == 3


def test_a_second_look_gives_the_same(case: Case) -> None:
    assert case.again().top() == case.source.top() == case.source.top()


def test_a_blob_is_had_without_asking_for_the_top(case: Case) -> None:
    layer = image_of(case.source).manifest.layers[1]
    assert b"".join(case.again().chunks(layer)) == b"".join(case.source.chunks(layer))


def test_what_is_not_held(case: Case) -> None:
    other = Descriptor(OCI.layer, sha256(b"other"), 5)
    with pytest.raises(UnreachableError, match=f"does not hold {other.digest}"):
        list(case.source.chunks(other))
    with pytest.raises(UnreachableError, match=f"does not hold {other.digest}"):
        case.source.document(other)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_descriptor_of_another_size(case: Case, change: int) -> None:
    found = image_of(case.source)
    layer, top = found.manifest.layers[1], case.source.top()
    with pytest.raises(IntegrityError, match="not those asked for"):
        list(case.source.chunks(replace(layer, size=layer.size + change)))
    with pytest.raises(IntegrityError, match="not those asked for"):
        case.source.document(replace(top, size=top.size + change))


def test_damage_is_noticed(case: Case) -> None:
    layer = image_of(case.source).manifest.layers[1]
    data = bytearray(case.path.read_bytes())
    # A byte in the middle of the layer's content, wherever it lies in the file.
    at = data.index(b"".join(case.source.chunks(layer))) + layer.size // 2
    data[at] ^= 1
    case.path.write_bytes(data)
    with pytest.raises(IntegrityError):
        list(case.source.chunks(layer))
    with pytest.raises(ComposeError):  # of a gzip layer in a docker-archive nothing is promised
        list(case.again().chunks(layer))


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    oci_layout(tmp_path)
    old_docker_archive(tmp_path)
    sources: list[Source] = [
        LayoutSource.parse(f"{tmp_path}/layout:v2"),
        LayoutSource.parse(f"{tmp_path}/layout@{DIFF_IDS[0]}"),
        ArchiveSource.parse(f"{tmp_path}/old.tar:local/app:v2"),
    ]
    for source in sources:
        with pytest.raises(InputError, match="there is no image"):
            source.top()


@pytest.mark.parametrize("name", ["local/app:v1", "docker.io/local/app:v1", str(config().digest)])
def test_names_in_a_docker_archive(tmp_path: Path, name: str) -> None:
    case = old_docker_archive(tmp_path)
    assert ArchiveSource.parse(f"{case.path}:{name}").top() == case.source.top()


def test_tags_digests_and_the_only_one(tmp_path: Path) -> None:
    layout, made = built(tmp_path / "a:b")
    top = layout.refs()["v1"]
    for text in ("", ":v1", f"@{made.digest}"):
        assert LayoutSource.parse(f"{tmp_path}/a:b{text}").top() == top
    other = store_image(layout, image([store_layer(layout, TOP)]), "v2")
    assert LayoutSource.parse(f"{tmp_path}/a:b:v2").top().digest == other.digest
    with pytest.raises(InputError, match="no image is named") as caught:
        LayoutSource.parse(f"{tmp_path}/a:b").top()
    assert caught.value.faults[0].found == "v1, v2"


def test_a_digest_that_the_index_does_not_list(tmp_path: Path) -> None:
    layout, made = built(tmp_path / "layout")
    index = index_of([made])
    layout.put(index.raw)
    found = LayoutSource.parse(f"{tmp_path}/layout@{index.digest}").top()
    assert found == index.descriptor()
    assert Index.parse(LayoutSource(tmp_path / "layout").document(found)) == index


def refused(source: Source, kind: type[ComposeError], what: str) -> None:
    with pytest.raises(kind, match=what):
        source.top()


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    path = tmp_path / "file.tar"
    refused(ArchiveSource(path), InputError, "there is no such archive")
    refused(ArchiveSource(tmp_path), InputError, "there is no such archive")
    refused(LayoutSource(tmp_path), InputError, "there is no OCI image layout")
    path.write_bytes(b"text" * 1000)
    refused(ArchiveSource(path), InputError, "is no tar archive")
    pack(path, [("some/file", b"")])
    refused(ArchiveSource(path), InputError, "is no archive of an image")
    pack(path, [("../file", b"")])
    refused(ArchiveSource(path), InputError, "an entry outside itself")
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(InputError, match="compressed with gzip") as caught:
        ArchiveSource(path).top()
    assert caught.value.faults[0].fix == f"gunzip {path}"


def test_damaged_docker_archives(tmp_path: Path) -> None:
    path = old_docker_archive(tmp_path).path
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])
    with pytest.raises((InputError, IntegrityError)):
        ArchiveSource(path).top()
    pairs: list[tuple[str, bytes | str]] = [("a", ARCHIVES[0]), ("b", ARCHIVES[1])]
    refused(ArchiveSource(docker_save(path, pairs)), IntegrityError, "3 layers, as in")
    refused(ArchiveSource(docker_save(path, [*pairs, ("c", "c")])), InputError, "lacks a part")
    pack(path, [("manifest.json", b"{}")])
    refused(ArchiveSource(path), IntegrityError, "manifest.json is malformed")
    name = f"{sha256(b'other').hex}.json"
    entry = json.dumps([{"Config": name, "Layers": []}]).encode()
    pack(path, [("manifest.json", entry), (name, config().raw)])
    refused(ArchiveSource(path), IntegrityError, "not what its name says")


def test_the_made_manifest_is_a_function_of_the_image(tmp_path: Path) -> None:
    """Golden: a base's digest is in locks."""
    old, new = old_docker_archive(tmp_path), new_docker_archive(tmp_path)
    assert old.source.top() == new.source.top()
    assert str(old.source.top().digest) == GOLDEN


GOLDEN = "sha256:a99b1f79f83726db34d9fa41d7f64b73060d5ae085e52470553574e670984afd"


@needs("skopeo")
def test_archives_of_skopeo(tmp_path: Path) -> None:
    _, made = built(tmp_path / "layout")
    start = f"oci:{tmp_path}/layout:v1"
    run("skopeo", "copy", "-q", start, f"docker-archive:{tmp_path}/d.tar:local/app:v1")
    run("skopeo", "copy", "-q", start, f"oci-archive:{tmp_path}/o.tar:v1")
    for name in ("d.tar", "o.tar"):
        source = ArchiveSource(tmp_path / name)
        found = image_of(source)
        assert found.config.diff_ids == made.config.diff_ids
        for layer in found.manifest.layers:
            assert b"".join(source.chunks(layer))


def test_verified_reads_to_the_end() -> None:
    descriptor = Descriptor("", Digest.parse(str(sha256(b"abc"))), 3)
    assert list(verified([b"a", b"bc"], descriptor, "")) == [b"a", b"bc"]
    with pytest.raises(IntegrityError, match="more than 3 bytes"):
        list(verified([b"abc", b"d"], descriptor, ""))
    with pytest.raises(IntegrityError, match="sha256:"):
        list(verified([b"abd"], descriptor, ""))
