"""Bases that are not there, not whole, or not images: what is said, and that nothing is left."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import zstandard

from composer.lock import load
from tests.support.baseimages import (
    ARCH,
    PACKAGES,
    TINY,
    BaseImage,
    Item,
    Layer,
    image_base,
    one_image,
    tar_of,
    upload,
)
from tests.support.commands import ROOT, Done, run
from tests.support.distribution import running_registry
from tests.support.images import own_files
from tests.support.projects import CORE, SmallProject, diff, digest_of

from .conftest import PLATFORMS, Place

Make = Callable[..., SmallProject]

# ann:s3cret-pa55, bcrypt of cost 5
HTPASSWD = "ann:$2b$05$OCcShx9ZmgqRmEW453KoQuMSseowx6GxgCmyNuEpsxkkVYBCAleqe"


# Runs a verb and prints the most memory it held, in KiB. Not ru_maxrss, in which a process
# inherits the size of the one that started it.
PEAK = r"""
import re, sys
from pathlib import Path
from composer.cli import run
code = run(sys.argv[1:])
print(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""


def refused(project: SmallProject, code: int, *texts: str, verb: str = "build") -> Done:
    """Run a verb that fails, and check what it says and leaves behind."""
    before = locks(project)
    done = project.compose(verb, "app", ok=False)
    assert (done.code, done.out) == (code, ""), done.err
    for text in texts:
        assert text in done.err
    assert "Traceback" not in done.err
    assert locks(project) == before
    whole(project.store)
    return done


def locks(project: SmallProject) -> dict[str, bytes]:
    """Return every file of lock/."""
    return {path.name: path.read_bytes() for path in project.root.glob("lock/*")}


def whole(store: Path) -> None:
    """Check that a store holds whole blobs only, and no file of a write that failed."""
    for path in store.glob("blobs/sha256/*"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    assert not [*store.glob("ingest/*"), *store.rglob("*.tmp-*")]


def layout_of(
    layers: Sequence[Layer], folder: Path, change: Callable[[BaseImage], None] = lambda _: None
) -> str:
    """Write an image of these layers as a layout, and return how it is spelled as a base."""
    image = BaseImage()
    one_image(image, layers)
    change(image)
    return f"oci:{image.layout(folder)}:v1"


def with_core(*items: Item) -> Layer:
    """Return a layer with the package, and these entries."""
    return Layer(tar_of([Item(f"{TINY}/core.py", CORE), *items]))


# What is there


@pytest.mark.parametrize("name", ["base/oci:v2", "base/nowhere:v1", f"base/oci@{digest_of(b'')}"])
def test_an_image_that_is_not_there(place: Place, on: Make, name: str) -> None:
    project = on(f"{place.netloc}/{name}")
    done = refused(project, 2, f"there is no image {place.netloc}/{name}", "unknown")
    assert "check the name and the tag" in done.err


@pytest.mark.parametrize("verb", ["build", "lock", "push"])
def test_a_registry_that_is_not_there(on: Make, verb: str) -> None:
    project = on("127.0.0.1:9/base/oci:v1")
    refused(project, 3, "127.0.0.1:9", verb=verb)


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, images: dict[str, BaseImage]
) -> Iterator[tuple[str, Path]]:
    """A registry behind a password; `host:port`, and the file with the password."""
    folder = tmp_path_factory.mktemp("guarded")
    auth = base64.b64encode(b"ann:s3cret-pa55").decode()
    with running_registry(folder, HTPASSWD) as netloc:
        (folder / "auth.json").write_text(json.dumps({"auths": {netloc: {"auth": auth}}}))
        upload(images["oci"], netloc, "base/oci", "v1", authorization=f"Basic {auth}")
        yield netloc, folder / "auth.json"


def test_without_permission(guarded: tuple[str, Path], on: Make, tmp_path: Path) -> None:
    netloc, auth = guarded
    project = on(f"{netloc}/base/oci:v1")
    project.env["REGISTRY_AUTH_FILE"] = str(tmp_path / "none.json")
    done = refused(project, 3, "no permission", f"docker login {netloc}", "UNAUTHORIZED")
    assert str(tmp_path / "none.json") in done.err
    wrong = auth.read_text().replace(
        base64.b64encode(b"ann:s3cret-pa55").decode(), base64.b64encode(b"ann:wr0ng").decode()
    )
    (tmp_path / "wrong.json").write_text(wrong)
    project.env["REGISTRY_AUTH_FILE"] = str(tmp_path / "wrong.json")
    done = refused(project, 3, "no permission", str(tmp_path / "wrong.json"), verb="push")
    assert "wr0ng" not in done.err
    project.env["REGISTRY_AUTH_FILE"] = str(auth)
    answer = project.compose("push", "app", "--json").json
    assert answer["blobs"] == {"mounted": 4, "sent": 4}


def test_a_platform_that_the_base_lacks(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1", platforms=["linux/amd64", "linux/s390x"])
    refused(
        project,
        2,
        "the base has no image for linux/s390x",
        "images.toml",
        "found:    linux/amd64, linux/arm64",
    )
    whole(project.store)


def test_a_single_manifest_of_another_platform(
    place: Place, images: dict[str, BaseImage], on: Make
) -> None:
    child = images["oci"].children["linux/arm64"]["digest"]
    project = on(f"{place.netloc}/base/oci@{child}", platforms=["linux/amd64"])
    refused(project, 2, "the base has no image for linux/amd64", "found:    linux/arm64")


# What is damaged


@pytest.mark.parametrize("how", ["truncated", "corrupted", "longer", "missing"])
def test_a_damaged_layer(
    own_place: Place, images: dict[str, BaseImage], on: Make, how: str
) -> None:
    digest = images["oci"].manifest("linux/amd64")["layers"][0]["digest"]
    path = own_place.blob(digest)
    right = path.read_bytes()
    damaged = {
        "truncated": right[: len(right) // 2],
        "corrupted": right[:5000] + bytes([right[5000] ^ 1]) + right[5001:],
        "longer": right + right,
    }
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(damaged[how])
    project = on(f"{own_place.netloc}/base/oci:v1")
    refused(project, 3 if how == "missing" else 4, digest)
    assert not any(digest in str(path) for path in project.store.rglob("*"))
    path.write_bytes(right)
    project.build()
    whole(project.store)


@pytest.mark.parametrize("part", ["config", "child"])
def test_a_damaged_document(
    own_place: Place, images: dict[str, BaseImage], on: Make, part: str
) -> None:
    base = images["oci"]
    child = base.children["linux/arm64"]["digest"]
    digest = child if part == "child" else base.manifest("linux/arm64")["config"]["digest"]
    path = own_place.blob(digest)
    path.write_bytes(path.read_bytes().replace(b"linux", b"Linux").replace(b"layers", b"Layers"))
    refused(on(f"{own_place.netloc}/base/oci:v1"), 4, digest)


def test_a_config_of_other_layers(on: Make, tmp_path: Path) -> None:
    image = BaseImage()
    one_image(image, [Layer(b"", "")])
    stored = Layer(tar_of([Item(f"{TINY}/core.py", CORE)]))
    manifest = image.document(image.digest)
    kind = manifest["layers"][0]["mediaType"]
    manifest["layers"] = [image.add(stored.stored(), f"{kind}+gzip")]
    image.top = image.add_json(manifest, image.top["mediaType"])
    refused(
        on(f"oci:{image.layout(tmp_path / 'base')}"),
        4,
        "a layer of the base is not the one its config names",
        f"expected: diff_id {Layer(b'').diff_id}",
        f"found:    {stored.diff_id}",
    )


def test_a_registry_that_goes_down_in_the_middle(
    place: Place, images: dict[str, BaseImage], on: Make
) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    with place.tap.going_down(500_000):
        done = refused(project, 3)
    assert place.netloc in done.err
    place.tap.clear()
    project.build()
    # What was read before it went down is not read again.
    tables = list((project.store / "tables").rglob("*"))
    assert len([path for path in tables if path.is_file()]) == 4
    small = images["oci"].manifest("linux/amd64")["layers"][1]["digest"]
    assert place.tap.blobs().count(small) <= 1


def test_a_registry_that_goes_down_during_a_push(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    project.build()
    with place.tap.down():
        done = project.compose("push", "app", "--tag", "v9", ok=False)
    assert (done.code, done.out) == (3, "")
    assert "Traceback" not in done.err
    done = project.compose("push", "app", "--tag", "v9")
    assert place.has(done.last.partition("@")[0])


# What is no image, or one that nobody should unpack


@pytest.mark.parametrize("name", ["../../etc/passwd", "usr/../../etc/passwd", ".."])
def test_a_name_that_leaves_the_image(on: Make, tmp_path: Path, name: str) -> None:
    project = on(layout_of([with_core(Item(name, b"x"))], tmp_path / "base"))
    refused(project, 2, "a layer has an entry that no image may have", "'..'", "layer 1")


def test_absolute_names_are_below_the_root(on: Make, tmp_path: Path) -> None:
    layer = Layer(tar_of([Item(f"/{TINY}/core.py", CORE), Item("//etc//x", b"")]))
    project = on(layout_of([layer], tmp_path / "base"))
    assert f"{TINY}/core.py" in own_files(project.store, project.build())


def test_a_layer_that_is_no_archive(on: Make, tmp_path: Path) -> None:
    project = on(layout_of([with_core(), Layer(b"text" * 1000)], tmp_path / "base"))
    refused(project, 4, "a layer's archive is malformed", "layer 2")


def test_a_layer_compressed_otherwise_than_it_says(on: Make, tmp_path: Path) -> None:
    def lie(image: BaseImage) -> None:
        manifest = image.document(image.digest)
        manifest["layers"][0]["mediaType"] = manifest["layers"][0]["mediaType"].replace(
            "gzip", "zstd"
        )
        image.top = image.add_json(manifest, image.top["mediaType"])

    project = on(layout_of([with_core()], tmp_path / "base", lie))
    refused(project, 4, "compressed in a way that its media type rules out", "expected: zstd")


def test_a_manifest_of_both_families(on: Make, tmp_path: Path) -> None:
    def mix(image: BaseImage) -> None:
        manifest = image.document(image.digest)
        manifest["layers"][0]["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.gzip"
        image.top = image.add_json(manifest, image.top["mediaType"])

    project = on(layout_of([with_core()], tmp_path / "base", mix))
    refused(project, 2, "the base is not an image that can be built on", "docker.image.rootfs")


def test_an_artifact(on: Make, tmp_path: Path) -> None:
    def chart(image: BaseImage) -> None:
        manifest = image.document(image.digest)
        config = image.add(b"{}", "application/vnd.cncf.helm.config.v1+json")
        image.top = image.add_json({**manifest, "config": config}, image.top["mediaType"])

    project = on(layout_of([with_core()], tmp_path / "base", chart))
    refused(project, 2, "the base is not an image that can be built on")


def test_two_images_of_one_platform(on: Make, tmp_path: Path) -> None:
    image = image_base(tmp_path / "layers", archs=["amd64"])
    index = image.document(image.digest)
    other = one_image(image, [with_core()])
    index["manifests"].append(other)
    image.top = image.add_json(index, index["mediaType"])
    project = on(f"oci:{image.layout(tmp_path / 'base')}")
    refused(project, 2, "it has two images for linux/amd64")


def test_an_image_of_another_platform_than_its_index_says(on: Make, tmp_path: Path) -> None:
    image = image_base(tmp_path / "layers")
    index = image.document(image.digest)
    for child in index["manifests"]:
        if child["platform"]["architecture"] == "arm64":
            child.update(one_image(image, [with_core()]), platform=child["platform"])
    image.top = image.add_json(index, index["mediaType"])
    base = f"oci:{image.layout(tmp_path / 'base')}"
    refused(
        on(base),
        2,
        "an image of the base is of another platform than its index says",
        "expected: linux/arm64",
        "found:    linux/amd64, in its config",
    )
    on(base, platforms=["linux/amd64"]).build()


def test_an_index_without_images(on: Make, tmp_path: Path) -> None:
    image = image_base(tmp_path / "layers", archs=["amd64"])
    index = image.document(image.digest)
    index["manifests"] = index["manifests"][1:]  # the attestation
    image.top = image.add_json(index, index["mediaType"])
    project = on(f"oci:{image.layout(tmp_path / 'base')}")
    refused(project, 2, "the base is not an image that can be built on", "it lists no image")


def test_a_foreign_layer_is_never_fetched(on: Make, tmp_path: Path) -> None:
    foreign = Layer(tar_of([Item("windows", kind="d")]), "foreign")
    project = on(layout_of([foreign, with_core()], tmp_path / "base"))
    refused(project, 2, "a layer of the base lies elsewhere (a foreign layer)", "layer 1")


def test_a_layer_that_inflates_without_end(on: Make, tmp_path: Path) -> None:
    """Stopped after a gigabyte, of which little is ever held."""
    header = bytearray(tar_of([Item("zeros", b"")])[:512])
    header[124:136] = b"%011o\0" % (4 * 1024**3)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    data = packer.compress(bytes(header))
    zeros = bytes(16 * 1024**2)
    data += b"".join(packer.compress(zeros) for _ in range(70)) + packer.flush()
    assert len(data) < 200_000

    def bomb(image: BaseImage) -> None:
        manifest = image.document(image.digest)
        kind = manifest["layers"][0]["mediaType"].replace("gzip", "zstd")
        manifest["layers"][0] = image.add(data, kind)
        image.top = image.add_json(manifest, image.top["mediaType"])

    project = on(layout_of([with_core()], tmp_path / "base", bomb))
    env = {**os.environ, "COMPOSE_STORE": str(project.store), "PYTHONPATH": str(ROOT)}
    done = run([sys.executable, "-c", PEAK, "build", "app"], cwd=project.root, env=env, ok=False)
    assert done.code == 4
    assert "a layer inflates without end" in done.err
    assert "expected: at most 1100 bytes for each compressed one" in done.err
    assert int(done.out) < 150 * 1024  # KiB
    whole(project.store)


# What changes, and what fits one platform only


def test_a_tag_that_moved(own_place: Place, images: dict[str, BaseImage], on: Make) -> None:
    name = f"{own_place.netloc}/base/oci"
    project = on(f"{name}:v1")
    first = project.build()
    other = BaseImage()
    one_image(other, [with_core(Item("new", b""))])
    upload(other, own_place.netloc, "base/oci", "v1")
    project.patch("first", {3: "changed", 9: "too"})
    for store in ("store", "fresh"):
        answer = project.build(COMPOSE_STORE=str(project.folder / store))
        lock = load((project.root / "lock/app.lock").read_bytes(), "lock")
        assert lock.base.digest == images["oci"].digest
        assert answer["digest"] == lock.digest != first["digest"]
        project.compose("build", "app", "--locked", COMPOSE_STORE=str(project.folder / store))
    done = project.compose("lock", "--upgrade-base")
    lock = load((project.root / "lock/app.lock").read_bytes(), "lock")
    assert lock.base.digest == other.digest
    assert [one.platform for one in lock.platforms] == ["linux/amd64"]
    assert f"base tiny {images['oci'].digest[:19]}" in done.out


def test_a_base_that_moved_away_from_a_patch(own_place: Place, on: Make) -> None:
    project = on(f"{own_place.netloc}/base/oci:v1")
    project.build()
    other = BaseImage()
    newer = CORE.replace(b"line 3\n", b"line three\n")
    one_image(other, [Layer(tar_of([Item(f"{TINY}/core.py", newer)]))])
    upload(other, own_place.netloc, "base/oci", "v1")
    before = locks(project)
    done = project.compose("lock", "--upgrade-base", ok=False)
    assert done.code == 2
    assert "module first" in done.err
    assert "tiny/core.py" in done.err
    assert digest_of(newer) in done.err
    assert locks(project) == before


def test_two_copies_of_the_package(on: Make, tmp_path: Path) -> None:
    second = "usr/lib/python3/dist-packages"
    copy = Layer(tar_of([Item(f"{second}/tiny/core.py", CORE)]))
    base = layout_of([with_core(), copy], tmp_path / "base")
    refused(
        on(base),
        2,
        f"tiny is in /{PACKAGES} and /{second}",
        "name one: package_root of the base",
    )
    for root, path in (
        (f"/{second}", second),
        # Through a link, as people know it.
        ("/opt/venv/lib64/python3.12/site-packages", PACKAGES),
    ):
        link = Layer(tar_of([Item("opt/venv/lib64", kind="l", link="lib")]))
        name = path.replace("/", "-")
        project = on(layout_of([with_core(), copy, link], tmp_path / name), package_root=root)
        files = own_files(project.store, project.build())
        assert sorted(files) == [f"{path}/tiny/core.py", "usr/share/compose/overlay.json"]


def test_a_module_that_fits_one_platform(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    before, after = ARCH["amd64"], b"wide = 64\n"
    entry = {"target": "tiny/arch.py", "file": "p.patch", "preimage": [digest_of(before)]}
    gone = {"target": "tiny/nowhere.py", "file": "p.patch", "preimage": [digest_of(before)]}
    project.module("first", contents={"p.patch": diff(before, after)}, patch=[entry, gone])
    done = refused(project, 2, f"found:    {digest_of(ARCH['arm64'])}")
    heads = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(heads) == 2
    (on_one,) = (line for line in heads if "arch.py" in line)
    (on_both,) = (line for line in heads if "nowhere.py" in line)
    assert on_one.endswith("(on linux/arm64 only)")
    assert "only" not in on_both
    assert "2 faults" in done.err
    project.module("first", contents={"p.patch": diff(before, after)}, patch=[entry])
    project.bases["tiny"]["platforms"] = [PLATFORMS[0]]
    project.write()
    project.build()


def test_a_lock_that_names_another_base(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    project.build()
    path = project.root / "lock/app.lock"
    text = path.read_text()
    lock = load(path.read_bytes(), "lock")
    path.write_text(text.replace(lock.base.digest, f"sha256:{'0' * 64}"))
    refused(project, 3, "0" * 64)
    path.write_text(text.replace(f"size = {lock.base.size}", f"size = {lock.base.size + 1}"))
    refused(project, 4, str(lock.base.size))


def test_an_upgrade_without_a_registry_changes_nothing(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    project.build()
    before = locks(project)
    with place.tap.down():
        done = project.compose("lock", "--upgrade-base", ok=False)
    assert (done.code, done.out) == (3, "")
    assert locks(project) == before


def test_a_stale_lock_is_not_pushed(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    project.build()
    project.patch("first", {8: "an edit"})
    place.tap.clear()
    done = project.compose("push", "app", "--locked", ok=False)
    assert done.code == 1
    assert "the lock of app is stale" in done.err
    assert place.tap.exchanges == []


def test_two_at_once_in_one_store(place: Place, on: Make) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    env = {**os.environ, "COMPOSE_STORE": str(project.store), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "composer", "push", "app", "-q"]
    both = [
        subprocess.Popen(
            command, cwd=project.root, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    answers = [one.communicate() for one in both]
    assert [one.returncode for one in both] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    whole(project.store)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"stat {TINY}/core.py f", f"stat {TINY}/core.py z"),
        (f"{hashlib.sha256(CORE).hexdigest()}", "abc"),
        (f"layer {TINY}/core.py 1", f"layer {TINY}/core.py 3"),
        ("names opt", "numbers opt"),
    ],
)
def test_facts_that_are_damaged(place: Place, on: Make, old: str, new: str) -> None:
    project = on(f"{place.netloc}/base/oci:v1")
    project.build()
    path = project.root / "lock/app.lock"
    head, facts, rest = path.read_text().partition("facts = [")
    assert old in rest
    path.write_text(head + facts + rest.replace(old, new, 1))
    refused(project, 4, "the lock is damaged", "facts of linux/amd64", "git checkout -- lock/")


@pytest.mark.parametrize("key", ["os", "architecture"])
def test_a_config_without_a_platform(on: Make, tmp_path: Path, key: str) -> None:
    def drop(image: BaseImage) -> None:
        manifest = image.document(image.digest)
        config = image.document(manifest["config"]["digest"])
        del config[key]
        manifest["config"] = image.add_json(config, manifest["config"]["mediaType"])
        image.top = image.add_json(manifest, image.top["mediaType"])

    project = on(layout_of([with_core()], tmp_path / "base", drop))
    refused(project, 2, "the base is not an image that can be built on", "is not a platform")
