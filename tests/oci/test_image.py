"""Derived images: the base's bytes and fields stay, ours are added, every digest is a golden."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.oci.digest import Digest, sha256
from composer.oci.image import DEFAULT_PATH, AddedLayer, Image, derive, index_of, scratch
from composer.oci.layer import Layer, encode_layer
from composer.oci.layout import Layout
from composer.oci.manifest import Config, Descriptor, Manifest
from composer.oci.mediatype import DOCKER, FAMILIES, OCI, Family
from composer.oci.platform import Platform
from composer.oci.validate import validate

from .support import (
    CREATED,
    MEMBERS,
    file,
    folder,
    image,
    is_root,
    needs,
    properties,
    run,
    store_image,
    store_layer,
)
from .test_layer import tricky

NOW = "2025-01-02T03:04:05Z"
AMD64, ARM64 = Platform("linux", "amd64"), Platform("linux", "arm64")
LAYER = Layer(sha256(b"tar"), sha256(b"gzip"), 4)
OURS = AddedLayer(LAYER, "compose: module fleet_sync")
OTHER = AddedLayer(Layer(sha256(b"tar 2"), sha256(b"gzip 2"), 6), "compose: overlay.json")


def base_layer(number: int, family: Family = OCI) -> tuple[Descriptor, Digest]:
    data = f"base {number}".encode()
    return Descriptor(family.layer_gzip, sha256(data), len(data)), sha256(data + b" tar")


def base(family: Family = OCI, **fields: Any) -> Image:
    return image([base_layer(0, family), base_layer(1, family)], family=family, **fields)


def runtime(derived: Image) -> Mapping[str, Any]:
    return derived.config.runtime


# Goldens: a change of any of these is a change of the format version.


@pytest.mark.parametrize(
    ("family", "manifest", "config"),
    [
        (
            OCI,
            "54c03733a869183f2b64701f53093428bea33045ab436efe3ff2185a758c6f49",
            "eb4ab300830894c364b325e6d56185916553ef5a3c82bbe3a146114ee5193602",
        ),
        (
            DOCKER,
            "2538780206f8667dad23ac8263bf057b10060ed5d3cb00b2b7aa528f403b3eeb",
            "eb4ab300830894c364b325e6d56185916553ef5a3c82bbe3a146114ee5193602",
        ),
    ],
    ids=["OCI", "Docker"],
)
def test_golden_digests(family: Family, manifest: str, config: str) -> None:
    derived = derive(
        base(family),
        [OURS, OTHER],
        created=NOW,
        env={"VLLM_X": "1", "A": "2"},
        labels={"dev.compose.inputs": "sha256:00"},
        entrypoint=["vllm", "serve"],
        cmd=["--help"],
        workdir="/srv",
    )
    assert str(derived.config.digest) == f"sha256:{config}"
    assert str(derived.digest) == f"sha256:{manifest}"


def test_golden_config() -> None:
    derived = derive(base(), [OURS], created=NOW, env={"B": "1"}, labels={"l": "m"})
    assert derived.config.raw.decode() == (
        '{"architecture":"amd64","config":{"Env":["PATH=/usr/bin","B=1"],"Labels":{"l":"m"}},'
        f'"created":"{NOW}","history":[{{"created_by":"layer 0"}},{{"created_by":"layer 1"}},'
        f'{{"created":"{NOW}","created_by":"compose: module fleet_sync"}}],"os":"linux",'
        f'"rootfs":{{"diff_ids":["{base_layer(0)[1]}","{base_layer(1)[1]}",'
        f'"{sha256(b"tar")}"],"type":"layers"}}}}'
    )


def test_golden_digests_of_scratch() -> None:
    assert str(scratch(AMD64, NOW).digest) == (
        "sha256:f6cadf1c3f4d94b29a3f15b74cef6273e9870bbd88adbb4ad0d1273e976a91b7"
    )
    assert str(scratch(ARM64, NOW).digest) == (
        "sha256:42889fd278bd79c98bc360cc8d46de99cc8ce2cbdff5c690c22a682648d2a3e6"
    )


# Layers


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_family_follows_the_base(family: Family) -> None:
    derived = derive(base(family), [OURS], created=NOW)
    assert derived.manifest.family is family
    assert json.loads(derived.manifest.raw)["mediaType"] == family.manifest
    assert derived.manifest.config.media_type == family.config
    assert derived.manifest.layers[-1].media_type == family.layer_gzip
    assert validate(derived, base=base(family)) == ()


def test_the_bases_descriptors_are_carried_over_whatever_is_in_them() -> None:
    foreign = {
        "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "digest": str(sha256(b"foreign")),
        "size": 5,
        "urls": ["https://example.com/layer"],
    }
    odd = {
        "mediaType": DOCKER.layer_gzip,
        "digest": str(sha256(b"odd")),
        "size": 3,
        "annotations": {"b": "2", "a": "1"},
        "data": "b2Rk",
        "unknown": {"nested": [1, None]},
        "platform": {"os": "linux", "architecture": "arm64", "variant": "v8", "os.version": "1"},
    }
    config = base(DOCKER).config
    manifest = Manifest.make(
        DOCKER, config=config.descriptor(DOCKER), layer_documents=[foreign, odd]
    )
    derived = derive(Image(manifest, config), [OURS], created=NOW)
    assert json.loads(derived.manifest.raw)["layers"] == [
        foreign,
        odd,
        LAYER.descriptor(DOCKER).document(),
    ]


def test_ours_follow_in_their_order() -> None:
    derived = derive(base(), [OURS, OTHER], created=NOW)
    assert [one.digest for one in derived.manifest.layers[2:]] == [
        sha256(b"gzip"),
        sha256(b"gzip 2"),
    ]
    assert derived.config.diff_ids[2:] == (sha256(b"tar"), sha256(b"tar 2"))


def test_a_base_out_of_step_with_itself_is_refused() -> None:
    broken = Image(base().manifest, image([base_layer(0)]).config)
    with pytest.raises(ValueError, match="the base's manifest has 2 layers, its config 1 diff_ids"):
        derive(broken, [OURS], created=NOW)


def test_what_the_bases_manifest_says_of_itself_is_left_behind() -> None:
    document = json.loads(base().manifest.raw)
    document["annotations"] = {"org.opencontainers.image.revision": "of the base"}
    document["subject"] = {"mediaType": OCI.manifest, "digest": str(sha256(b"x")), "size": 1}
    manifest = Manifest.parse(json.dumps(document).encode())
    derived = derive(Image(manifest, base().config), [], created=NOW)
    assert sorted(json.loads(derived.manifest.raw)) == [
        "config",
        "layers",
        "mediaType",
        "schemaVersion",
    ]


# History


EMPTY = {"created_by": "ENV A=1", "empty_layer": True}
PADDING = {"comment": "layer of the base, which has no history of it", "created": CREATED}
A, B, C = ({"created_by": letter} for letter in "abc")


@pytest.mark.parametrize(
    ("of_base", "kept"),
    [
        ([A, B], [A, B]),
        ([EMPTY, A, EMPTY, B, EMPTY], [EMPTY, A, EMPTY, B, EMPTY]),
        (None, [PADDING, PADDING]),
        ([], [PADDING, PADDING]),
        ([EMPTY], [EMPTY, PADDING, PADDING]),
        ([A, EMPTY], [A, EMPTY, PADDING]),
        ([A, B, C, EMPTY], [A, B, {**C, "empty_layer": True}, EMPTY]),
        ([{**A, "empty_layer": False}, B], [{**A, "empty_layer": False}, B]),
        ([{**A, "empty_layer": None}, B], [{**A, "empty_layer": None}, B]),
        ([{**A, "author": "x", "y": [1]}, B], [{**A, "author": "x", "y": [1]}, B]),
    ],
)
def test_history_is_kept_in_step(of_base: Any, kept: list[Mapping[str, Any]]) -> None:
    derived = derive(base(history=of_base), [OURS, OTHER], created=NOW)
    ours = [{"created": NOW, "created_by": added.created_by} for added in (OURS, OTHER)]
    assert list(derived.config.history) == [*kept, *ours]
    assert validate(derived) == ()


def test_padding_of_a_base_without_a_time_has_none() -> None:
    derived = derive(base(history=None, created=None), [], created=NOW)
    assert derived.config.history == ({"comment": PADDING["comment"]},) * 2


# Settings


def test_env_is_overridden_in_place_and_new_names_follow_sorted() -> None:
    of_base = ["PATH=/bin", "B=1", "UNSET", "C=x=y", "B=2"]
    derived = derive(
        base(config={"Env": of_base}), [], created=NOW, env={"Z": "", "A": "=", "B": "3", "C": "4"}
    )
    assert runtime(derived)["Env"] == ["PATH=/bin", "B=3", "UNSET", "C=4", "B=3", "A==", "Z="]


def test_env_of_a_base_without_any() -> None:
    config: dict[str, Any]
    for config in ({"Env": None}, {"Env": []}):
        assert runtime(derive(base(config=config), [], created=NOW, env={"A": "1"}))["Env"] == [
            "A=1"
        ]
    assert runtime(derive(base(config={"Env": None}), [], created=NOW))["Env"] is None


@pytest.mark.parametrize("name", ["", "A=B", "="])
def test_what_cannot_name_a_variable_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{name!r} cannot name an environment")):
        derive(base(), [], created=NOW, env={name: "1"})


def test_labels_are_added_to_the_bases() -> None:
    config = {"Labels": {"a": "1", "b": "2"}}
    derived = derive(base(config=config), [], created=NOW, labels={"b": "3", "c": "4"})
    assert runtime(derived)["Labels"] == {"a": "1", "b": "3", "c": "4"}
    assert runtime(derive(base(config=config), [], created=NOW))["Labels"] == config["Labels"]
    derived = derive(base(config={"Labels": None}), [], created=NOW, labels={"a": "1"})
    assert runtime(derived)["Labels"] == {"a": "1"}


@pytest.mark.parametrize(
    ("settings", "entrypoint", "cmd"),
    [
        ({}, ["old"], ["old", "arguments"]),
        # Dockerfile reference: "If CMD is defined from the base image, setting ENTRYPOINT will
        # reset CMD to an empty value."
        ({"entrypoint": ["new"]}, ["new"], None),
        ({"entrypoint": []}, None, None),
        ({"cmd": ["new"]}, ["old"], ["new"]),
        ({"cmd": []}, ["old"], None),
        ({"entrypoint": ("new",), "cmd": ("x",)}, ["new"], ["x"]),
        ({"entrypoint": [], "cmd": ["x"]}, None, ["x"]),
    ],
)
def test_entrypoint_and_cmd(settings: dict[str, Any], entrypoint: Any, cmd: Any) -> None:
    of_base = base(config={"Entrypoint": ["old"], "Cmd": ["old", "arguments"]})
    derived = runtime(derive(of_base, [], created=NOW, **settings))
    assert derived.get("Entrypoint") == entrypoint
    assert derived.get("Cmd") == cmd


def test_workdir() -> None:
    of_base = base(config={"WorkingDir": "/old"})
    assert runtime(derive(of_base, [], created=NOW))["WorkingDir"] == "/old"
    assert runtime(derive(of_base, [], created=NOW, workdir="/new"))["WorkingDir"] == "/new"


def test_all_else_in_the_bases_config_is_kept() -> None:
    unknown: dict[str, Any] = {
        "author": "someone",
        "container_config": {"Cmd": ["/bin/sh"]},
        "docker_version": "20.10",
        "os.version": "10.0",
        "variant": "v3",
        "moby.buildkit.cache.v0": "AAA",
        "x": [1.5, None, {"y": "\u2028é"}],
    }
    inner: dict[str, Any] = {
        "User": "1000",
        "Healthcheck": {"Test": ["NONE"]},
        "OnBuild": [],
        "z": None,
    }
    derived = derive(base(config=inner, **unknown), [OURS], created=NOW, env={"A": "1"})
    document = json.loads(derived.config.raw)
    assert {key: document[key] for key in unknown} == unknown
    assert {key: document["config"][key] for key in inner} == inner
    assert document["created"] == NOW


def test_a_base_without_settings_gets_none() -> None:
    document = {key: value for key, value in base().config.document.items() if key != "config"}
    config = Config.make(document)
    manifest = Manifest.make(
        OCI, config=config.descriptor(OCI), layer_documents=base().manifest.layer_documents
    )
    bare = Image(manifest, config)
    assert "config" not in derive(bare, [OURS], created=NOW).config.document
    assert runtime(derive(bare, [OURS], created=NOW, env={"A": "1"})) == {"Env": ["A=1"]}


@pytest.mark.parametrize(
    "created",
    ["1970-01-01T00:00:00Z", "2024-02-29T23:59:59.123456789+05:30", "2024-01-01T00:00:00-00:00"],
)
def test_times_are_kept_as_they_are_given(created: str) -> None:
    assert derive(base(), [], created=created).config.created == created


@pytest.mark.parametrize(
    "created",
    [
        "",
        "now",
        "1714566600",
        "2024-01-01",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00:00:00",
        "2024-01-01T00:00:00z",
        "2024-01-01T00:00:00Z\n",
        "2024-01-01T24:00:00Z",
        "2024-13-01T00:00:00Z",
    ],
)
def test_what_is_no_time_is_refused(created: str) -> None:
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        derive(base(), [], created=created)


@properties(100)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5).filter(lambda name: "=" not in name), st.text()
    ),
    st.dictionaries(st.text(), st.text()),
    st.randoms(),
)
def test_equal_settings_make_equal_images(
    env: dict[str, str], labels: dict[str, str], random: Any
) -> None:
    def shuffled(settings: dict[str, str]) -> dict[str, str]:
        return dict(random.sample(list(settings.items()), len(settings)))

    one = derive(base(), [OURS], created=NOW, env=env, labels=labels)
    other = derive(base(), [OURS], created=NOW, env=shuffled(env), labels=shuffled(labels))
    assert one.manifest.raw == other.manifest.raw
    assert one.config.raw == other.config.raw


def test_deriving_changes_nothing_of_the_base() -> None:
    of_base = base(config={"Labels": {"a": "1"}, "Cmd": ["x"]})
    before = (of_base.manifest.raw, of_base.config.raw, json.dumps(of_base.config.document))
    derive(of_base, [OURS], created=NOW, env={"A": "1"}, labels={"b": "2"}, entrypoint=["y"])
    assert before == (
        of_base.manifest.raw, of_base.config.raw, json.dumps(of_base.config.document)
    )  # fmt: skip


# From nothing


def test_scratch() -> None:
    made = scratch(Platform("linux", "arm", "v6"), NOW)
    assert made.platform == Platform("linux", "arm", "v6")
    assert made.manifest.family is OCI
    assert (made.manifest.layers, made.config.diff_ids, made.config.history) == ((), (), ())
    assert made.config.created == NOW
    assert made.config.env == {"PATH": DEFAULT_PATH}
    assert DEFAULT_PATH == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert validate(made) == ()
    derived = derive(made, [OURS], created=NOW, env={"PATH": "/bin"})
    assert derived.config.env == {"PATH": "/bin"}
    assert validate(derived, base=made) == ()


# Indexes


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_an_index_has_a_child_for_each_platform_in_their_order(family: Family) -> None:
    amd64 = derive(base(family), [OURS], created=NOW)
    arm64 = derive(base(family, architecture="arm64", variant="v8"), [OURS], created=NOW)
    index = index_of([arm64, amd64])
    assert index == index_of([amd64, arm64])
    assert index.family is family
    assert index.manifests == (
        amd64.manifest.descriptor(AMD64),
        arm64.manifest.descriptor(ARM64),
    )


def test_an_index_of_nothing_of_two_alike_or_of_both_families_is_refused() -> None:
    with pytest.raises(ValueError, match="images of one family, not of none"):
        index_of([])
    with pytest.raises(ValueError, match="several are of linux/amd64"):
        index_of([base(), derive(base(), [OURS], created=NOW)])
    with pytest.raises(ValueError, match="images of one family, not of Docker and OCI"):
        index_of([base(), base(DOCKER, architecture="arm64")])


# Other tools


def stored(tmp_path: Path) -> tuple[Layout, Image]:
    """A base and an image derived from it, in a layout."""
    layout = Layout(tmp_path / "layout")
    of_base = image([store_layer(layout, MEMBERS)], history=None)
    changes = [folder("opt"), folder("opt/app"), file("opt/app/main.py", b"print('patched')\n")]
    added = []
    for members, text in ((changes, "compose: patch"), (tricky(), "compose: tricky")):
        with layout.ingest() as ingest:
            layer = encode_layer(members, ingest.write)
            ingest.commit(layer.digest)
        added.append(AddedLayer(layer, text))
    derived = derive(of_base, added, created=NOW, env={"A": "1"}, entrypoint=["/bin/true"])
    return layout, store_image(layout, derived, "v1")


@needs("skopeo")
def test_skopeo_inspects_and_copies_a_derived_image(tmp_path: Path) -> None:
    layout, derived = stored(tmp_path)
    found = json.loads(run("skopeo", "inspect", f"oci:{layout.root}:v1"))
    assert found["Digest"] == str(derived.digest)
    assert found["Env"] == ["PATH=/usr/bin", "A=1"]
    assert found["Created"] == NOW
    copy = Layout(tmp_path / "copy")
    run("skopeo", "--insecure-policy", "copy", f"oci:{layout.root}:v1", f"oci:{copy.root}:v1")
    assert copy.read(derived.digest) == derived.manifest.raw
    assert validate(derived, copy) == ()


@needs("umoci")
def test_umoci_unpacks_a_derived_image(tmp_path: Path) -> None:
    layout, derived = stored(tmp_path)
    rootless = [] if is_root else ["--rootless"]
    bundle = tmp_path / "bundle"
    run("umoci", "unpack", *rootless, "--image", f"{layout.root}:v1", bundle)
    root = bundle / "rootfs"
    assert (root / "opt/app/main.py").read_bytes() == b"print('patched')\n"
    expected = {member.path for member in [*MEMBERS, *tricky()] if ".wh." not in member.path}
    assert {str(path.relative_to(root)) for path in root.rglob("*")} == expected
    process = json.loads((bundle / "config.json").read_text())["process"]
    assert process["args"] == ["/bin/true"]
    assert {"PATH=/usr/bin", "A=1"} <= set(process["env"])
    history = json.loads(run("umoci", "stat", "--json", "--image", f"{layout.root}:v1"))["history"]
    assert [entry["layer"]["digest"] for entry in history] == [
        str(one.digest) for one in derived.manifest.layers
    ]
