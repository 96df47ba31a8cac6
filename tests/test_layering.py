"""Changes as layers: what is in them, byte for byte, and which headers they carry."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence

import pytest

from composer.bytecode import mtime
from composer.layering import BuiltLayer, layers_of, overlay_layer
from composer.module import Module
from composer.oci.digest import sha256
from composer.oci.filetree import Entry, directory
from composer.overlay import Overlay, overlay
from tests.support.packages import CORE, OTHER, ROOT, TEXT, change, package
from tests.support.trees import (
    EPOCH,
    MemoryView,
    added,
    edited,
    module,
    numbered,
    patched,
    removed,
    replaced,
    view,
)


def built(modules: Sequence[Module], on: MemoryView, *, base_layers: int = 1) -> list[BuiltLayer]:
    made = overlay(modules, on, ROOT)
    assert made.faults == ()
    return layers_of(made.changes, on, epoch=EPOCH, base_layers=base_layers)


def names(layer: BuiltLayer) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(layer.blob)) as archive:
        return archive.getnames()


def files(layer: BuiltLayer) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """Return the members of a layer that are no directories."""
    with tarfile.open(fileobj=io.BytesIO(layer.blob)) as archive:
        return {
            member.name: (member, file.read())
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }


def test_the_bytes_of_a_layer() -> None:
    changes = (
        change(line_3=b"x"),
        added("vllm/new.txt", b"new\n"),
        removed("vllm/other.py", OTHER),
    )
    (layer,) = built([module("a", *changes)], package())
    assert layer.module == "a"
    assert names(layer) == [
        "usr",
        "usr/lib",
        "usr/lib/python3",
        ROOT,
        f"{ROOT}/vllm",
        f"{ROOT}/vllm/.wh.other.py",
        CORE,
        f"{ROOT}/vllm/new.txt",
    ]
    assert layer.layer.diff_id.hex == (
        "ccb0f7cd6d74a9620010616abd4a4c8f714b66aa00374a23fb9f4da785cfd50a"
    )
    assert layer.layer.digest.hex == (
        "a2ea122c2b291c4d23af65d6724c1a509e1cea7590d804459017266b198a33a3"
    )
    assert (sha256(layer.blob), len(layer.blob)) == (layer.layer.digest, layer.layer.size)


def test_one_layer_a_module_each_with_the_file_as_it_stands() -> None:
    modules = [
        module("a", change(line_3=b"a")),
        module("b", change(line_9=b"b"), added("vllm/new.txt", b"")),
        module("c", change(edited(TEXT, {9: b"b\n"}), line_9=b"c"), requires=["b"]),
        module("no_files"),
    ]
    layers = built(modules, package())
    assert [layer.module for layer in layers] == ["a", "b", "c"]
    assert [files(layer)[CORE][1] for layer in layers] == [
        edited(TEXT, {3: b"a\n"}),
        edited(TEXT, {3: b"a\n", 9: b"b\n"}),
        edited(TEXT, {3: b"a\n", 9: b"c\n"}),
    ]
    assert built(modules[:1], package()) == layers[:1]  # shared by images that have it


def test_times() -> None:
    changes = (change(line_3=b"x"), added("vllm/new.py", b""), added("vllm/new.txt", b"new\n"))
    (layer,) = built([module("a", *changes, removed("vllm/other.py", OTHER))], package())
    found = files(layer)
    assert found[CORE][0].mtime == mtime(EPOCH, sha256(edited(TEXT, {3: b"x\n"})))
    assert found[f"{ROOT}/vllm/new.py"][0].mtime == mtime(EPOCH, sha256(b""))
    assert found[f"{ROOT}/vllm/new.txt"][0].mtime == EPOCH
    assert found[f"{ROOT}/vllm/.wh.other.py"][0].mtime == EPOCH


def test_files_carry_the_header_of_what_they_replace() -> None:
    header = Entry(
        "f", 0o4750, uid=3, gid=4, mtime=9, inode="x", xattrs=(("security.capability", "\x01\x02"),)
    )
    paths = (CORE, f"{ROOT}/vllm/run.sh")
    on = view({paths[0]: TEXT, paths[1]: b"run\n"}, entries=dict.fromkeys(paths, header))
    changes = (change(line_3=b"x"), replaced("vllm/run.sh", b"run\n", b""), added("vllm/n", b""))
    (layer,) = built([module("a", *changes)], on)
    found = files(layer)
    for path in paths:
        member = found[path][0]
        assert (member.mode, member.uid, member.gid) == (0o4750, 3, 4)
        assert member.pax_headers["SCHILY.xattr.security.capability"] == "\x01\x02"
        assert member.type == tarfile.REGTYPE
    member = found[f"{ROOT}/vllm/n"][0]
    assert (member.mode, member.uid, member.gid, member.pax_headers) == (0o644, 0, 0, {})


def test_ancestors_carry_the_header_of_the_base() -> None:
    entries = {
        "usr": Entry("d", 0o711, uid=5, gid=6, mtime=77),
        "usr/lib": Entry("d", 0o1777, mtime=-5, xattrs=(("user.note", "x"),)),
    }
    on = view({CORE: TEXT}, entries=entries)
    (layer,) = built([module("a", added("/usr/lib/new/deep/file", b""))], on)
    with tarfile.open(fileobj=io.BytesIO(layer.blob)) as archive:
        seen = {
            member.name: (member.type, member.mode, member.uid, member.gid, member.mtime)
            for member in archive
        }
        notes = archive.getmember("usr/lib").pax_headers["SCHILY.xattr.user.note"]
    assert seen == {
        "usr": (tarfile.DIRTYPE, 0o711, 5, 6, 77),
        "usr/lib": (tarfile.DIRTYPE, 0o1777, 0, 0, -5),
        "usr/lib/new": (tarfile.DIRTYPE, 0o755, 0, 0, EPOCH),
        "usr/lib/new/deep": (tarfile.DIRTYPE, 0o755, 0, 0, EPOCH),
        "usr/lib/new/deep/file": (tarfile.REGTYPE, 0o644, 0, 0, EPOCH),
    }
    assert notes == "x"


def test_a_file_at_the_root_has_no_ancestors() -> None:
    (layer,) = built([module("a", added("/file", b""))], view({}))
    assert names(layer) == ["file"]


def test_what_a_link_leads_to_has_the_ancestors() -> None:
    on = view({CORE: TEXT}, links={"lib": "usr/lib"})
    (layer,) = built([module("a", added("/lib/new.txt", b""))], on)
    assert names(layer) == ["usr", "usr/lib", "usr/lib/new.txt"]


def test_bytecode_is_whited_out_with_the_source() -> None:
    cache = f"{ROOT}/vllm/__pycache__"
    files_ = {
        CORE: TEXT,
        f"{cache}/core.cpython-312.pyc": b"",
        f"{cache}/added.cpython-312.pyc": b"",
        f"{cache}/other.cpython-312.pyc": b"",
        f"{ROOT}/vllm/core.pyc": b"",
    }
    on = view(files_, entries={cache: directory(5, 0o700)})
    (layer,) = built([module("a", change(line_3=b"x"), added("vllm/added.py", b""))], on)
    assert names(layer)[5:] == [
        f"{ROOT}/vllm/.wh.core.pyc",
        cache,
        f"{cache}/.wh.added.cpython-312.pyc",
        f"{cache}/.wh.core.cpython-312.pyc",
        f"{ROOT}/vllm/added.py",
        CORE,
    ]
    assert [data for name, (_, data) in files(layer).items() if ".wh." in name] == [b""] * 3
    (layer,) = built([module("a", removed("vllm/core.py", TEXT))], on)
    assert f"{cache}/.wh.core.cpython-312.pyc" in names(layer)
    (layer,) = built([module("a", added("vllm/core.txt", b""))], on)
    assert not [name for name in names(layer) if ".wh." in name]


def test_bytecode_that_is_removed_with_its_source_is_whited_out_once() -> None:
    on = view({CORE: TEXT, f"{ROOT}/vllm/core.pyc": b"old"})
    changes = (removed("vllm/core.py", TEXT), removed("vllm/core.pyc", b"old"))
    (layer,) = built([module("a", *changes)], on)
    assert names(layer)[-2:] == [f"{ROOT}/vllm/.wh.core.py", f"{ROOT}/vllm/.wh.core.pyc"]


def many(count: int) -> list[Module]:
    text = numbered(1000)
    modules = [
        module(
            f"m{number:03}",
            patched("vllm/core.py", text, edited(text, {number * 4: b"x\n"}), context=0),
            added(f"vllm/{number:03}.txt", b""),
        )
        for number in range(1, count - 1)
    ]
    came = module("z1", added("vllm/came", b""), removed("vllm/other.py", OTHER))
    went = module("z2", removed("vllm/came", b""), requires=["z1"])
    return [*modules, came, went]


@pytest.mark.parametrize(("base_layers", "count"), [(1, 118), (90, 29), (117, 2)])
def test_too_many_layers_are_squashed_into_one(base_layers: int, count: int) -> None:
    modules, on = many(count), package(core=numbered(1000))
    apart = built(modules, on, base_layers=base_layers)  # 120 with that of overlay.json
    assert [layer.module for layer in apart] == [one.name for one in modules]
    squashed = built(modules, on, base_layers=base_layers + 1)
    assert [layer.module for layer in squashed] == ["(all modules)"]


def test_a_single_module_is_never_squashed() -> None:
    modules = [module("a", change(line_3=b"x"))]
    assert built(modules, package(), base_layers=200) == built(modules, package())


def test_a_squashed_layer_has_the_last_of_each_file() -> None:
    modules = many(30)
    on = package(core=numbered(1000))
    apart = built(modules, on, base_layers=1)
    assert len(apart) == 30
    (layer,) = built(modules, on, base_layers=119)
    assert layer.module == "(all modules)"
    found = files(layer)
    assert found[CORE][1] == edited(numbered(1000), {number * 4: b"x\n" for number in range(1, 29)})
    assert len(found) == 30
    assert f"{ROOT}/vllm/.wh.other.py" in found
    assert not [name for name in found if name.endswith("came")]


def test_what_an_image_says_of_itself() -> None:
    on = package()
    layer = overlay_layer({"schema": 1, "modules": []}, on, epoch=EPOCH)
    ((name, (member, data)),) = files(layer).items()
    assert (layer.module, name) == ("(overlay.json)", "usr/share/compose/overlay.json")
    assert data == b'{"modules":[],"schema":1}\n'
    assert json.loads(data) == {"schema": 1, "modules": []}
    assert (member.mode, member.mtime) == (0o644, EPOCH)
    assert names(layer) == ["usr", "usr/share", "usr/share/compose", name]
    linked = view({CORE: TEXT}, links={"usr/share": "/opt"})
    layer = overlay_layer({}, linked, epoch=EPOCH)
    assert names(layer) == ["opt", "opt/compose", "opt/compose/overlay.json"]


def test_no_change_no_layer() -> None:
    nothing = Overlay((), (), (), ())
    assert layers_of(nothing.changes, package(), epoch=EPOCH, base_layers=1) == []
    assert layers_of(nothing.changes, package(), epoch=EPOCH, base_layers=200) == []
