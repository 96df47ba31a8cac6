"""Wheels as an installer would leave them, compared with what pip leaves."""

from __future__ import annotations

import hashlib
import io
import os
import random
import stat
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer.errors import Fault, InputError
from composer.oci.filetree import Entry, LayerTable, Tree
from composer.oci.layer import encode_layer, tar
from composer.wheel import Scheme, Wheel, members, read_wheel

from .support.wheels import (
    FILENAME,
    MTIME,
    ROOT,
    SCHEME,
    Packed,
    build_wheel,
    content,
    hash_text,
    nothing,
    on,
)

INFO = f"{ROOT}/demo-1.0.dist-info"
EXECUTABLE = 0o100755
ENTRY_POINTS = b"[console_scripts]\ndemo = demo.cli:main\n\n[gui_scripts]\ndemo-gui=demo:App.run\n"
FULL: Mapping[str, bytes | Packed] = {
    "demo/__init__.py": b"class App:\n    @staticmethod\n    def run():\n        return 'gui'\n",
    "demo/cli.py": b"import sys\n\n\ndef main():\n    print('ran', *sys.argv[1:])\n    return 3\n",
    "demo/native.so": Packed(b"\x7fELF", EXECUTABLE),
    'demo/data, "quoted".txt': b"comma\n",
    "demo/zürich.txt": "ü".encode(),
    "{data}/scripts/tool": b"#!python -u\nprint('tool')\n",
    "{data}/scripts/tool-gui": b"#!pythonw\r\nprint('gui')\n",
    "{data}/scripts/shell": b"#!/bin/sh\necho shell\n",
    "{data}/scripts/bare": b"#!python",
    "{data}/data/share/demo/x.conf": b"x = 1\n",
    "{data}/headers/demo.h": b"#pragma once\n",
    "{data}/purelib/pure.py": b"pure = 1\n",
    "{data}/platlib/plat/__init__.py": b"plat = 1\n",
}


def full_wheel(directory: Path, **knobs: Any) -> Wheel:
    """Return a wheel with everything that a wheel may have."""
    return read_wheel(
        build_wheel(directory, FULL, replaced={"entry_points.txt": ENTRY_POINTS}, **knobs)
    )


# What is put where


def test_places_of_all_files(tmp_path: Path) -> None:
    found = [
        f"{path} {one.entry.mode:o}"
        for path, one in on(full_wheel(tmp_path)).items()
        if one.entry.is_file
    ]
    assert found == [
        "usr/local/bin/bare 755",
        "usr/local/bin/demo 755",
        "usr/local/bin/demo-gui 755",
        "usr/local/bin/shell 755",
        "usr/local/bin/tool 755",
        "usr/local/bin/tool-gui 755",
        "usr/local/include/python3.12/demo/demo.h 644",
        f"{INFO}/INSTALLER 644",
        f"{INFO}/METADATA 644",
        f"{INFO}/RECORD 644",
        f"{INFO}/WHEEL 644",
        f"{INFO}/entry_points.txt 644",
        f"{ROOT}/demo/__init__.py 644",
        f"{ROOT}/demo/cli.py 644",
        f'{ROOT}/demo/data, "quoted".txt 644',
        f"{ROOT}/demo/native.so 755",
        f"{ROOT}/demo/zürich.txt 644",
        f"{ROOT}/plat/__init__.py 644",
        f"{ROOT}/pure.py 644",
        "usr/local/share/demo/x.conf 644",
    ]


def test_members_are_sorted_and_bring_every_directory_once(tmp_path: Path) -> None:
    found = members(full_wheel(tmp_path), SCHEME, mtime=MTIME, stat=nothing)
    paths = [one.path for one in found]
    assert paths == sorted(set(paths))
    folders = {one.path for one in found if one.entry.is_dir}
    assert folders == {str(up) for path in paths for up in Path(path).parents} - {"."}
    assert {one.entry for one in found if one.entry.is_dir} == {
        Entry("d", mode=0o755, uid=0, gid=0, mtime=MTIME)
    }


def test_entries_are_true_before_the_content_is_read(tmp_path: Path) -> None:
    for path, one in on(full_wheel(tmp_path)).items():
        if one.entry.is_file:
            data = content(one)
            assert (one.entry.size, one.entry.sha256) == (
                len(data),
                hashlib.sha256(data).hexdigest(),
            ), path
            assert (one.entry.uid, one.entry.gid, one.entry.mtime) == (0, 0, MTIME)


def test_record_of_the_installed_files(tmp_path: Path) -> None:
    wheel = read_wheel(
        build_wheel(
            tmp_path,
            {"demo/a, b.py": b"", "{data}/scripts/run": b"#!python\n"},
            replaced={"WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"},
        )
    )
    assert content(on(wheel)[f"{INFO}/RECORD"]).decode() == (
        "../../../bin/run,sha256=4OaZie7sGoZjlioyYClyfCWBSypsaqwcZ8WQQu9JZyg,22\n"
        "demo-1.0.dist-info/INSTALLER,sha256=jLmhBR06QFGLqfBVdNJ3JPy-7jr7nSl7LgGemw-WiZw,8\n"
        "demo-1.0.dist-info/METADATA,sha256=NKonpgZPlYtBt4GiF_KQ_Qq1-WUeK25Kzas0G3uTwwU,46\n"
        "demo-1.0.dist-info/RECORD,,\n"
        "demo-1.0.dist-info/WHEEL,sha256=pOC2U1k6hCf_vkZe7h2snGRWx-C20Xjuc3a02KQn2OY,41\n"
        '"demo/a, b.py",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n'
    )


def test_installer(tmp_path: Path) -> None:
    wheel = read_wheel(build_wheel(tmp_path, {"{info}/INSTALLER": b"another\n"}))
    assert content(on(wheel)[f"{INFO}/INSTALLER"]) == b"compose\n"


def test_scripts_name_the_interpreter(tmp_path: Path) -> None:
    found = on(full_wheel(tmp_path))
    assert content(found["usr/local/bin/tool"]) == b"#!/usr/bin/python3.12\nprint('tool')\n"
    assert content(found["usr/local/bin/tool-gui"]) == b"#!/usr/bin/python3.12\nprint('gui')\n"
    assert content(found["usr/local/bin/bare"]) == b"#!/usr/bin/python3.12\n"
    assert content(found["usr/local/bin/shell"]) == b"#!/bin/sh\necho shell\n"


def test_long_scripts_are_rewritten_in_a_stream(tmp_path: Path) -> None:
    body = random.Random(1).randbytes(3 * 1024 * 1024)
    wheel = read_wheel(build_wheel(tmp_path, {"{data}/scripts/big": b"#!python\n" + body}))
    member = on(wheel)["usr/local/bin/big"]
    assert content(member) == b"#!/usr/bin/python3.12\n" + body
    assert member.entry.sha256 == hashlib.sha256(content(member)).hexdigest()


def test_text_of_an_entry_point(tmp_path: Path) -> None:
    found = on(full_wheel(tmp_path))
    assert content(found["usr/local/bin/demo-gui"]).decode() == (
        "#!/usr/bin/python3.12\n"
        "import sys\n"
        "\n"
        "from demo import App\n"
        "\n"
        'if __name__ == "__main__":\n'
        "    sys.exit(App.run())\n"
    )


def unpack(file: tarfile.TarFile, folder: Path) -> None:
    """Extract; before Python 3.11.4 there is no filter to name, and none that would be missed."""
    if hasattr(tarfile, "tar_filter"):
        file.extraction_filter = tarfile.tar_filter
    file.extractall(folder)


def test_entry_points_run(tmp_path: Path) -> None:
    scheme = Scheme(ROOT, sys.executable)
    wheel = full_wheel(tmp_path)
    archive = b"".join(tar(members(wheel, scheme, mtime=MTIME, stat=nothing)))
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        unpack(file, tmp_path / "image")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "image" / ROOT)}
    script = tmp_path / "image/usr/local/bin/demo"
    done = subprocess.run(
        [script, "a", "b"], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stdout) == (3, "ran a b\n")


def test_better_hashes_are_kept_and_the_layer_knows_its_own(tmp_path: Path) -> None:
    wheel = read_wheel(build_wheel(tmp_path, {"demo.py": b"x\n"}, algorithm="sha512"))
    found = on(wheel)
    assert found[f"{ROOT}/demo.py"].entry.sha256 == hashlib.sha256(b"x\n").hexdigest()
    record = content(found[f"{INFO}/RECORD"]).decode()
    text = hash_text(b"x\n", "sha512")
    assert f"demo.py,{text},2\n" in record


def test_signatures_of_record_are_kept_with_a_hash(tmp_path: Path) -> None:
    wheel = read_wheel(build_wheel(tmp_path, unlisted=[("{info}/RECORD.jws", b"{}")]))
    found = on(wheel)
    assert found[f"{INFO}/RECORD.jws"].entry.sha256 == hashlib.sha256(b"{}").hexdigest()
    assert (
        f"demo-1.0.dist-info/RECORD.jws,{hash_text(b'{}')},2\n"
        in content(found[f"{INFO}/RECORD"]).decode()
    )


def test_executable_is_any_of_the_three_bits(tmp_path: Path) -> None:
    modes = {"a": 0o100644, "b": 0o100744, "c": 0o100654, "d": 0o100645, "e": 0o106777, "f": 0}
    wheel = read_wheel(build_wheel(tmp_path, {k: Packed(b"", mode) for k, mode in modes.items()}))
    found = on(wheel)
    assert [found[f"{ROOT}/{name}"].entry.mode for name in modes] == [
        0o644, 0o755, 0o755, 0o755, 0o755, 0o644,
    ]  # fmt: skip


# The image below


def base(*entries: tuple[str, Entry]) -> Callable[[str], Entry | None]:
    """Return the view of an image with `entries`."""
    return Tree.merge([LayerTable(dict(entries))]).stat


def test_directories_of_the_image_stay_as_they_are(tmp_path: Path) -> None:
    old = Entry("d", mode=0o2775, uid=5, gid=50, mtime=7, xattrs=(("user.a", "b"),))
    found = on(full_wheel(tmp_path), base(("usr", old), (ROOT, old)))
    assert found["usr"].entry == old
    assert found[ROOT].entry == old
    assert found["usr/local/share"].entry == Entry("d", mode=0o755, mtime=MTIME)


def test_links_of_the_image_are_followed(tmp_path: Path) -> None:
    link = Entry("l", link="/opt/python/lib/python3.12/site-packages")
    wheel = read_wheel(build_wheel(tmp_path, {"demo.py": b"", "{data}/scripts/x": b""}))
    found = on(wheel, base((ROOT, link), ("opt/python/lib/python3.12/site-packages", Entry("d"))))
    new = "opt/python/lib/python3.12/site-packages"
    assert ROOT not in found
    assert f"{new}/demo.py" in found
    record = content(found[f"{new}/demo-1.0.dist-info/RECORD"]).decode()
    assert record.startswith("../../../../../usr/local/bin/x,")


def test_a_link_at_the_place_of_a_file_is_replaced(tmp_path: Path) -> None:
    wheel = read_wheel(build_wheel(tmp_path, {"demo.py": b"new"}))
    found = on(wheel, base((f"{ROOT}/demo.py", Entry("l", link="/etc/passwd"))))
    assert found[f"{ROOT}/demo.py"].entry.kind == "f"
    assert "etc/passwd" not in found


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (
            (f"{ROOT}/demo/__init__.py", Entry("d")),
            Fault(
                what=f"/{ROOT}/demo/__init__.py is a directory of the image below",
                where=f"{FILENAME}: demo/__init__.py",
            ),
        ),
        (
            (f"{ROOT}/demo", Entry("f")),
            Fault(
                what="the image below has a file where the wheel needs a directory",
                where=f"/{ROOT}/demo",
            ),
        ),
        (
            (f"{ROOT}/demo", Entry("l", link="demo")),
            Fault(
                what=f"/{ROOT}/demo is a loop of symbolic links",
                where=f"{FILENAME}: demo/__init__.py",
            ),
        ),
    ],
)
def test_what_the_image_has_is_never_changed_in_type(
    tmp_path: Path, entry: tuple[str, Entry], fault: Fault
) -> None:
    with pytest.raises(InputError) as caught:
        on(read_wheel(build_wheel(tmp_path)), base(entry))
    assert caught.value.faults == (fault,)


# Two files for one place


@pytest.mark.parametrize(
    ("knobs", "fault"),
    [
        (
            {"files": {"{data}/data/lib/python3.12/dist-packages/a.py": b"1", "a.py": b"2"}},
            Fault(
                what=f"two files for /{ROOT}/a.py",
                where=f"{FILENAME}: demo-1.0.data/data/lib/python3.12/dist-packages/a.py",
                found=f"{FILENAME}: a.py",
            ),
        ),
        (
            {
                "files": {"{data}/scripts/demo": b"1"},
                "replaced": {"entry_points.txt": b"[console_scripts]\ndemo = demo:main\n"},
            },
            Fault(
                what="two files for /usr/local/bin/demo",
                where=f"{FILENAME}: script demo",
                found=f"{FILENAME}: demo-1.0.data/scripts/demo",
            ),
        ),
        (
            {
                "replaced": {
                    "entry_points.txt": b"[console_scripts]\nx = a:b\n[gui_scripts]\nx = c:d\n"
                }
            },
            Fault(
                what="two files for /usr/local/bin/x",
                where=f"{FILENAME}: script x",
                found=f"{FILENAME}: script x",
            ),
        ),
        (
            {"files": {"{data}/data/bin": b"1", "{data}/scripts/x": b"1"}},
            Fault(
                what="/usr/local/bin is a directory of the same wheel",
                where=f"{FILENAME}: demo-1.0.data/data/bin",
            ),
        ),
        (
            {"files": {"a": b"1", "a/b": b"2"}},
            Fault(what=f"/{ROOT}/a is a directory of the same wheel", where=f"{FILENAME}: a"),
        ),
    ],
)
def test_two_files_for_one_place(tmp_path: Path, knobs: dict[str, Any], fault: Fault) -> None:
    with pytest.raises(InputError) as caught:
        on(read_wheel(build_wheel(tmp_path, **knobs)))
    assert caught.value.faults == (fault,)


# The layer


def layer_of(wheel: Wheel) -> bytes:
    """Return the archive of the wheel's layer."""
    return b"".join(tar(members(wheel, SCHEME, mtime=MTIME, stat=nothing)))


def test_the_layer_is_a_function_of_the_contents(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = full_wheel(tmp_path / "a")
    two = full_wheel(tmp_path / "b", shuffle=lambda names: names[::-1])
    assert one.path.read_bytes() != two.path.read_bytes()
    assert layer_of(one) == layer_of(two)


def test_golden_layer(tmp_path: Path) -> None:
    layer = encode_layer(
        members(full_wheel(tmp_path), SCHEME, mtime=MTIME, stat=nothing), lambda piece: None
    )
    assert (str(layer.diff_id), str(layer.digest), layer.size) == (
        "sha256:b116ea4737dd486513c14cad1f0d6e288b21d6e0acbef9a214340e1ee59b7c75",
        "sha256:1c1b218d4015b26be7188e2661d8585a245ef6583b200d158be2144025375384",
        30743,
    )


# A name that would be a whiteout is refused, which another test sees.
names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\/"), min_size=1
)
trees = st.dictionaries(
    st.lists(
        names.filter(lambda name: name not in (".", "..") and not name.startswith(".wh.")),
        min_size=1,
        max_size=3,
    ).map("/".join),
    st.binary(max_size=50),
    max_size=8,
)


@given(trees)
@settings(deadline=None)
def test_any_tree_of_files_is_installed_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes]
) -> None:
    plain = {
        path: data
        for path, data in tree.items()
        if not any(other.startswith(f"{path}/") for other in tree)
        and not path.partition("/")[0].endswith((".data", ".dist-info"))
    }
    wheel = read_wheel(build_wheel(tmp_path_factory.mktemp("w"), {"demo.py": b"", **plain}))
    assert {
        path.removeprefix(f"{ROOT}/"): content(one)
        for path, one in on(wheel).items()
        if one.entry.is_file and not path.startswith(INFO)
    } == {"demo.py": b"", **plain}


# pip

PIP_INSTALL = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
PIP_INSTALL += ["--no-index", "--no-warn-script-location"]


def installed(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of every file below `root`."""
    return {
        str(path.relative_to(root)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_pip_leaves_the_same(tmp_path: Path) -> None:
    wheel = full_wheel(tmp_path)
    python = f"python{sysconfig.get_python_version()}"
    prefix = tmp_path / "prefix"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    subprocess.run(
        [*PIP_INSTALL, f"--prefix={prefix}", str(wheel.path)],
        env={**environment, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=True,
        umask=0o022,
    )
    theirs = {
        path.replace(f"include/site/{python}", f"include/{python}"): one  # pip, in a venv
        for path, one in installed(prefix).items()
    }
    info = f"lib/{python}/site-packages/demo-1.0.dist-info"
    scheme = Scheme(f"lib/{python}/site-packages", sys.executable)
    ours = {
        path: (one.entry.mode, content(one))
        for path, one in on(wheel, scheme=scheme).items()
        if one.entry.is_file
    }
    left_out = {f"{info}/REQUESTED", f"{info}/direct_url.json"}
    assert theirs.keys() - left_out == ours.keys()
    # The text of these is the installer's own; everything else is equal to the byte.
    own = {f"{info}/INSTALLER", f"{info}/RECORD", "bin/demo", "bin/demo-gui"}
    # pip leaves scripts of the wheel as executable as the archive says: here, not at all.
    scripts = {"bin/bare", "bin/shell", "bin/tool", "bin/tool-gui"}
    for path in ours.keys() - own:
        assert theirs[path][1] == ours[path][1], path
        assert theirs[path][0] == ours[path][0] or path in scripts, path


def test_pip_believes_the_record(tmp_path: Path) -> None:
    wheel = full_wheel(tmp_path)
    scheme = Scheme("lib/python3.12/site-packages", sys.executable)
    image = tmp_path / "image"
    archive = b"".join(tar(members(wheel, scheme, mtime=MTIME, stat=nothing)))
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        unpack(file, image)
    found = subprocess.run(
        [sys.executable, "-m", "pip", "show", "--files", "demo"],
        env={**os.environ, "PYTHONPATH": str(image / "lib/python3.12/site-packages")},
        check=True,
        capture_output=True,
        text=True,
    )
    listed = {line.strip() for line in found.stdout.partition("Files:\n")[2].splitlines()}
    root = image / "lib/python3.12/site-packages"
    assert {(root / path).resolve() for path in listed} == {
        path.resolve() for path in image.rglob("*") if path.is_file()
    }
    assert (
        "Installer: compose"
        in subprocess.run(
            [sys.executable, "-m", "pip", "show", "--verbose", "demo"],
            env={**os.environ, "PYTHONPATH": str(root)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
