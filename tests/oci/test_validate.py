"""Every invariant of an image, broken on purpose: found, named, and all at once."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from composer.errors import Fault, UnreachableError
from composer.oci.digest import Digest, sha256
from composer.oci.encoding import stored_gzip
from composer.oci.image import AddedLayer, Image, derive, index_of, scratch
from composer.oci.layer import encode_layer, tar
from composer.oci.layout import Layout
from composer.oci.manifest import Config, Descriptor, Index, Manifest
from composer.oci.mediatype import DOCKER, FAMILIES, OCI, Family
from composer.oci.platform import Platform
from composer.oci.validate import Blobs, validate, validate_index

from .support import MEMBERS, archive, file, image, needs

NOW = "2025-01-02T03:04:05Z"
AMD64, ARM64 = Platform("linux", "amd64"), Platform("linux", "arm64")


class Memory:
    """Blobs in memory: as good as a layout."""

    def __init__(self) -> None:
        self.blobs: dict[Digest, bytes] = {}

    def put(self, data: bytes) -> Digest:
        self.blobs[sha256(data)] = data
        return sha256(data)

    def open(self, digest: Digest) -> BinaryIO:
        if digest not in self.blobs:
            raise UnreachableError(Fault(what="not held", found="No such blob"))
        return io.BytesIO(self.blobs[digest])

    def spoil(self, digest: Digest, data: bytes | None) -> None:
        """Put other bytes where those of `digest` were."""
        if data is None:
            del self.blobs[digest]
        else:
            self.blobs[digest] = data


class OnDisk(Layout):
    def spoil(self, digest: Digest, data: bytes | None) -> None:
        if data is None:
            self.path(digest).unlink()
        else:
            self.path(digest).write_bytes(data)


@pytest.fixture(params=["memory", "layout"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Memory | OnDisk:
    return Memory() if request.param == "memory" else OnDisk(tmp_path / "layout")


def held(blobs: Memory | OnDisk, digest: Digest) -> bytes:
    with blobs.open(digest) as opened:
        return opened.read()


def stored_layer(
    blobs: Memory | OnDisk, content: bytes, *, data: bytes | None = None, media_type: str = ""
) -> tuple[Descriptor, Digest]:
    """A layer of the archive `content`, stored as `data` or as canonical gzip."""
    stored = b"".join(stored_gzip([content])) if data is None else data
    descriptor = Descriptor(media_type or OCI.layer_gzip, blobs.put(stored), len(stored))
    return descriptor, sha256(content)


def stored(blobs: Memory | OnDisk, made: Image) -> Image:
    blobs.put(made.config.raw)
    blobs.put(made.manifest.raw)
    return made


def added(blobs: Memory | OnDisk, members: Any = MEMBERS) -> AddedLayer:
    out = bytearray()
    layer = encode_layer(members, out.extend)
    blobs.put(bytes(out))
    return AddedLayer(layer, "ours")


def base(blobs: Memory | OnDisk, family: Family = OCI, **fields: Any) -> Image:
    data = archive([("etc/x", file("", b"1").entry, b"1"), ("etc", MEMBERS[0].entry, b"")])
    descriptor, diff_id = stored_layer(blobs, data, media_type=family.layer_gzip)
    return image([(descriptor, diff_id)], family=family, **fields)


def whats(faults: tuple[Fault, ...]) -> list[str]:
    return [fault.what for fault in faults]


def changed(made: Image, **fields: Any) -> Image:
    """The image with other fields in its config, and a manifest that points to that."""
    document = {**made.config.document, **fields}
    config = Config.make({key: value for key, value in document.items() if value is not None})
    return rebuilt(made, config=config)


def rebuilt(made: Image, *, config: Config | None = None, layers: list[Any] | None = None) -> Image:
    config = config or made.config
    documents = list(made.manifest.layer_documents) if layers is None else layers
    manifest = Manifest.make(
        made.manifest.family,
        config=config.descriptor(made.manifest.family),
        layer_documents=documents,
    )
    return Image(manifest, config)


# Nothing wrong


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_sound_image_has_no_fault(blobs: Memory | OnDisk, family: Family) -> None:
    of_base = stored(blobs, base(blobs, family))
    derived = stored(blobs, derive(of_base, [added(blobs)], created=NOW))
    assert validate(of_base, blobs) == ()
    assert validate(derived, blobs) == ()
    assert validate(derived, blobs, base=of_base) == ()


def test_the_base_may_lie_elsewhere() -> None:
    here, elsewhere = Memory(), Memory()
    of_base = base(elsewhere)
    derived = stored(here, derive(of_base, [added(here)], created=NOW))
    assert validate(derived, here, base=of_base) == ()
    assert whats(validate(derived, here)) == ["layers[0] is not held"]


def test_foreign_layers_may_lie_elsewhere(blobs: Memory | OnDisk) -> None:
    foreign = Descriptor(min(OCI.layers), sha256(b"foreign"), 7)
    assert "nondistributable" in foreign.media_type
    made = stored(blobs, image([(foreign, sha256(b"foreign tar"))]))
    assert validate(made, blobs) == ()


def test_an_archive_of_another_maker_may_break_our_rules(blobs: Memory | OnDisk) -> None:
    assert validate(stored(blobs, base(blobs)), blobs) == ()


# Documents


def test_the_config_is_the_one_that_the_manifest_names() -> None:
    made = base(Memory())
    other = changed(made, author="someone")
    (fault,) = validate(Image(made.manifest, other.config))
    assert fault.what == "the manifest's config is not the image's"
    assert fault.expected == f"{made.config.digest}, {made.config.size} bytes"
    assert fault.found == f"{other.config.digest}, {other.config.size} bytes"


def test_a_config_of_another_size() -> None:
    made = base(Memory())
    descriptor = replace(made.manifest.config, size=made.config.size + 1)
    manifest = Manifest.make(OCI, config=descriptor, layer_documents=made.manifest.layer_documents)
    assert whats(validate(Image(manifest, made.config))) == [
        "the manifest's config is not the image's"
    ]


def test_types_that_the_family_lacks() -> None:
    made = base(Memory())
    config = replace(made.manifest.config, media_type="application/vnd.example.config")
    layer = {**made.manifest.layer_documents[0], "mediaType": "application/vnd.example.layer"}
    manifest = Manifest.make(OCI, config=config, layer_documents=[layer])
    config_fault, layer_fault = validate(Image(manifest, made.config))
    assert config_fault.what == "the config has a media type that the OCI family lacks"
    assert config_fault.found == "application/vnd.example.config"
    assert layer_fault.what == "layers[0] has a media type that the OCI family lacks"
    assert layer_fault.found == "application/vnd.example.layer"


ONE = "1, one a layer of the manifest"


@pytest.mark.parametrize("diff_ids", [[], [str(sha256(b"x"))] * 2])
def test_diff_ids_out_of_step(diff_ids: list[str]) -> None:
    made = changed(base(Memory()), rootfs={"type": "layers", "diff_ids": diff_ids})
    (fault,) = validate(made)
    assert fault.what == "the config's diff_ids are out of step with the layers"
    assert (fault.expected, fault.found) == (ONE, str(len(diff_ids)))


@pytest.mark.parametrize(
    ("history", "count"),
    [(None, 0), ([], 0), ([{"empty_layer": True}], 0), ([{}, {}, {"empty_layer": True}], 2)],
)
def test_history_out_of_step(history: Any, count: int) -> None:
    (fault,) = validate(changed(base(Memory()), history=history))
    assert fault.what == "the history is out of step with the layers"
    assert (fault.expected, fault.found) == (ONE, f"{count} entries without empty_layer")


def test_required_fields_of_a_config() -> None:
    made = base(Memory())
    rootfs = {"diff_ids": made.config.document["rootfs"]["diff_ids"]}
    assert whats(validate(changed(made, os=None, architecture="", rootfs=rootfs))) == [
        "the config lacks rootfs.type",
        "the config lacks os",
        "the config lacks architecture",
    ]


def test_every_fault_is_listed() -> None:
    made = base(Memory())
    layer = {**made.manifest.layer_documents[0], "mediaType": "x"}
    config = changed(made, rootfs={"diff_ids": []}, history=[{}, {}], os=None).config
    broken = rebuilt(made, config=config, layers=[layer])
    assert whats(validate(broken, Memory())) == [
        "layers[0] has a media type that the OCI family lacks",
        "the config's diff_ids are out of step with the layers",
        "the history is out of step with the layers",
        "the config lacks rootfs.type",
        "the config lacks os",
        "the manifest is not held",
        "the config is not held",
        "layers[0] is not held",
    ]


# On its base


def test_the_bases_layers_come_first_and_verbatim() -> None:
    memory = Memory()
    of_base = base(memory)
    derived = derive(of_base, [added(memory)], created=NOW)
    first, ours = derived.manifest.layer_documents
    verbatim = "the image does not begin with its base's layer descriptors, verbatim"
    for layers in ([{**first, "urls": []}, ours], [ours, first], [{**first, "size": 1}, ours]):
        assert verbatim in whats(validate(rebuilt(derived, layers=layers), base=of_base))
    diff_ids = [str(one) for one in reversed(derived.config.diff_ids)]
    swapped = changed(derived, rootfs={"type": "layers", "diff_ids": diff_ids})
    assert whats(validate(swapped, base=of_base)) == [
        "the image does not begin with its base's diff_ids"
    ]


def test_family_and_platform_are_the_bases() -> None:
    memory = Memory()
    docker, oci = base(memory, DOCKER), base(memory)
    family, layers = validate(derive(oci, [], created=NOW), base=docker)
    assert family.what == "the image is of another family than its base"
    assert (family.expected, family.found) == ("Docker", "OCI")
    assert "verbatim" in layers.what
    (platform,) = validate(derive(oci, [], created=NOW), base=changed(oci, architecture="arm64"))
    assert platform.what == "the image is of another platform than its base"
    assert (platform.expected, platform.found) == ("linux/arm64", "linux/amd64")


# Blobs


def test_missing_blobs(blobs: Memory | OnDisk) -> None:
    made = stored(blobs, base(blobs))
    (layer,) = made.manifest.layers
    for digest, what in (
        (made.digest, "the manifest is not held"),
        (made.config.digest, "the config is not held"),
        (layer.digest, "layers[0] is not held"),
    ):
        kept = held(blobs, digest)
        blobs.spoil(digest, None)
        (fault,) = validate(made, blobs)
        assert (fault.what, fault.where) == (what, str(digest))
        assert fault.found.startswith("No such ")
        blobs.spoil(digest, kept)
    assert validate(made, blobs) == ()


def test_damaged_documents(blobs: Memory | OnDisk) -> None:
    made = stored(blobs, base(blobs))
    for digest, data, what in (
        (made.digest, made.manifest.raw, "the manifest"),
        (made.config.digest, made.config.raw, "the config"),
    ):
        blobs.spoil(digest, data[:-1] + b" ")
        (fault,) = validate(made, blobs)
        assert fault.what == f"{what} has another digest than it should"
        assert fault.expected == str(digest)
        blobs.spoil(digest, data + b" ")
        size, _ = validate(made, blobs)
        assert size.what == f"{what} has another size than it should"
        assert (size.expected, size.found) == (f"{len(data)} bytes", f"{len(data) + 1} bytes")
        blobs.spoil(digest, data)


def of_layer(blobs: Memory | OnDisk, data: bytes | None) -> list[str]:
    """What is found once `data` stands in the place of a layer of ours."""
    of_base = base(blobs)
    derived = stored(blobs, derive(of_base, [added(blobs)], created=NOW))
    blobs.spoil(derived.manifest.layers[1].digest, data)
    return whats(validate(derived, blobs, base=of_base))


GOOD = b"".join(tar(MEMBERS))
GZIP = b"".join(stored_gzip([GOOD]))


def test_a_layer_of_ours_with_other_bytes(blobs: Memory | OnDisk) -> None:
    flipped = bytearray(GZIP)
    flipped[-2] ^= 1
    size, digest = "another size than it should", "another digest than it should"
    not_gzip = "layers[1] is not the gzip it should be"
    assert of_layer(blobs, GZIP) == []
    assert of_layer(blobs, None) == ["layers[1] is not held"]
    assert of_layer(blobs, bytes(flipped)) == [not_gzip, f"layers[1] has {digest}"]
    for data in (GZIP[:-1], GZIP[:-8], GZIP[:300], b""):
        assert of_layer(blobs, data) == [
            not_gzip,
            f"layers[1] has {size}",
            f"layers[1] has {digest}",
        ]
    assert of_layer(blobs, b"x" * len(GZIP)) == [not_gzip, f"layers[1] has {digest}"]
    assert of_layer(blobs, gzip.compress(GOOD)) == [
        f"layers[1] has {size}",
        f"layers[1] has {digest}",
    ]


def test_another_archive_in_the_place_of_ours(blobs: Memory | OnDisk) -> None:
    other = archive([("b", MEMBERS[2].entry, b"1"), ("a", MEMBERS[2].entry, b"2")])
    found = of_layer(blobs, b"".join(stored_gzip([other])))
    assert found[0] == "layers[1] is not an archive of ours"
    assert found[-3:] == [
        "layers[1] uncompressed has another digest than it should",
        "layers[1] has another size than it should",
        "layers[1] has another digest than it should",
    ]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ([("a", "f"), ("a", "f")], "'a' is there twice"),
        ([("b", "f"), ("a", "f")], "'a' is out of order, after 'b'"),
        ([("a/b", "f")], "'a/b' has no entry for its directory 'a' before it"),
        ([("./a", "f")], "'./a' is not a normalised path"),
        ([("a", "f"), ("b", "h")], "'b' is a hard link, not a regular file or a directory"),
        ([("b", "l")], "'b' is a symbolic link, not a regular file or a directory"),
    ],
)
def test_an_archive_that_breaks_our_rules(members: list[tuple[str, str]], text: str) -> None:
    memory = Memory()
    entries = [(path, replace_kind(kind), b"") for path, kind in members]
    layer = stored_layer(memory, archive(entries))
    made = stored(memory, image([layer]))
    assert validate(made, memory) == ()
    of_base = scratch(AMD64, NOW)
    found = validate(made, memory, base=of_base)
    # Python's tarfile fills its last record up, which ours does not.
    assert [fault.found for fault in found if "follow the archive's end" not in fault.found] == [
        text
    ]
    assert {fault.what for fault in found} == {"layers[0] is not an archive of ours"}


def replace_kind(kind: str) -> Any:
    return file("", b"").entry._replace(kind=kind, link="a" if kind in "lh" else "")


def test_a_diff_id_that_is_not_the_archives(blobs: Memory | OnDisk) -> None:
    descriptor, _ = stored_layer(blobs, GOOD)
    made = stored(blobs, image([(descriptor, sha256(b"other"))]))
    (fault,) = validate(made, blobs)
    assert fault.what == "layers[0] uncompressed has another digest than it should"
    assert (fault.expected, fault.found) == (str(sha256(b"other")), str(sha256(GOOD)))


def test_a_size_that_is_not_the_blobs(blobs: Memory | OnDisk) -> None:
    descriptor, diff_id = stored_layer(blobs, GOOD)
    made = stored(blobs, image([(replace(descriptor, size=descriptor.size + 1), diff_id)]))
    (fault,) = validate(made, blobs)
    assert fault.what == "layers[0] has another size than it should"


def test_a_damaged_layer_of_the_base_is_found_where_it_is_held(blobs: Memory | OnDisk) -> None:
    of_base = base(blobs)
    derived = stored(blobs, derive(of_base, [added(blobs)], created=NOW))
    layer = of_base.manifest.layers[0]
    blobs.spoil(layer.digest, b"damaged")
    assert "layers[0] has another digest than it should" in whats(
        validate(derived, blobs, base=of_base)
    )


# Layers as others store them


def members_of(data: bytes, count: int) -> Iterator[bytes]:
    step = len(data) // count + 1
    return (gzip.compress(data[at : at + step]) for at in range(0, len(data), step))


@pytest.mark.parametrize(
    "wrap",
    [
        gzip.compress,
        lambda data: gzip.compress(data, 1) + bytes(700),  # padded, as on tapes
        lambda data: b"".join(members_of(data, 7)),  # as bgzip and eStargz do
        lambda data: bytes(100).join(members_of(data, 3)),
        lambda data: gzip.compress(data) + bytes(1024 * 1024 - 5) + gzip.compress(b""),
    ],
    ids=["one", "padded", "members", "padded members", "padding over a chunk"],
)
def test_any_gzip_of_a_base_is_read(wrap: Callable[[bytes], bytes]) -> None:
    memory = Memory()
    content = GOOD + bytes(5_000_000)  # much from little: several steps for one chunk
    made = stored(memory, image([stored_layer(memory, content, data=wrap(content))]))
    assert validate(made, memory) == ()


@pytest.mark.parametrize("cut", [1, 4, 9, 30])
def test_a_gzip_that_ends_early_is_found_whatever_its_members(cut: int) -> None:
    memory = Memory()
    data = b"".join(members_of(GOOD, 3))[:-cut]
    made = stored(memory, image([stored_layer(memory, GOOD, data=data)]))
    (fault,) = validate(made, memory)
    assert fault.what == "layers[0] is not the gzip it should be"
    assert fault.found == "the stream ends in the middle"


def test_a_plain_layer_is_read_as_it_is(blobs: Memory | OnDisk) -> None:
    layer = stored_layer(blobs, GOOD, data=GOOD, media_type=OCI.layer)
    made = stored(blobs, image([layer]))
    assert validate(made, blobs) == ()
    assert validate(made, blobs, base=scratch(AMD64, NOW)) == ()
    wrong = stored(blobs, image([(layer[0], sha256(b"x"))]))
    assert whats(validate(wrong, blobs)) == [
        "layers[0] uncompressed has another digest than it should"
    ]


@needs("zstd")
def test_of_a_zstd_layer_the_stored_bytes_are_checked(blobs: Memory | OnDisk) -> None:
    data = subprocess.run(["zstd", "-c"], input=GOOD, capture_output=True, check=True).stdout
    made = stored(blobs, image([stored_layer(blobs, GOOD, data=data, media_type=OCI.layer_zstd)]))
    assert validate(made, blobs) == ()
    blobs.spoil(made.manifest.layers[0].digest, data[:-1] + b"x")
    assert whats(validate(made, blobs)) == ["layers[0] has another digest than it should"]


# Indexes


def indexed(blobs: Memory | OnDisk) -> tuple[Index, dict[Platform, Image]]:
    bases = {
        AMD64: base(blobs),
        ARM64: base(blobs, architecture="arm64", variant="v8"),
    }
    derived = [stored(blobs, derive(one, [added(blobs)], created=NOW)) for one in bases.values()]
    index = index_of(derived)
    blobs.put(index.raw)
    return index, bases


def test_a_sound_index_has_no_fault(blobs: Memory | OnDisk) -> None:
    index, bases = indexed(blobs)
    assert validate_index(index, blobs) == ()
    assert validate_index(index, blobs, bases=bases) == ()


def test_an_index_and_its_children_are_held(blobs: Memory | OnDisk) -> None:
    index, bases = indexed(blobs)
    child = index.manifests[1]
    blobs.spoil(index.digest, None)
    blobs.spoil(child.digest, None)
    itself, missing = validate_index(index, blobs, bases=bases)
    assert itself.what == "the index is not held"
    assert missing.what == "the manifest is not held"
    assert missing.where == f"manifests[1] (linux/arm64), {child.digest}"


def test_what_is_wrong_with_a_child_says_which(blobs: Memory | OnDisk) -> None:
    index, bases = indexed(blobs)
    manifest = Manifest.parse(held(blobs, index.manifests[1].digest))
    blobs.spoil(manifest.layers[1].digest, None)
    found = validate_index(index, blobs, bases=bases)
    assert [(one.what, one.where) for one in found] == [
        (
            "layers[1] is not held",
            f"manifests[{number}] ({platform}), {manifest.layers[1].digest}",
        )
        for number, platform in enumerate(("linux/amd64", "linux/arm64"))
    ]


def test_a_child_whose_config_is_gone_or_is_none(blobs: Memory | OnDisk) -> None:
    index, _ = indexed(blobs)
    manifest = Manifest.parse(held(blobs, index.manifests[0].digest))
    blobs.spoil(manifest.config.digest, None)
    (fault,) = validate_index(index, blobs)
    assert fault.what == "the image cannot be read"
    assert fault.where == "manifests[0] (linux/amd64)"
    blobs.spoil(manifest.config.digest, b"{}")
    (fault,) = validate_index(index, blobs)
    assert fault.found == "the config has no list rootfs.diff_ids"


def test_children_of_another_platform_than_said(blobs: Memory | OnDisk) -> None:
    made = stored(blobs, base(blobs))
    index = Index.make(OCI, [made.manifest.descriptor(ARM64), made.manifest.descriptor()])
    blobs.put(index.raw)
    said, unsaid = validate_index(index, blobs)
    assert said.what == unsaid.what == "the config is of another platform than the index says"
    assert said.where == "manifests[0] (linux/arm64)"
    assert (said.expected, said.found) == ("linux/arm64", "linux/amd64")
    assert unsaid.where == "manifests[1] (no platform)"


def test_two_children_of_one_platform_and_of_another_family(blobs: Memory | OnDisk) -> None:
    oci, docker = stored(blobs, base(blobs)), stored(blobs, base(blobs, DOCKER))
    index = Index.make(OCI, [oci.manifest.descriptor(AMD64), docker.manifest.descriptor(AMD64)])
    blobs.put(index.raw)
    twice, family = validate_index(index, blobs)
    assert twice.what == "manifests[1] (linux/amd64) has the platform of another child"
    assert family.what == (
        "manifests[1] (linux/amd64) is of another media type than the index's family has"
    )
    assert (family.expected, family.found) == (OCI.manifest, DOCKER.manifest)


def test_the_port_is_all_that_is_needed() -> None:
    port: Blobs = Memory()
    assert json.loads(scratch(AMD64, NOW).config.raw)["rootfs"] == {
        "type": "layers",
        "diff_ids": [],
    }
    assert whats(validate(scratch(AMD64, NOW), port)) == [
        "the manifest is not held",
        "the config is not held",
    ]
