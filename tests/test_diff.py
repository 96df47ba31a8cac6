"""What differs between two locks: every section, for people, for programs, and in exit codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer.diff import CONDITIONS, Details, Difference, Value, compare
from composer.diffreport import lines
from composer.lock import Lock, LockedBase, LockedChange, LockedConfig, LockedRead
from composer.modulediff import SourceChange, source_changes
from composer.oci.digest import sha256
from composer.textdiff import TextDiff, text_diff
from tests.support.locks import (
    a_knob,
    a_lock,
    a_module,
    a_platform,
    a_wheel,
    change,
    layer,
    some,
    written,
)
from tests.support.projects import CORE, SmallProject
from tests.support.trees import added, knob, module, patched, read

LOCK = a_lock()


def told(
    after: Lock,
    before: Lock = LOCK,
    *,
    retired: tuple[str, ...] = (),
    details: Details | None = None,
) -> str:
    """What a person reads below the first two lines."""
    found = compare(before, after, retired=retired)
    shown = [one.text for one in lines(("v13", "v14"), found, details or Details())]
    assert all(len(line) <= 80 for line in shown)
    assert shown[0] == "v13 -> v14  app"
    return "\n".join(shown[1:])


def holds(found: Difference) -> set[str]:
    return {name for name in CONDITIONS if found.holds(name)}


# The whole, literally

NEWER = a_lock(
    a_platform(
        manifest=some("new manifest"),
        layers=(
            layer("a", "layer a"),
            layer("b", "layer b", 2048),
            layer("(overlay.json)", "new overlay", 512),
        ),
        changes=(
            change("a", "patch", "core.py", "stock", "a"),
            change("b", "patch", "core.py", "stock", "ab"),
            change("b", "add", "deep/new.py", None, "new"),
        ),
    ),
    digest=some("newer"),
    modules=(a_module("a", "1", a_knob("1")), a_module("b", "1", a_knob(name="VLLM_B"))),
    config=LockedConfig(env={"E": "1"}),
)

TEXT = f"""\
v13 -> v14  app
{some("app")[:19]} -> {some("newer")[:19]}
1 module added, 2 files, 2 knobs, 1 setting

modules
  + b  {some("b1")[:19]}

knobs
  ~ K  '0' -> '1'
  + VLLM_B=0  of '0', '1'

files
  ~ core.py  patched by a -> a, b
      {some("a")[:19]} -> {some("ab")[:19]}
  + deep/new.py  added by b
      absent -> {some("new")[:19]}

env
  + E=1

layers
  linux/amd64: 1 shared (1.0 KiB), 2 new (2.5 KiB), 1 gone (512 B)
  + b  {some("layer b")[:19]}  2.0 KiB
  + (overlay.json)  {some("new overlay")[:19]}  512 B
"""


@pytest.fixture
def pair(tmp_path: Path) -> Callable[..., Any]:
    """Run `compose diff` on the locks of v13 and v14, in an empty directory."""
    for name, lock in (("v13", LOCK), ("v14", NEWER), ("same", LOCK)):
        written(tmp_path, lock, name)
    project = SmallProject(tmp_path / "none")
    project.root.mkdir(parents=True)

    def run(*arguments: str, ok: bool = True, **env: str) -> Any:
        words = [f"../../{one}" if one.endswith(".lock") else one for one in arguments]
        return project.compose("diff", *words, ok=ok, **env)

    return run


def test_the_text_of_a_difference() -> None:
    found = compare(LOCK, NEWER)
    shown = "\n".join(one.text for one in lines(("v13", "v14"), found, Details()))
    assert shown + "\n" == TEXT
    assert holds(found) == {"any", "module", "file", "knob", "env", "layer"}


def test_the_text_as_a_process_prints_it(pair: Callable[..., Any]) -> None:
    done = pair("v13.lock", "v14.lock")
    assert done.out == TEXT.replace("v13 -> v14", "../../v13.lock -> ../../v14.lock")
    assert done.err == ""


def test_the_json_of_a_difference(pair: Callable[..., Any]) -> None:
    stock = {"module": "a", "kind": "patch", "pre": some("stock"), "post": some("a")}
    second = {"module": "b", "kind": "patch", "pre": some("stock"), "post": some("ab")}
    added = {"module": "b", "kind": "add", "pre": None, "post": some("new")}
    kept = [layer("a", "layer a")]
    gone = [layer("(overlay.json)", "overlay", 512)]
    new = [layer("b", "layer b", 2048), layer("(overlay.json)", "new overlay", 512)]
    assert pair("v13.lock", "v14.lock", "--json").json == {
        "schema": 1,
        "before": {
            "name": "../../v13.lock",
            "kind": "file",
            "image": "app",
            "digest": some("app"),
        },
        "after": {
            "name": "../../v14.lock",
            "kind": "file",
            "image": "app",
            "digest": some("newer"),
        },
        "same": False,
        "result": [
            {"name": "digest", "before": some("app"), "after": some("newer")},
            {
                "name": "manifest",
                "before": some("manifest"),
                "after": some("new manifest"),
                "platforms": ["linux/amd64"],
            },
        ],
        "base": [],
        "modules": [
            {"name": "b", "before": None, "after": some("b1"), "lost": False, "sources": None}
        ],
        "order": None,
        "files": [
            {
                "path": "/p/core.py",
                "target": "core.py",
                "platforms": ["linux/amd64"],
                "before": [stock],
                "after": [stock, second],
                "contents": {"before": some("a"), "after": some("ab")},
                "text": None,
            },
            {
                "path": "/p/deep/new.py",
                "target": "deep/new.py",
                "platforms": ["linux/amd64"],
                "before": [],
                "after": [added],
                "contents": {"before": None, "after": some("new")},
                "text": None,
            },
        ],
        "reads": [],
        "knobs": [
            {
                "name": "K",
                "module": "a",
                "before": {"value": "0", "values": ["0", "1"]},
                "after": {"value": "1", "values": ["0", "1"]},
            },
            {
                "name": "VLLM_B",
                "module": "b",
                "before": None,
                "after": {"value": "0", "values": ["0", "1"]},
            },
        ],
        "env": [{"name": "E", "before": None, "after": "1"}],
        "labels": [],
        "settings": [],
        "platforms": [],
        "layers": [
            {
                "platform": "linux/amd64",
                "shared": [one.model_dump() for one in kept],
                "gone": [one.model_dump() for one in gone],
                "new": [one.model_dump() for one in new],
            }
        ],
    }


def test_nothing_differs(pair: Callable[..., Any]) -> None:
    done = pair("v13.lock", "same.lock", "--exit-code", "--fail-on", ",".join(CONDITIONS))
    assert done.out == (
        f"../../v13.lock -> ../../same.lock  app\nnothing differs: {some('app')[:19]}\n"
    )
    answer = pair("v13.lock", "same.lock", "--json").json
    assert answer["same"] is True
    assert not any(answer[key] for key in ("result", "base", "modules", "files", "layers", "order"))


# Exit codes


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ([], 0),
        (["--exit-code"], 1),
        (["--fail-on", "lost-module"], 0),
        (["--fail-on", "lost-module,knob"], 1),
        (["--fail-on", "base,platform,setting"], 0),
        (["--fail-on", "any"], 1),
        (["--json", "--exit-code"], 1),
    ],
)
def test_exit_codes(pair: Callable[..., Any], flags: list[str], code: int) -> None:
    done = pair("v13.lock", "v14.lock", *flags, ok=False)
    assert (done.code, done.err) == (code, "")


def test_a_condition_that_there_is_not(pair: Callable[..., Any]) -> None:
    done = pair("v13.lock", "v14.lock", "--fail-on", "knob,lost-modul", ok=False)
    assert (done.code, done.out) == (2, "")
    assert "'lost-modul' is nothing that differs; did you mean 'lost-module'?" in done.err


def test_the_help_names_every_condition(pair: Callable[..., Any]) -> None:
    shown = " ".join(pair("--help").out.split())
    assert f"one of these differs: {', '.join(CONDITIONS)}." in shown


# Sections


def test_modules() -> None:
    names = ("a", "changed", "lost", "older")
    before = a_lock(modules=tuple(a_module(name) for name in names))
    after = a_lock(modules=(a_module("a"), a_module("changed", "2"), a_module("new")))
    assert told(after, before, retired=("older",)) == (
        f"the same image: {some('app')[:19]}\n"
        "1 module added, 1 retired, 1 LOST, 1 module changed\n"
        "\nmodules\n"
        f"  ~ changed  {some('changed1')[:19]} -> {some('changed2')[:19]}\n"
        "      its older or newer files are not at hand\n"
        "  ! lost  LOST\n"
        "      gone, and not in 'retired' of [images.app]\n"
        f"  + new  {some('new1')[:19]}\n"
        "  - older  retired"
    )
    found = compare(before, after, retired=("older",))
    assert holds(found) == {"any", "module", "lost-module", "removed-module"}
    meant = compare(before, after, retired=("older", "lost"))
    assert holds(meant) == {"any", "module", "removed-module"}
    assert holds(compare(after, before, retired=("new",))) == {"any", "module", "removed-module"}


def test_the_files_of_a_module() -> None:
    after = a_lock(modules=(a_module("a", "2", a_knob()),))
    sources = [
        SourceChange("module.toml", "changed", (), ("requires b",)),
        SourceChange("a.patch", "changed", ("@@ -1 +1 @@",), ()),
        SourceChange("b.py", "added"),
    ]
    text = told(after, details=Details({"a": sources}))
    assert text.partition("\n\n")[2] == (
        "modules\n"
        f"  ~ a  {some('a1')[:19]} -> {some('a2')[:19]}\n"
        "      module.toml\n"
        "        + requires b\n"
        "      a.patch\n"
        "        - @@ -1 +1 @@\n"
        "      b.py: added"
    )


def test_the_order_of_modules() -> None:
    before = a_lock(modules=(a_module("a"), a_module("b"), a_module("c")))
    after = a_lock(modules=(a_module("c"), a_module("x"), a_module("a"), a_module("b")))
    text = told(after, before)
    assert "  ~ order of the others\n      a, b, c\n      c, a, b\n" in f"{text}\n"
    alone = compare(before, a_lock(modules=before.modules[::-1]))
    assert holds(alone) == {"any", "module"}


def test_knobs() -> None:
    modules = (a_module("a", "1", a_knob("0", "0", "1", "2"), a_knob(name="L")),)
    assert told(a_lock(modules=modules)).partition("\n\n")[2] == (
        "knobs\n  ~ K=0\n      of '0', '1' -> '0', '1', '2'\n  + L=0  of '0', '1'"
    )
    both = (a_module("a", "1", a_knob("2", "2", "3")),)
    assert "  ~ K  '0' -> '2'\n      of '0', '1' -> '2', '3'" in told(a_lock(modules=both))
    none = a_lock(modules=(a_module("a"),))
    assert told(none).endswith("knobs\n  - K=0  of '0', '1'")
    assert holds(compare(LOCK, none)) == {"any", "knob"}


def files(*changes: LockedChange) -> Lock:
    return a_lock(a_platform(changes=changes))


STOCK = change("a", "patch", "core.py", "stock", "a")


@pytest.mark.parametrize(
    ("before", "after", "text", "contents"),
    [
        ([], [STOCK], "+ core.py  patched by a", ("stock", "a")),
        ([STOCK], [], "- core.py  no longer patched by a", ("a", "stock")),
        (
            [STOCK],
            [change("a", "patch", "core.py", "stock", "b")],
            "~ core.py  patched by a",
            ("a", "b"),
        ),
        (
            [STOCK],
            [change("a", "replace", "core.py", "stock", "b")],
            "~ core.py  patched by a -> replaced by a",
            ("a", "b"),
        ),
        (
            [STOCK],
            [change("a", "remove", "core.py", "stock", None)],
            "~ core.py  patched by a -> removed by a",
            ("a", None),
        ),
        (
            [change("a", "remove", "core.py", "stock", None)],
            [],
            "- core.py  no longer removed by a",
            (None, "stock"),
        ),
        (
            [],
            [change("a", "add", "n", None, "n"), change("b", "patch", "n", "n", "nb")],
            "+ n  added by a, b",
            (None, "nb"),
        ),
        (
            [STOCK],
            [change("b", "patch", "core.py", "stock", "a")],
            "~ core.py  patched by a -> b",
            None,
        ),
        ([STOCK], [change("a", "patch", "core.py", "other", "a")], "~ core.py  patched by a", None),
    ],
)
def test_files(
    before: list[LockedChange],
    after: list[LockedChange],
    text: str,
    contents: tuple[str | None, str | None] | None,
) -> None:
    told_text = told(files(*after), files(*before))
    digests = [some(one)[:19] if one else "absent" for one in contents or ()]
    below = " -> ".join(digests) if contents else "the same content"
    assert told_text.partition("\n\n")[2] == f"files\n  {text}\n      {below}"
    found = compare(files(*before), files(*after))
    assert holds(found) == {"any", "file"}
    if contents is not None:
        (one,) = found.files
        assert one.contents == tuple(some(word) if word else None for word in contents)


def test_a_line_that_would_be_too_long() -> None:
    target = f"{'deep/' * 8}file.py"
    before = files(change("a" * 25, "patch", target, "stock", "a"))
    after = files(change("b" * 25, "patch", target, "stock", "b"))
    assert told(after, before).partition("\n\n")[2].splitlines()[:3] == [
        "files",
        f"  ~ {target}",
        f"      patched by {'a' * 25} -> {'b' * 25}",
    ]


def test_read_pins() -> None:
    pins = (LockedRead(module="a", target="read.py", digest=some("newer")),)
    after = a_lock(a_platform(reads=pins))
    assert told(after).partition("\n\n")[2] == (
        f"read-pins\n  ~ a read.py  {some('read')[:19]} -> {some('newer')[:19]}"
    )
    assert told(a_lock(a_platform(reads=()))).endswith(f"  - a read.py  {some('read')[:19]}")


def test_read_pins_of_a_module_that_came_or_went_are_its_own() -> None:
    pins = (LockedRead(module="b", target="read.py", digest=some("b")),)
    modules = (a_module("a"), a_module("b"))
    platform = a_platform()
    with_b = a_lock(a_platform(reads=(*platform.reads, *pins)), modules=modules)
    assert compare(LOCK, with_b).reads == compare(with_b, LOCK).reads == ()


def test_env_labels_and_settings() -> None:
    config = LockedConfig(
        env={"E": "1", "F": "", "LONG": "x" * 70},
        labels={"l": "a"},
        entrypoint=("serve", "a b"),
        cmd=(),
        workdir="/srv",
        cache_namespace=True,
    )
    before = a_lock(config=LockedConfig(env={"E": "0", "G": "1", "LONG": "y"}, labels={"l": "b"}))
    after = a_lock(a_platform(cache_root="~/c"), config=config)
    found = compare(before, after)
    assert holds(found) == {"any", "env", "setting"}
    shown = "\n".join(one.text for one in lines(("v13", "v14"), found, Details()))
    assert shown.partition("\n\n")[2] == (
        "env\n"
        "  ~ E  0 -> 1\n"
        "  + F=\n"
        "  - G=1\n"
        "  ~ LONG\n"
        "      before  y\n"
        f"      after   {'x' * 70}\n"
        "\nsettings\n"
        '  + entrypoint  ["serve", "a b"]\n'
        "  + cmd  []\n"
        "  + workdir  /srv\n"
        "  ~ cache_namespace  false -> true\n"
        "  + cache_root  ~/c\n"
        "\nlabels\n"
        "  ~ l  b -> a"
    )


def test_the_base() -> None:
    old = LockedBase(
        name="base", digest=some("base"), epoch=0, image="r/b:1", wheels=(a_wheel("1"),)
    )
    new = LockedBase(
        name="base",
        digest=some("b2"),
        epoch=9,
        image="r/b:2",
        python="3.12",
        wheels=(a_wheel("2"),),
    )
    after = a_lock(a_platform(base=some("b2")), base=new)
    text = told(after, a_lock(base=old))
    assert text.splitlines()[1] == "another base"
    assert text.partition("\n\n")[2] == (
        "base\n"
        "  ~ image  r/b:1 -> r/b:2\n"
        f"  ~ digest  {some('base')[:19]} -> {some('b2')[:19]}\n"
        "  ~ epoch  0 -> 9\n"
        "  + python  3.12\n"
        "  ~ requirement tiny linux/amd64  tiny==1 -> tiny==2\n"
        "  ~ wheel tiny linux/amd64\n"
        f"      before  tiny-1-py3-none-any.whl {some('1')[:19]}\n"
        f"      after   tiny-2-py3-none-any.whl {some('2')[:19]}\n"
        f"  ~ base  {some('base')[:19]} -> {some('b2')[:19]}"
    )
    assert holds(compare(a_lock(base=old), after)) == {"any", "base"}


def test_platforms() -> None:
    both = a_lock(a_platform(), a_platform("linux/arm64", manifest=some("arm")))
    assert told(both).partition("\n\n")[2] == f"platforms\n  + linux/arm64  {some('arm')[:19]}"
    assert told(LOCK, both).endswith(f"  - linux/arm64  {some('arm')[:19]}")
    assert holds(compare(LOCK, both)) == {"any", "platform"}


def test_what_differs_on_some_platforms_only() -> None:
    names = ("linux/amd64", "linux/arm64")
    before = a_lock(*(a_platform(name) for name in names))
    other = (change("a", "patch", "core.py", "stock", "b"),)
    one = a_lock(a_platform(names[0]), a_platform(names[1], changes=other, cache_root="~/c"))
    text = told(one, before)
    assert "  ~ core.py  patched by a  (linux/arm64)\n" in text
    assert "  + cache_root  ~/c  (linux/arm64)" in text
    every = a_lock(*(a_platform(name, changes=other, cache_root="~/c") for name in names))
    text = told(every, before)
    assert "  ~ core.py  patched by a\n" in text
    assert "  + cache_root  ~/c" in text
    assert compare(before, every).settings == (Value("cache_root", None, "~/c", names),)


def test_layers_of_one_content_stored_otherwise() -> None:
    recompressed = layer("a", "layer a").model_copy(update={"digest": some("zstd"), "size": 10})
    after = a_lock(a_platform(layers=(recompressed, layer("(overlay.json)", "overlay", 512))))
    assert "  linux/amd64: 1 shared (512 B), 1 new (10 B), 1 gone (1.0 KiB)\n" in told(after)


def test_what_only_the_lock_records() -> None:
    after = a_lock(source=some("else"))
    assert told(after) == (
        f"the same image: {some('app')[:19]}\nonly what the lock records of the way it was made"
    )
    assert holds(compare(LOCK, after)) == {"any"}
    facts = a_lock(a_platform(facts=("stat a",)))
    assert holds(compare(LOCK, facts)) == {"any"}


def test_images_of_two_names() -> None:
    found = compare(LOCK, a_lock(image="other"))
    shown = [one.text for one in lines(("v1", "w1"), found, Details())]
    assert shown[0] == "v1 -> w1  app -> other"
    shown = [one.text for one in lines(("app", "other"), found, Details())]
    assert shown[0] == "app -> other"


# Laws

_WORDS = st.sampled_from(["1", "2"])
_PLATFORMS = ("linux/amd64", "linux/arm64")


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    """Locks of few words, so that two of them are often nearly the same."""

    def chosen(*options: Any) -> Any:
        return draw(st.sampled_from(options))

    names = draw(st.permutations(["a", "b"]))[: chosen(1, 2)]
    modules = tuple(
        a_module(name, draw(_WORDS), *chosen((), (a_knob(draw(_WORDS)),))) for name in names
    )
    platforms = [
        a_platform(
            name,
            manifest=some(draw(_WORDS)),
            base_layers=chosen(0, 1),
            cache_root=chosen("", "~/c"),
            layers=tuple(layer(one, draw(_WORDS)) for one in names),
            changes=tuple(change(one, "patch", "f", "stock", draw(_WORDS)) for one in names),
            reads=chosen((), (LockedRead(module="a", target="r", digest=some(draw(_WORDS))),)),
            facts=chosen((), ("stat a",)),
        )
        for name in _PLATFORMS[: chosen(1, 2)]
    ]
    return a_lock(
        *platforms,
        digest=some(draw(_WORDS)),
        source=some(draw(_WORDS)),
        modules=modules,
        config=LockedConfig(env=chosen({}, {"E": draw(_WORDS)}), cmd=chosen(None, (), ("c",))),
        base=LockedBase(
            name="base", digest=some("b"), epoch=chosen(0, 1), wheels=(a_wheel(draw(_WORDS)),)
        ),
    )


@settings(max_examples=200, deadline=None)
@given(locks())
def test_nothing_differs_from_itself(lock: Lock) -> None:
    found = compare(lock, lock.model_copy(deep=True))
    assert found.empty
    assert holds(found) == set()
    assert len(list(lines(("a", "b"), found, Details()))) == 2


@settings(max_examples=300, deadline=None)
@given(locks(), locks())
def test_locks_that_differ_have_a_difference(one: Lock, other: Lock) -> None:
    assert compare(one, other).empty == (one == other)


@settings(max_examples=300, deadline=None)
@given(locks(), locks())
def test_the_way_back_is_the_way_there(one: Lock, other: Lock) -> None:
    """Each entry of one is an entry of the other with its sides exchanged."""
    there, back = compare(one, other), compare(other, one)

    def exchanged(entries: Any) -> Any:
        return sorted(
            (replace(entry, before=entry.after, after=entry.before) for entry in entries), key=repr
        )

    for section in ("result", "base", "files", "reads", "knobs", "env", "labels", "settings"):
        assert exchanged(getattr(there, section)) == sorted(getattr(back, section), key=repr)
    assert exchanged(there.platforms) == sorted(back.platforms, key=repr)
    assert there.order == (back.order and back.order[::-1])
    for modules, others in ((there.modules, back.modules), (back.modules, there.modules)):
        assert {one.name for one in modules if one.before is None} == {
            one.name for one in others if one.lost
        }
    assert [one.new for one in there.layers] == [one.gone for one in back.layers]


# Versions of a module


def test_what_a_module_s_author_changed() -> None:
    before = module("a", patched("f", CORE, CORE.replace(b"line 3\n", b"three\n"), context=0))
    text = CORE.replace(b"line 3\n", b"new\nthree\n").replace(b"line 9\n", b"nine\n")
    moved = b"line 0\n" + CORE
    after = module(
        "a",
        replace(patched("f", CORE, text, context=0), preimages=before.changes[0].preimages),
        added("g", b""),
        requires=["b"],
        reads=[read("r", b"")],
        knobs=[knob("K", "0", "1")],
    )
    hunks = ("@@ -3 +3,2 @@", "@@ -9 +10 @@")
    assert source_changes(before, before) == ()
    assert source_changes(before, after) == (
        SourceChange(
            "module.toml",
            "changed",
            (),
            (
                "add g x.py",
                "knob K=0 of '0', '1'",
                f"read r {sha256(b'').short}",
                "requires b",
            ),
        ),
        SourceChange("x.patch", "changed", ("@@ -3 +3 @@",), hunks),
        SourceChange("x.py", "added"),
    )
    assert source_changes(after, before)[2] == SourceChange("x.py", "removed")
    # The same hunk in another place is the same hunk.
    shifted = module("a", patched("f", moved, moved.replace(b"line 3\n", b"three\n"), context=0))
    assert source_changes(before, shifted)[1] == SourceChange("x.patch", "changed", (), ())


# Texts of files


def test_a_text() -> None:
    found = text_diff("/f", b"1\n2\n3", b"1\ntwo\n3")
    assert found.lines is not None
    assert "\n".join(found.lines) == (
        "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n\\ No newline at end of file"
    )
    assert (found.added, found.removed) == (1, 1)


def test_texts_that_are_not_there_or_none() -> None:
    assert text_diff("/f", None, b"+++\n") == TextDiff(
        ("--- /dev/null", "+++ b/f", "@@ -0,0 +1 @@", "++++"), 1, 0
    )
    assert text_diff("/f", b"--\n", None) == TextDiff(
        ("--- a/f", "+++ /dev/null", "@@ -1 +0,0 @@", "---"), 0, 1
    )
    assert text_diff("/f", b"a", b"a\0b") == TextDiff(None)
    assert text_diff("/f", b"", b"") == TextDiff(())
    assert text_diff("/f", b"\xff\n", b"\xfe\r\n").lines is not None


@settings(max_examples=100, deadline=None)
@given(st.lists(_WORDS), st.lists(_WORDS))
def test_counts_of_lines(one: list[str], other: list[str]) -> None:
    before, after = ("".join(f"{word}\n" for word in words).encode() for words in (one, other))
    found = text_diff("/f", before, after)
    assert found.added - found.removed == len(other) - len(one)
    assert (found.lines == ()) == (one == other)
