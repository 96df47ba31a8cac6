"""Manifests, indexes and configs: read as they are, written canonically, refused when broken."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.oci.digest import Digest, sha256
from composer.oci.manifest import (
    DOCUMENT_LIMIT,
    Config,
    Descriptor,
    Index,
    Manifest,
    canonical_json,
    parse_json,
)
from composer.oci.mediatype import DOCKER, FAMILIES, OCI, Family, is_foreign
from composer.oci.platform import Platform

from .support import properties

DIGEST = str(sha256(b""))
AMD64 = Platform("linux", "amd64")


def manifest_document(family: Family = OCI, **changes: Any) -> dict[str, Any]:
    document = {
        "schemaVersion": 2,
        "mediaType": family.manifest,
        "config": {"mediaType": family.config, "digest": DIGEST, "size": 7},
        "layers": [{"mediaType": family.layer_gzip, "digest": DIGEST, "size": 9}],
        **changes,
    }
    return {key: value for key, value in document.items() if value is not None}


def config_document(**changes: Any) -> dict[str, Any]:
    return {
        "os": "linux",
        "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": [DIGEST]},
        **changes,
    }


def raw(document: Any) -> bytes:
    return json.dumps(document, indent=3).encode()


# Canonical JSON


def test_canonical_json_golden() -> None:
    document = {"b": [1, True, None, 0.5], "a": 'é/\u2028"\\\x7f', "A": {}, "ä": ()}
    expected = '{"A":{},"a":"é/\u2028\\"\\\\\x7f","b":[1,true,null,0.5],"ä":[]}'
    assert canonical_json(document) == expected.encode()


def test_a_name_that_is_not_utf8_survives_json() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert canonical_json([name]) == b'["caf\\udce9"]'
    assert json.loads(canonical_json([name])) == [name]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@properties(200)
@given(st.dictionaries(st.text(max_size=8), VALUES), st.randoms())
def test_equal_documents_are_equal_bytes(document: dict[str, Any], random: Any) -> None:
    keys = list(document)
    random.shuffle(keys)
    data = canonical_json({key: document[key] for key in keys})
    assert data == canonical_json(document)
    assert parse_json(data, "it") == document


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is not valid JSON"),
        (b"[]", "it is not a JSON object"),
        (b"null", "it is not a JSON object"),
        (b'{"a":1,"a":2}', "the same key twice"),
        (b'{"x":{"a":1,"a":2}}', "the same key twice"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":-Infinity}', "-Infinity is not JSON"),
        (b'{"a":1e999}', "1e999 is out of range"),
        (b'\xef\xbb\xbf{"a":1}', "it is not valid JSON"),
        ('{"a":1}'.encode("utf-16"), "it is not valid JSON"),
        (b'{"a":"\xff"}', "it is not valid JSON"),
        (b'{"a":1} x', "it is not valid JSON"),
        (b'{"a":' + b"[" * 200_000, "it is not valid JSON"),
        (b" " * DOCUMENT_LIMIT + b"{}", f"it has {DOCUMENT_LIMIT + 2} bytes, more than"),
    ],
)
def test_what_is_no_document_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_json(data, "it")


# Descriptors


def test_a_descriptor_keeps_what_it_does_not_know() -> None:
    document = {
        "mediaType": "application/vnd.example",
        "digest": DIGEST,
        "size": 0,
        "urls": ["https://example.com/x"],
        "annotations": {"a": "b"},
        "platform": {"os": "linux", "architecture": "amd64"},
        "data": "",
        "x": {"y": [None]},
    }
    parsed = Descriptor.parse(document, "it")
    assert parsed.document() == document
    assert parsed.platform == AMD64
    assert parsed.annotations == {"a": "b"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mediaType": None}, "layers[0] lacks mediaType or digest"),
        ({"digest": None}, "layers[0] lacks mediaType or digest"),
        ({"digest": "sha256:12"}, "layers[0]: sha256 digest '12' is not 64"),
        ({"size": None}, "layers[0] has size None, not a number of bytes"),
        ({"size": -1}, "layers[0] has size -1"),
        ({"size": "9"}, "layers[0] has size '9'"),
        ({"size": True}, "layers[0] has size True"),
        ({"size": 1.0}, "layers[0] has size 1.0"),
        ({"annotations": ["a"]}, "layers[0].annotations is not an object of strings"),
        ({"annotations": {"a": 1}}, "layers[0].annotations is not an object of strings"),
        ({"platform": "linux/amd64"}, "layers[0] has a platform that is not an object"),
    ],
)
def test_a_broken_descriptor_is_refused(change: dict[str, Any], reason: str) -> None:
    document = manifest_document()
    document["layers"][0].update(change)
    with pytest.raises(ValueError, match=re.escape(reason)):
        Manifest.parse(raw(document))


def test_nulls_in_a_descriptor_are_as_good_as_absent() -> None:
    document = manifest_document()
    document["layers"][0].update(annotations=None, platform=None)
    (layer,) = Manifest.parse(raw(document)).layers
    assert (layer.annotations, layer.platform) == ({}, None)


# Manifests


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_manifest_is_of_the_bytes_it_came_from(family: Family) -> None:
    data = raw(manifest_document(family, annotations={"a": "b"}))
    manifest = Manifest.parse(data, family.manifest)
    assert manifest.raw == data
    assert manifest.digest == sha256(data)
    assert manifest.size == len(data)
    assert manifest.family is family
    assert manifest.media_type == family.manifest
    assert manifest.annotations == {"a": "b"}
    assert manifest.config == Descriptor(family.config, sha256(b""), 7)
    assert manifest.layers == (Descriptor(family.layer_gzip, sha256(b""), 9),)
    assert manifest.descriptor(AMD64) == Descriptor(family.manifest, sha256(data), len(data), AMD64)


def test_the_transports_type_counts_where_the_manifest_is_silent() -> None:
    silent = raw(manifest_document(DOCKER, mediaType=None))
    assert Manifest.parse(silent, DOCKER.manifest).family is DOCKER
    assert Manifest.parse(raw(manifest_document(mediaType=None))).family is OCI


def test_a_transport_that_knows_no_better_is_overruled() -> None:
    assert Manifest.parse(raw(manifest_document(DOCKER)), "application/json").family is DOCKER


@pytest.mark.parametrize(
    ("document", "media_type", "reason"),
    [
        (manifest_document(), DOCKER.manifest, f"says {OCI.manifest}, its descriptor"),
        (manifest_document(), OCI.index, f"says {OCI.manifest}, its descriptor {OCI.index}"),
        (manifest_document(mediaType=OCI.index), None, "is not that of an image manifest"),
        (manifest_document(mediaType=[1]), None, "mediaType is [1], not a string"),
        (manifest_document(mediaType=None), "application/x", "is not that of an image manifest"),
        (manifest_document(schemaVersion=1), None, "schemaVersion is 1, not 2"),
        (manifest_document(layers=None), None, "the manifest has no list of layers"),
        (manifest_document(layers={}), None, "the manifest has no list of layers"),
        (manifest_document(layers=["x"]), None, "layers[0] is not an object"),
        (manifest_document(config=None), None, "config is not an object"),
        (manifest_document(annotations={"a": None}), None, "annotations is not an object of"),
        # image-spec advisory GHSA-77vh-xpmg-72qh, CVE-2021-41190
        (manifest_document(manifests=[]), None, "a manifest and an index at once"),
    ],
)
def test_a_broken_manifest_is_refused(
    document: dict[str, Any], media_type: str | None, reason: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        Manifest.parse(raw(document), media_type)


@pytest.mark.parametrize(("family", "other"), [(OCI, DOCKER), (DOCKER, OCI)])
def test_the_families_are_never_mixed(family: Family, other: Family) -> None:
    config = {"mediaType": other.config, "digest": DIGEST, "size": 7}
    with pytest.raises(ValueError, match=f"{family.name} family has a config of the {other.name}"):
        Manifest.parse(raw(manifest_document(family, config=config)))
    for media_type in sorted(other.layers):
        layer = {"mediaType": media_type, "digest": DIGEST, "size": 7}
        with pytest.raises(ValueError, match=f"a layer of the {other.name} family"):
            Manifest.parse(raw(manifest_document(family, layers=[layer])))


def test_the_families_share_no_type() -> None:
    types = [{one.index, one.manifest, one.config, *one.layers} for one in FAMILIES]
    assert not types[0] & types[1]


@pytest.mark.parametrize(
    ("media_type", "foreign"),
    [
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", True),
        ("application/vnd.docker.image.rootfs.foreign.diff.tar", True),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar", True),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", True),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", True),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", False),
        ("application/vnd.oci.image.layer.v1.tar+gzip", False),
        ("application/vnd.oci.image.layer.v1.tar+zstd", False),
        (OCI.config, False),
    ],
)
def test_foreign_layers(media_type: str, foreign: bool) -> None:
    assert is_foreign(media_type) is foreign
    family = OCI if "oci" in media_type else DOCKER
    assert (media_type in family.layers) is (media_type != OCI.config)


def test_a_made_manifest_golden() -> None:
    manifest = Manifest.make(
        OCI,
        config=Descriptor(OCI.config, sha256(b"{}"), 2),
        layer_documents=[
            {"urls": [], "size": 0, "digest": DIGEST, "mediaType": OCI.layer_gzip, "x": 1}
        ],
        annotations={"k": "v"},
    )
    assert manifest.raw.decode() == (
        '{"annotations":{"k":"v"},"config":{"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4'
        'fc21fe77e8310c060f61caaff8a","mediaType":"application/vnd.oci.image.config.v1+json",'
        f'"size":2}},"layers":[{{"digest":"{DIGEST}","mediaType":'
        '"application/vnd.oci.image.layer.v1.tar+gzip","size":0,"urls":[],"x":1}],'
        '"mediaType":"application/vnd.oci.image.manifest.v1+json","schemaVersion":2}'
    )


# Indexes


def child(platform: dict[str, str] | None, **fields: Any) -> dict[str, Any]:
    document = {"mediaType": OCI.manifest, "digest": DIGEST, "size": 5, **fields}
    return document if platform is None else {**document, "platform": platform}


def index_document(*children: Any, **changes: Any) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": OCI.index,
        "manifests": list(children),
        **changes,
    }


def test_attestations_and_artifacts_are_no_images() -> None:
    amd64 = {"os": "linux", "architecture": "amd64"}
    unknown = {"os": "unknown", "architecture": "unknown"}
    attestation = {"vnd.docker.reference.type": "attestation-manifest"}
    index = Index.parse(
        raw(
            index_document(
                child(amd64),
                child(unknown, annotations=attestation),
                child(unknown),
                child(amd64, annotations=attestation),
                child(None, artifactType="application/vnd.example.sbom"),
                child(None, mediaType="application/xml"),
                child(None),
                child({"os": "linux", "architecture": "arm64"}, artifactType=OCI.config),
                child(amd64, mediaType=DOCKER.manifest),
            )
        )
    )
    assert len(index.manifests) == 9
    assert [index.manifests.index(one) for one in index.images()] == [0, 6, 7, 8]


@pytest.mark.parametrize(
    ("document", "media_type", "reason"),
    [
        (index_document(mediaType=OCI.manifest), None, "is not that of an index"),
        (index_document(), DOCKER.index, f"says {OCI.index}, its descriptor {DOCKER.index}"),
        (index_document(), OCI.manifest, f"says {OCI.index}, its descriptor {OCI.manifest}"),
        (index_document(manifests=None), None, "the index has no list of manifests"),
        (index_document("x"), None, "manifests[0] is not an object"),
        (index_document(layers=[]), None, "a manifest and an index at once"),
        (index_document(config={}), None, "a manifest and an index at once"),
        (index_document(schemaVersion=3), None, "schemaVersion is 3, not 2"),
        (index_document(annotations=[1]), None, "annotations is not an object of strings"),
    ],
)
def test_a_broken_index_is_refused(
    document: dict[str, Any], media_type: str | None, reason: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        Index.parse(raw(document), media_type)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_made_index_is_read_back(family: Family) -> None:
    children = [
        Descriptor(family.manifest, sha256(b"1"), 1, Platform("linux", "arm64")),
        Descriptor(family.manifest, sha256(b"2"), 2, AMD64),
    ]
    index = Index.make(family, children)
    assert list(index.manifests) == children
    assert index.descriptor() == Descriptor(family.index, sha256(index.raw), len(index.raw))
    assert Index.parse(index.raw, family.index) == index


# Configs


def test_a_config_and_its_views() -> None:
    data = raw(
        config_document(
            created="2024-01-01T00:00:00Z",
            variant="v3",
            config={"Env": ["A=1", "B=x=y", "C", "A=2"], "Labels": {"l": ""}},
            history=[{"empty_layer": True}, {}],
        )
    )
    config = Config.parse(data)
    assert config.raw == data
    assert config.digest == sha256(data)
    assert config.diff_ids == (Digest.parse(DIGEST),)
    assert config.platform == Platform("linux", "amd64", "v3")
    assert config.created == "2024-01-01T00:00:00Z"
    assert list(config.env.items()) == [("A", "2"), ("B", "x=y"), ("C", "")]
    assert config.history == ({"empty_layer": True}, {})
    assert config.descriptor(DOCKER) == Descriptor(DOCKER.config, sha256(data), len(data))


def test_nulls_in_a_config_are_as_good_as_absent() -> None:
    nulls = dict.fromkeys(("created", "config", "history", "variant"))
    config = Config.parse(raw(config_document(**nulls)))
    assert (config.created, config.runtime, config.history) == ("", {}, ())
    assert config.platform == AMD64
    inner = dict.fromkeys(("Env", "Labels", "Cmd"))
    assert Config.parse(raw(config_document(config=inner))).env == {}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rootfs": None}, "the config has no list rootfs.diff_ids"),
        ({"rootfs": {"type": "layers"}}, "the config has no list rootfs.diff_ids"),
        ({"rootfs": {"diff_ids": {}}}, "the config has no list rootfs.diff_ids"),
        ({"rootfs": {"type": "zip", "diff_ids": []}}, "rootfs.type is 'zip', not 'layers'"),
        ({"rootfs": {"diff_ids": [1]}}, "rootfs.diff_ids is not a list of strings"),
        ({"rootfs": {"diff_ids": ["x"]}}, "'x' is not a digest"),
        ({"config": ["x"]}, "the config's config is not an object"),
        ({"config": {"Env": "A=1"}}, "the config's Env is not a list of strings"),
        ({"config": {"Env": [None]}}, "the config's Env is not a list of strings"),
        ({"config": {"Labels": ["x"]}}, "the config's Labels is not an object of strings"),
        ({"history": {"x": 1}}, "the config's history is not a list of objects"),
        ({"history": ["x"]}, "the config's history is not a list of objects"),
    ],
)
def test_a_broken_config_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        Config.parse(raw(config_document(**changes)))


@pytest.mark.parametrize("parse", [Manifest.parse, Index.parse, Config.parse])
@properties(100)
@given(
    document=st.dictionaries(
        st.sampled_from(
            [
                "mediaType",
                "manifests",
                "layers",
                "config",
                "annotations",
                "rootfs",
                "history",
                "schemaVersion",
            ]
        ),
        VALUES,
    )
)
def test_any_object_is_read_or_refused(
    parse: Callable[[bytes], object], document: dict[str, Any]
) -> None:
    try:
        parse(raw(document))
    except ValueError:
        return
