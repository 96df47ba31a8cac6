"""Unified diffs: read strictly, applied exactly, and compared with what GNU patch does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer.patch import Edit, Mismatch, Patch, PatchError, split_lines
from tests.support.commands import tool
from tests.support.trees import diff, edited, numbered

HEADER = b"--- a/file\n+++ b/file\n"
ONE = HEADER + b"@@ -2 +2 @@\n-line 2\n+changed\n"


def applied(patch: bytes, data: bytes) -> bytes:
    """Return the patched data; the patch must fit."""
    parsed = Patch.parse(patch)
    lines = split_lines(data)
    assert parsed.mismatches(lines) == []
    return b"".join(parsed.apply(lines))


def misses(patch: bytes, data: bytes) -> list[Mismatch]:
    return Patch.parse(patch).mismatches(split_lines(data))


# What is taken


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b"\n"]),
        (b"a", [b"a"]),
        (b"a\nb", [b"a\n", b"b"]),
        (b"a\r\nb\r\n", [b"a\r\n", b"b\r\n"]),
        (b"a\rb\x0bc\x0cd\x85\xe2\x80\xa8e\n", [b"a\rb\x0bc\x0cd\x85\xe2\x80\xa8e\n"]),
    ],
)
def test_lines_end_at_lf_only(data: bytes, lines: list[bytes]) -> None:
    assert split_lines(data) == lines


def test_a_patch_of_git_with_its_headers() -> None:
    patch = (
        b"From 0123456789 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] copy less\n\n"
        b"Binary files are not touched; new mode is a word of prose.\n---\n file | 2 +-\n\n"
        b"diff --git a/file b/file\nindex 83db48f..bf269f4 100644\n"
        + HEADER
        + b"@@ -1,3 +1,3 @@ def f(x):\n line 1\n-line 2\n+changed\n line 3\n"
    )
    assert applied(patch, numbered(3)) == edited(numbered(3), {2: b"changed\n"})
    assert Patch.parse(patch).hunks[0].header == "@@ -1,3 +1,3 @@"


def test_a_patch_without_file_names() -> None:
    assert applied(ONE.removeprefix(HEADER), numbered(3)) == b"line 1\nchanged\nline 3\n"


def test_a_patch_without_its_last_newline() -> None:
    assert applied(ONE[:-1], numbered(3)) == b"line 1\nchanged\nline 3\n"
    patch = HEADER + b"@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file"
    assert applied(patch, b"a\n") == b"b"


def test_the_signature_of_format_patch() -> None:
    assert Patch.parse(ONE + b"-- \n2.39.5\n\n") == Patch.parse(ONE)


def test_a_context_line_that_an_editor_trimmed() -> None:
    patch = HEADER + b"@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n"
    assert applied(patch, b"a\n\nb\n") == b"a\n\nc\n"
    assert applied(patch[:-1], b"a\n\nb\n") == b"a\n\nc\n"


def test_a_heading_that_is_not_utf8() -> None:
    patch = HEADER + b"@@ -2 +2 @@ \xff\xfe\n-line 2\n+changed\n"
    assert applied(patch, numbered(3)) == b"line 1\nchanged\nline 3\n"


def test_content_is_never_decoded() -> None:
    before = b"\xff\xfe one\n\x00two\x85\n\xc3\x28 three\r\n"
    after = b"\xff\xfe one\n\x00zwei\x85\xe9\n\xc3\x28 three\r\n"
    assert applied(diff(before, after), before) == after


def test_a_file_with_crlf_ends() -> None:
    before = numbered(9, newline=b"\r\n")
    after = edited(before, {5: b"changed\r\n", 6: b"now with LF\n"})
    assert applied(diff(before, after), before) == after


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"a\nb", b"a\nc\n"), (b"a\nb\n", b"a\nc"), (b"a\nb", b"a\nc"), (b"a\nb", b"x\nb")],
)
@pytest.mark.parametrize("context", [0, 3])
def test_files_without_a_last_newline(old: bytes, new: bytes, context: int) -> None:
    assert applied(diff(old, new, context=context), old) == new


def test_the_marker_in_another_language() -> None:
    patch = HEADER + b"@@ -1 +1 @@\n-a\n\\ Kein Zeilenumbruch am Dateiende.\n+b\n"
    assert applied(patch, b"a") == b"b\n"


@pytest.mark.parametrize(
    ("hunk", "result"),
    [
        (b"@@ -0,0 +1 @@\n+new\n", b"new\nline 1\nline 2\nline 3\n"),
        (b"@@ -1,0 +2 @@\n+new\n", b"line 1\nnew\nline 2\nline 3\n"),
        (b"@@ -3,0 +4 @@\n+new\n", b"line 1\nline 2\nline 3\nnew\n"),
        (b"@@ -1 +0,0 @@\n-line 1\n", b"line 2\nline 3\n"),
        (b"@@ -2 +1,0 @@\n-line 2\n", b"line 1\nline 3\n"),
        (b"@@ -3 +2,0 @@\n-line 3\n", b"line 1\nline 2\n"),
        (b"@@ -1,3 +0,0 @@\n-line 1\n-line 2\n-line 3\n", b""),
        (b"@@ -1 +1 @@\n-line 1\n+a\n@@ -1,0 +2 @@\n+b\n", b"a\nb\nline 2\nline 3\n"),
    ],
)
def test_hunks_without_context(hunk: bytes, result: bytes) -> None:
    assert applied(HEADER + hunk, numbered(3)) == result


def test_into_an_empty_file() -> None:
    assert applied(HEADER + b"@@ -0,0 +1,2 @@\n+a\n+b\n", b"") == b"a\nb\n"


def test_edits_leave_context_out() -> None:
    patch = HEADER + b"@@ -1,6 +1,5 @@\n 1\n+a\n 2\n-3\n-4\n+b\n 5\n-6\n"
    assert Patch.parse(patch).edits() == [
        Edit(1, 1, (b"a\n",), 1),
        Edit(2, 4, (b"b\n",), 1),
        Edit(5, 6, (), 1),
    ]
    mixed = Patch.parse(HEADER + b"@@ -1,2 +1,2 @@\n+a\n-1\n+b\n-2\n")
    assert mixed.edits() == [Edit(0, 2, (b"a\n", b"b\n"), 1)]


# What is refused

RENAME = "the patch renames a file; add the new one and remove the old one"
COPY = "the patch copies a file; add the copy as a file"
BINARY = "the patch is binary; replace the whole file"
MODE = "the patch changes a mode; a patched file keeps the one it has"
GIT = b"diff --git a/file b/file\n"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (b"", "the patch is empty"),
        (b" \n\n", "the patch is empty"),
        (b"words\n", "the patch has no hunk"),
        (HEADER, "the patch has no hunk"),
        (GIT + b"similarity index 90%\nrename from a\nrename to b\n" + ONE, RENAME),
        (GIT + b"copy from a\ncopy to b\n" + ONE, COPY),
        (GIT + b"index 1..2\nGIT binary patch\nliteral 3\nzcmV\n", BINARY),
        (GIT + b"Binary files a/file and b/file differ\n", BINARY),
        (b"Binary files a/file and b/file differ\n", BINARY),
        (GIT + b"old mode 100644\nnew mode 100755\n" + ONE, MODE),
        (GIT + b"new file mode 100644\n" + ONE, "the patch creates a file; use [[add]]"),
        (GIT + b"deleted file mode 100644\n" + ONE, "the patch deletes a file; use [[remove]]"),
        (
            b"--- /dev/null\t1970-01-01\n+++ b/file\n@@ -0,0 +1 @@\n+a\n",
            "the patch is not of an existing file; use [[add]]",
        ),
        (
            b"--- a/file\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
            "the patch is not of an existing file; use [[remove]]",
        ),
        (ONE + ONE, "line 6: the patch has a second file; make one patch a target"),
        (ONE + GIT, "line 6: the patch has a second file; make one patch a target"),
        (ONE + b"Index: b\n", "line 6: the patch has a second file; make one patch a target"),
        (ONE + b"-- \n2.39.5\nmore\n", "line 6: not a line of a patch: '-- '"),
        (ONE + b"\n", "line 6: not a line of a patch: ''"),
        (ONE + b"+more\n", "line 6: not a line of a patch: '+more'"),
        (ONE + b"\xff\n", "line 6: not a line of a patch: '\ufffd'"),
        (b"--- a/file\n@@ -1 +1 @@\n-a\n+b\n", "line 2: '+++' is missing after '---'"),
        (b"--- a/file\n", "line 2: '+++' is missing after '---'"),
        (HEADER + b"@@ -1 +1\n-a\n+b\n", "line 3: not a line of a patch: '@@ -1 +1'"),
        (HEADER + b"@@ 1 @@\n-a\n+b\n", "line 3: not a line of a patch: '@@ 1 @@'"),
        (ONE[:-9], "hunk 1 is cut short: 0 old, 1 new lines missing"),
        (
            HEADER + b"@@ -1,3 +1,3 @@\n a\n-b\n+c\n",
            "hunk 1 is cut short: 1 old, 1 new lines missing",
        ),
        (
            HEADER + b"@@ -1,2 +1 @@\n a\n-b\n c\n",
            "line 6: not a line of a patch: ' c'",
        ),
        (
            HEADER + b"@@ -1 +1,2 @@\n a\n-b\n",
            "line 5: hunk 1 has other lines than its header counts",
        ),
        (
            HEADER + b"@@ -1,2 +1 @@\n-a\n+b\n+c\n",
            "line 6: hunk 1 has other lines than its header counts",
        ),
        (
            HEADER + b"@@ -1,2 +1,2 @@\n-a\nb\n+c\n",
            "line 5: hunk 1 has other lines than its header counts",
        ),
        (
            HEADER + b"@@ -1,2 +1,2 @@\n\\ No newline at end of file\n",
            "line 4: hunk 1 has other lines than its header counts",
        ),
        (HEADER + b"@@ -0 +1 @@\n-a\n+b\n", "hunk 1 starts at line 0"),
        (HEADER + b"@@ -1,2 +1,2 @@\n a\n b\n", "hunk 1 changes nothing"),
        (HEADER + b"@@ -0,0 +0,0 @@\n", "hunk 1 changes nothing"),
        (
            HEADER + b"@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -2 +2 @@\n-c\n+d\n",
            "hunk 2 overlaps the one before it, or comes before it",
        ),
        (
            HEADER + b"@@ -9 +9 @@\n-a\n+b\n@@ -2 +2 @@\n-c\n+d\n",
            "hunk 2 overlaps the one before it, or comes before it",
        ),
        (
            HEADER + b"@@ -1,2 +1 @@\n-a\n\\ No newline at end of file\n-b\n+c\n",
            "hunk 1 goes on after a line without newline",
        ),
        (
            HEADER + b"@@ -1 +1,2 @@\n+a\n\\ No newline at end of file\n b\n",
            "hunk 1 goes on after a line without newline",
        ),
        (
            HEADER + b"@@ -1 +1 @@\n-a\n+\n\\ No newline at end of file\n",
            "hunk 1 ends with a line of nothing, not even a newline",
        ),
        (HEADER + b"@@ -1" + b"0" * 5000 + b" +1 @@\n-a\n+b\n", None),
    ],
)
def test_refused(patch: bytes, message: str | None) -> None:
    with pytest.raises(PatchError) as caught:
        Patch.parse(patch)
    if message is not None:
        assert str(caught.value) == message


@pytest.mark.parametrize("heading", [b"", b" def f():"])
def test_a_patch_converted_to_crlf(heading: bytes) -> None:
    patch = (HEADER + b"@@ -2 +2 @@" + heading + b"\n-line 2\n+changed\n").replace(b"\n", b"\r\n")
    with pytest.raises(PatchError) as caught:
        Patch.parse(patch)
    assert str(caught.value) == (
        "the patch has CRLF line ends; convert it: sed -i 's/\\r$//' FILE, and keep git from"
        " converting it back (*.patch -text in .gitattributes)"
    )


# What does not fit


def test_every_mismatch_with_expected_and_found() -> None:
    before = numbered(30)
    patch = diff(before, edited(before, {5: b"five\n", 15: b"fifteen\n", 25: b"x\n"}), context=1)
    first, second = misses(patch, edited(before, {4: b"other\n", 25: b"moved\n"}))
    assert (first.hunk.number, first.line, first.expected, first.found, first.applied) == (
        (1, 4, b"line 4\n", b"other\n", False)
    )
    assert (second.hunk.number, second.line, second.found) == (3, 25, b"moved\n")
    assert second.hunk.header == "@@ -24,3 +24,3 @@"


@pytest.mark.parametrize(
    ("found", "seen"),
    [
        (b"line 1\nline 2\n", None),
        (b"line 1\nline 2\nline 3", b"line 3"),
        (b"line 1\nline 2\nline 3\r\n", b"line 3\r\n"),
        (b"line 1\nline 2\nline 3 \n", b"line 3 \n"),
        (b"line 1\nline 2\n\tline 3\n", b"\tline 3\n"),
    ],
)
def test_no_fuzz_of_any_kind(found: bytes, seen: bytes | None) -> None:
    patch = HEADER + b"@@ -2,2 +2,2 @@\n line 2\n-line 3\n+changed\n"
    (miss,) = misses(patch, found)
    assert (miss.line, miss.expected, miss.found) == (3, b"line 3\n", seen)


def test_no_search_for_lines_that_moved() -> None:
    (miss,) = misses(ONE, b"new\n" + numbered(3))
    assert (miss.line, miss.expected, miss.found) == (2, b"line 2\n", b"line 1\n")


def test_an_insertion_beyond_the_end() -> None:
    patch = HEADER + b"@@ -5,0 +6 @@\n+new\n"
    assert misses(patch, numbered(5)) == []
    (miss,) = misses(patch, numbered(4))
    assert (miss.line, miss.expected, miss.found, miss.applied) == (5, None, None, False)


@pytest.mark.parametrize("context", [0, 3])
def test_a_file_that_has_the_change_already(context: int) -> None:
    before = numbered(9)
    after = edited(before, {5: b"changed\n"})
    patch = diff(before, after, context=context)
    for found in (after, b"above\n" + after):
        (miss,) = misses(patch, found)
        assert miss.applied
    (miss,) = misses(patch, edited(before, {5: b"otherwise\n"}))
    assert not miss.applied


def test_lines_that_are_there_for_another_reason_are_no_applied_change() -> None:
    patch = HEADER + b"@@ -2 +2 @@\n-line 2\n+changed\n"
    (miss,) = misses(patch, b"new\n" + numbered(3) + b"changed\n")  # line 2 is there, moved
    assert not miss.applied
    (miss,) = misses(HEADER + b"@@ -2 +1,0 @@\n-line 2\n", b"line 1\nline 3\n")
    assert not miss.applied  # a line that is gone proves nothing
    (miss,) = misses(HEADER + b"@@ -2 +2 @@\n-line 2\n+\n", b"line 1\n\n")
    assert not miss.applied  # nor does an empty one


# Against GNU diff and GNU patch

LINE = st.sampled_from(
    [b"a\n", b"b\n", b"\n", b" \n", b"-x\n", b"+x\n", b"@@ -1 +1 @@\n", b"c\r\n"]
)
ODD = st.binary(max_size=3).map(lambda data: data.replace(b"\n", b"") + b"\n")
TEXT = st.lists(LINE | ODD, max_size=12).map(b"".join)


@st.composite
def versions(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A text and another that differs in some of its lines, or in its last newline."""
    lines = before = split_lines(draw(TEXT))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(lines)))
        end = draw(st.integers(start, min(start + 2, len(lines))))
        lines = [*lines[:start], *draw(st.lists(LINE | ODD, max_size=2)), *lines[end:]]
    texts = [b"".join(before), b"".join(lines)]
    for number in (0, 1):
        if draw(st.booleans()) and texts[number][-2:-1] not in (b"", b"\n"):
            texts[number] = texts[number][:-1]
    return texts[0], texts[1]


@pytest.fixture(scope="module")
def gnu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tool("diff")
    tool("patch")
    return tmp_path_factory.mktemp("gnu")


@pytest.mark.parametrize("context", ["-U0", "-U1", "-U3"])
def test_as_gnu_patch_applies_what_gnu_diff_wrote(gnu: Path, context: str) -> None:
    @settings(max_examples=60, deadline=None)
    @given(versions())
    def check(made: tuple[bytes, bytes]) -> None:
        before, after = made
        (gnu / "before").write_bytes(before)
        (gnu / "after").write_bytes(after)
        command = ["diff", "-a", context, "before", "after"]
        done = subprocess.run(command, cwd=gnu, capture_output=True, check=False)
        if done.returncode == 0:
            return
        assert applied(done.stdout, before) == after
        command = ["patch", "--binary", "--fuzz=0", "-s", "-o", "result", "before"]
        subprocess.run(command, cwd=gnu, input=done.stdout, check=True)
        assert (gnu / "result").read_bytes() == after

    check()


@settings(max_examples=200, deadline=None)
@given(versions(), st.integers(0, 3))
def test_a_diff_applies_to_what_it_was_made_from(made: tuple[bytes, bytes], context: int) -> None:
    before, after = made
    if before != after:
        assert applied(diff(before, after, context=context), before) == after


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*ONE.splitlines(keepends=True), b"@@ -1,2 +1 @@\n", b" c\n"])))
def test_whatever_is_not_a_patch_is_refused_as_such(lines: list[bytes]) -> None:
    try:
        patch = Patch.parse(b"".join(lines))
    except PatchError:
        return
    for hunk in patch.hunks:
        old, new = (part.partition(",")[2] or "1" for part in hunk.header.split(" ")[1:3])
        assert (len(hunk.old), len(hunk.new)) == (int(old), int(new))
