"""The command line: what it prints, its exit codes, and what it must not import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from composer import __version__
from tests.support.commands import ROOT, compose
from tests.support.projects import SmallProject

HEAVY = ("docker", "torch", "vllm", "pydantic", "rich", "urllib3", "requests", "packaging")


def test_version_and_help(tmp_path: Path) -> None:
    assert compose("--version", cwd=tmp_path).out == f"compose {__version__}\n"
    out = compose("--help", cwd=tmp_path).out
    for verb in ("build", "diff", "doctor", "lock", "release", "releases", "schema", "show", "why"):
        assert f"\n  {verb} " in out
        assert compose(verb, "--help", cwd=tmp_path).out.startswith("Usage: compose " + verb)


def test_unknown_verb_names_the_nearest(tmp_path: Path) -> None:
    done = compose("biuld", cwd=tmp_path, ok=False)
    assert done.code == 2
    assert "no verb 'biuld'; did you mean 'build'?" in done.err


def test_outside_a_project(tmp_path: Path) -> None:
    done = compose("show", cwd=tmp_path, ok=False)
    assert done.code == 2
    assert done.err.startswith("error: no images.toml here or in a directory above\n")
    assert "compose --project DIR" in done.err


def _modules_after(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_command_line_imports_nothing_heavy() -> None:
    code = "import composer.cli, composer.cli.build, composer.cli.progress, composer.unchanged"
    assert not _modules_after(code) & set(HEAVY)


def test_no_verb_imports_what_only_some_need() -> None:
    code = "import composer.cli.lock, composer.cli.show, composer.cli.why, composer.workflow"
    assert not _modules_after(code) & {"docker", "torch", "vllm", "urllib3", "requests"}


@pytest.mark.parametrize("document", ["images", "module", "lock"])
def test_schema_is_a_json_schema(document: str, tmp_path: Path) -> None:
    schema = compose("schema", document, cwd=tmp_path).json
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    assert "schema" in schema["required"]


def test_show_and_why(tmp_path: Path) -> None:
    project = SmallProject(tmp_path).write()
    project.patch(
        "first", {3: "changed"}, knob=[{"name": "TINY", "values": ["0", "1"], "default": "0"}]
    )
    answer = project.build()
    shown = project.compose("show", "app").out
    assert shown.splitlines()[0] == f"app  {answer['digest']}"
    assert "module first" in shown
    assert "knob TINY=0" in shown
    assert "patch /usr/local/lib/python3.12/dist-packages/tiny/core.py" in shown
    why = project.compose("why", "app", "tiny/core.py").out
    assert "module first: patch" in why
    assert "  -line 3\n  +changed\n" in why
    same = project.compose("why", "app", "/usr/local/lib/python3.12/dist-packages/tiny/core.py").out
    assert same == why
    touches = project.compose("why", "app", "tiny/core.py", "--json").json
    assert touches[0]["hunks"] == [{"header": "@@ -3 +3 @@", "lines": ["-line 3\n", "+changed\n"]}]
    missed = project.compose("why", "app", "tiny/cores.py", ok=False)
    assert missed.code == 2
    assert "no module of app touches tiny/cores.py" in missed.err
    assert "did you mean 'tiny/core.py'?" in missed.err


def test_show_of_an_image_that_has_no_lock(tmp_path: Path) -> None:
    project = SmallProject(tmp_path).write()
    project.patch("first", {3: "changed"})
    done = project.compose("show", "app", ok=False)
    assert done.code == 2
    assert "run `compose lock app`" in done.err
    assert "there is no image 'ap'" in project.compose("show", "ap", ok=False).err


def test_a_build_with_nothing_to_do_prints_the_same(tmp_path: Path) -> None:
    project = SmallProject(tmp_path).write()
    project.patch("first", {3: "changed"})
    project.compose("lock")
    made = project.compose("build", "app", "--json").out
    assert project.compose("build", "app", "--json").out == made


def test_build_prints_the_digest_last_and_alone_when_quiet(tmp_path: Path) -> None:
    project = SmallProject(tmp_path).write()
    project.patch("first", {3: "changed"})
    first = project.compose("build", "app")
    digest = project.build()["digest"]
    assert first.last == digest
    assert project.compose("build", "app", "-q").out == f"{digest}\n"
    edited = project.patch("first", {3: "changed again"})
    assert b"changed again" in edited
    refreshed = project.compose("build", "app")
    assert "lock/app.lock: module first changed\n" in refreshed.out
    assert refreshed.last != digest
    # What is not for a person goes to stdout as JSON only.
    assert json.loads(project.compose("build", "app", "--json").out)["digest"] == refreshed.last
