"""An image built on a base that lies only in a registry, as other tools see it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from composer.lock import load
from tests.support.baseimages import ARCH, PACKAGES, TINY, BaseImage, Item, Layer, one_image, tar_of
from tests.support.commands import run, tool
from tests.support.images import layer_members, manifest, own_files
from tests.support.projects import CORE, SmallProject, diff, digest_of

from .conftest import PLATFORMS, Place

FAMILIES = pytest.mark.parametrize("family", ["oci", "docker"])
CHANGED = CORE.replace(b"line 3\n", b"changed\n")
HARD = b"one = 1\ntwo = 2\n"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to unpack with owners")
Make = Callable[..., SmallProject]


def full_module(project: SmallProject) -> None:
    """Make `first` a module with a change of each kind, on files of every kind."""
    conf, arch = b"a = 1\nb = 2\n", list(ARCH.values())
    patches = {
        "core.patch": ("tiny/core.py", CORE, CHANGED),
        "wide.patch": ("tiny/arch.py", arch[0], b"wide = 64\n"),
        "arm.patch": ("tiny/arch.py", arch[1], b"wide = 32\n"),
        "conf.patch": ("/etc/tiny.conf", conf, conf.replace(b"1", b"3")),
        # Both links of the base lead to the package.
        "hard.patch": (
            "/opt/venv/lib64/python3.12/site-packages/tiny/hard.py",
            HARD,
            HARD.replace(b"2", b"3"),
        ),
    }
    contents = {name: diff(before, after) for name, (_, before, after) in patches.items()}
    contents |= {"added.py": b"added = True\n", "lib.py": b"lib = True\n"}
    project.module(
        "first",
        contents=contents,
        patch=[
            {"target": target, "file": name, "preimage": [digest_of(before)]}
            for name, (target, before, _) in patches.items()
        ],
        add=[
            {"target": "tiny/added.py", "file": "added.py"},
            {"target": "tiny/gone.py", "file": "added.py"},  # the base had one, and removed it
            {"target": "tiny/new/deep.py", "file": "added.py"},
            {"target": "/lib/tiny/lib.py", "file": "lib.py"},
        ],
        remove=[{"target": "/usr/bin/tool", "preimage": [digest_of(b"#!/bin/sh\n")]}],
        read=[{"target": "tiny/old/fresh.py", "preimage": [digest_of(b"fresh\n")]}],
    )


def pushed(project: SmallProject) -> Any:
    """Push the image and return what `--json` says."""
    return project.compose("push", "app", "--json").json


def unpacked(reference: str, platform: str, folder: Path) -> Path:
    """Return the root directory that umoci makes of what skopeo pulls."""
    system, arch = platform.split("/")
    folder.mkdir()
    copy = [tool("skopeo"), f"--override-os={system}", f"--override-arch={arch}", "copy", "-q"]
    # umoci 0.4 reads no zstd: through a directory of plain layers, which skopeo compresses again.
    plain = f"dir:{folder}/plain"
    source = f"docker://{reference}"
    run([*copy, "--src-tls-verify=false", "--dest-decompress", source, plain], cwd=folder)
    run([*copy, plain, f"oci:{folder}/layout:app"], cwd=folder)
    image = f"{folder}/layout:app"
    run([tool("umoci"), "unpack", "--image", image, str(folder / "bundle")], cwd=folder)
    return folder / "bundle/rootfs"


@FAMILIES
def test_what_is_pushed_is_what_other_tools_read(
    place: Place, images: dict[str, BaseImage], on: Make, family: str, tmp_path: Path
) -> None:
    base = images[family]
    project = on(f"{place.netloc}/base/{family}:v1")
    answer = pushed(project)
    name = answer["reference"].partition("@")[0]
    raw = place.raw(name)
    assert digest_of(raw) == answer["digest"]
    lock = load((project.root / "lock/app.lock").read_bytes(), "lock")
    assert (lock.digest, lock.base.digest) == (answer["digest"], base.digest)
    index = json.loads(raw)
    assert index["mediaType"] == base.top["mediaType"]
    platforms = [
        f"{one['platform']['os']}/{one['platform']['architecture']}" for one in index["manifests"]
    ]
    assert platforms == PLATFORMS
    for child, platform in zip(index["manifests"], platforms, strict=True):
        derived = json.loads(place.raw(f"{name.rpartition(':')[0]}@{child['digest']}"))
        original = base.manifest(platform)
        assert child["mediaType"] == derived["mediaType"] == original["mediaType"]
        assert derived["config"]["mediaType"] == original["config"]["mediaType"]
        count = len(original["layers"])
        assert derived["layers"][:count] == original["layers"]
        kinds = {one["mediaType"] for one in derived["layers"][count:]}
        assert kinds == {original["layers"][0]["mediaType"]}
    out = tmp_path / "pulled"
    copy = [tool("skopeo"), "copy", "-q", "--all", "--preserve-digests", "--src-tls-verify=false"]
    run([*copy, f"docker://{name}", f"dir:{out}"], cwd=tmp_path)
    assert digest_of((out / "manifest.json").read_bytes()) == answer["digest"]


@FAMILIES
def test_config_and_history_follow_the_base(
    place: Place, images: dict[str, BaseImage], on: Make, family: str
) -> None:
    project = on(f"{place.netloc}/base/{family}:v1")
    answer = project.build()
    for platform, one in zip(PLATFORMS, answer["platforms"], strict=True):
        base = images[family].config(platform)
        config = manifest(project.store, one["config"])
        kept = {key: value for key, value in base.items() if key in ("author", "os")}
        assert kept.items() <= config.items()
        assert config["created"] == "2024-05-01T12:30:00Z"
        assert config["history"][:-2] == base["history"]
        assert [entry["created_by"] for entry in config["history"][-2:]] == [
            "compose first",
            "compose (overlay.json)",
        ]
        ours = [layer["diff_id"] for layer in one["layers"]]
        assert config["rootfs"]["diff_ids"] == base["rootfs"]["diff_ids"] + ours
        labels = config["config"]["Labels"]
        assert labels["org.opencontainers.image.base.name"] == f"{place.netloc}/base/{family}:v1"
        child = images[family].children[platform]["digest"]
        assert labels["org.opencontainers.image.base.digest"] == child
        assert config["config"]["Env"] == base["config"]["Env"]


def test_the_lock_says_what_was_asked_of_the_base(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    project.build()
    lock = load((project.root / "lock/app.lock").read_bytes(), "lock")
    assert [one.platform for one in lock.platforms] == PLATFORMS
    for one in lock.platforms:
        assert one.base_name == f"{place.netloc}/base/oci:v1"
        assert one.base_layers == 3
        facts = set(one.facts)
        assert f"roots tiny {PACKAGES}" in facts
        assert f"layer {TINY}/core.py 1" in facts
        assert f"stat {TINY} d 701 1000:1001 1600000007" in facts
        assert f"names {TINY} core core.py" in facts
        core = digest_of(CORE).removeprefix("sha256:")
        assert any(
            fact.startswith(f"stat {TINY}/core.py f 640 1000:1001 1600000000 {len(CORE)} {core}")
            for fact in facts
        )


def test_the_lock_is_the_same_wherever_it_is_made(place: Place, on: Make) -> None:
    locks = set()
    for _ in range(2):  # each with a store of its own
        project = on(f"{place.netloc}/base/oci:v1")
        project.compose("lock")
        locks.add((project.root / "lock/app.lock").read_bytes())
    assert len(locks) == 1


def test_headers_of_our_layers(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    full_module(project)
    answer = project.build()
    first, last = answer["platforms"][0]["layers"]
    members = {one.name: one for one, _ in layer_members(project.store, first["digest"])}
    seen = {
        name: (oct(one.mode), one.uid, one.gid, int(one.mtime)) for name, one in members.items()
    }
    before = 1_600_000_000
    expected = {
        "etc": ("0o755", 0, 0, before + 1),
        "opt": ("0o711", 0, 0, before + 3),
        "opt/venv": ("0o750", 1000, 1001, before + 4),
        "opt/venv/lib": ("0o755", 0, 0, before),
        "opt/venv/lib/python3.12": ("0o1777", 0, 0, before + 5),
        PACKAGES: ("0o2775", 1000, 50, before + 6),
        TINY: ("0o701", 1000, 1001, before + 7),
    }
    assert {name: seen[name] for name in expected} == expected
    assert all(members[name].isdir() for name in expected)
    assert seen["etc/tiny.conf"][:3] == ("0o600", 7, 8)
    assert seen[f"{TINY}/core.py"][:3] == ("0o640", 1000, 1001)
    assert members[f"{TINY}/core.py"].pax_headers["SCHILY.xattr.user.by"] == "whéel"
    assert members["opt/venv/lib"].pax_headers["SCHILY.xattr.user.kind"] == "venv"
    assert members[f"{TINY}/hard.py"].isreg()
    assert seen[f"{TINY}/added.py"][:3] == ("0o644", 0, 0)
    assert seen[f"{TINY}/new"][:3] == ("0o755", 0, 0)
    assert "lib" not in members  # a link of the base, and not ours to replace
    assert "opt/venv/lib64" not in members
    assert {name for name in members if "/.wh." in name} == {
        "usr/bin/.wh.tool",
        f"{TINY}/.wh.added.pyc",
        f"{TINY}/__pycache__/.wh.added.cpython-312.pyc",
        f"{TINY}/__pycache__/.wh.core.cpython-312.pyc",
        f"{TINY}/__pycache__/.wh.core.cpython-312.opt-1.pyc",
    }
    share = {one.name: one for one, _ in layer_members(project.store, last["digest"])}
    assert (share["usr/share"].mode, share["usr/share"].uid, share["usr/share"].gid) == (
        0o751,
        3,
        4,
    )


@needs_root
def test_the_unpacked_image(place: Place, on: Make, tmp_path: Path) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    full_module(project)
    name = pushed(project)["reference"].partition("@")[0]
    for platform, wide in zip(PLATFORMS, (b"wide = 64\n", b"wide = 32\n"), strict=True):
        root = unpacked(name, platform, tmp_path / platform[-5:])
        tiny = root / TINY
        assert (tiny / "core.py").read_bytes() == CHANGED
        assert (tiny / "arch.py").read_bytes() == wide
        assert (tiny / "hard.py").read_bytes() == HARD.replace(b"2", b"3")
        assert (tiny / "hard_too.py").read_bytes() == HARD
        assert (tiny / "gone.py").read_bytes() == b"added = True\n"
        assert (root / "usr/lib/tiny/lib.py").read_bytes() == b"lib = True\n"
        assert (root / "lib").is_symlink()
        assert (root / "opt/venv/lib64").is_symlink()
        assert not (root / "usr/bin/tool").exists()
        assert not (tiny / "old/hidden.py").exists()
        assert (tiny / "old/fresh.py").read_bytes() == b"fresh\n"
        left = sorted(path.name for path in tiny.rglob("*.pyc"))
        assert left == ["core2.cpython-312.pyc"]
        for below, owner, mode in (
            ("core.py", (1000, 1001), 0o640),
            (".", (1000, 1001), 0o701),
            ("..", (1000, 50), 0o2775),
            ("../..", (0, 0), 0o1777),
        ):
            found = (tiny / below).stat()
            assert (found.st_uid, found.st_gid) == owner
            assert stat.S_IMODE(found.st_mode) == mode


def test_remarks_name_the_other_links_of_a_file(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    full_module(project)
    done = project.compose("build", "app")
    assert f"/{TINY}/hard.py is hard-linked in the base; /{TINY}/hard_too.py keep" in done.err
    assert done.err.count("hard-linked") == 1


def test_one_base_wherever_it_lies(
    place: Place, images: dict[str, BaseImage], on: Make, tmp_path: Path
) -> None:
    base = images["oci"]
    layout = base.layout(tmp_path / "a:b")  # a directory whose name has a colon
    archive = base.oci_archive(tmp_path / "base.tar")
    saved = base.docker_archive(tmp_path / "saved.tar", "linux/amd64")
    spelled = {
        f"{place.netloc}/base/oci:v1": base.digest,
        f"docker://{place.netloc}/base/oci:v1": base.digest,
        f"{place.netloc}/base/oci@{base.digest}": base.digest,
        f"oci:{layout}:v1": base.digest,
        f"oci:{layout}": base.digest,
        f"archive:{archive}": base.digest,
        f"archive:{archive}:v1": base.digest,
        f"archive:{saved}": None,
        f"archive:{saved}:local/tiny:v1": None,
        f"{place.netloc}/base/oci@{base.children['linux/amd64']['digest']}": None,
    }
    layers = set()
    for text, digest in spelled.items():
        project = on(text)
        full_module(project)
        answer = project.build()
        lock = load((project.root / "lock/app.lock").read_bytes(), "lock")
        assert digest in (None, lock.base.digest)
        assert len(answer["platforms"]) == (2 if digest else 1)
        wide = answer["platforms"][0]
        layers.add(tuple((one["diff_id"], one["digest"]) for one in wide["layers"]))
        assert own_files(project.store, answer)[f"{TINY}/core.py"] == CHANGED
    assert len(layers) == 1


def test_a_layout_beside_images_toml_is_named_relative_to_it(
    images: dict[str, BaseImage], on: Make
) -> None:
    project = on("oci:../base:v1", platforms=["linux/arm64"])
    images["oci"].layout(project.folder / "base")
    answer = project.build()
    assert [one["platform"] for one in answer["platforms"]] == ["linux/arm64"]
    index = manifest(project.store, answer["digest"])
    assert len(index["manifests"]) == 1


def test_platforms_that_are_listed_are_those_that_are_made(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/docker:v1", platforms=["linux/arm64/v8"])
    answer = pushed(project)
    index = json.loads(place.raw(answer["reference"].partition("@")[0]))
    assert [one["platform"]["architecture"] for one in index["manifests"]] == ["arm64"]


def test_a_file_under_the_name_of_its_hard_link(on: Make, tmp_path: Path) -> None:
    """The content stands under another name, of the same layer or of one below; at the root too."""
    text = b"one = 1\n"
    below = [Item("first", text), Item(f"{TINY}/core.py", CORE)]
    above = [
        Item("second", b"", kind="h", link="first"),
        Item("third", b"", kind="h", link="/own"),
        Item("fourth", kind="h", link="own"),
    ]
    own = Item("own", b"two = 2\n")
    image = BaseImage()
    one_image(image, [Layer(tar_of(below)), Layer(tar_of([own, *above]))])
    project = on(f"oci:{image.layout(tmp_path / 'base')}")
    project.module(
        "first",
        contents={
            "second.patch": diff(text, b"one = 3\n"),
            "fourth.patch": diff(own.data, b"two = 4\n"),
        },
        patch=[
            {"target": "/second", "file": "second.patch", "preimage": [digest_of(text)]},
            {"target": "/fourth", "file": "fourth.patch", "preimage": [digest_of(own.data)]},
        ],
    )
    done = project.compose("build", "app")
    assert "/second is hard-linked in the base; /first keep the old content" in done.err
    assert "/fourth is hard-linked in the base; /own, /third keep the old content" in done.err
    files = own_files(project.store, project.build())
    assert (files["second"], files["fourth"]) == (b"one = 3\n", b"two = 4\n")
    again = {"COMPOSE_STORE": str(project.folder / "another")}
    assert project.build("app", "--locked", **again) == project.build()


@FAMILIES
def test_an_archive_with_the_layers_of_the_base(
    place: Place, images: dict[str, BaseImage], on: Make, family: str, tmp_path: Path
) -> None:
    project = on(f"{place.netloc}/base/{family}:v1", platforms=["linux/amd64"])
    archive = tmp_path / "app.tar"
    answer = project.build("app", "--output", str(archive))
    platform = answer["platforms"][0]
    base = images[family].config("linux/amd64")["rootfs"]["diff_ids"]
    expected = base + [one["diff_id"] for one in platform["layers"]]
    for transport in ("docker-archive", "oci-archive"):
        command = [tool("skopeo"), "inspect", "--config", "--override-arch=amd64"]
        config = run([*command, f"{transport}:{archive}"], cwd=tmp_path).json
        assert config["rootfs"]["diff_ids"] == expected
    out = tmp_path / "out"
    run([tool("skopeo"), "copy", "-q", f"docker-archive:{archive}", f"dir:{out}"], cwd=tmp_path)
