"""Run the real VllmConfig over an installed vLLM with some of its files replaced.

vLLM and torch live in an interpreter of their own (COMPOSE_PROVE_PYTHON); nothing here imports
them, and nothing here writes to that installation: the files under test are laid over a tree of
symbolic links, and bytecode and vLLM's caches go to a scratch directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import threading
import tomllib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = [
    "MODULES",
    "Outcome",
    "Prover",
    "Run",
    "Scenario",
    "effect_of",
    "overlaid_package",
    "patched_files",
    "site_packages",
]

MODULES = Path(__file__).resolve().parents[2] / "modules"
_DECIDE = Path(__file__).with_name("decide.py")
_EFFECT = MODULES / "glm53_async_dflash" / "effect.py"
_TIMEOUT = 300.0  # seconds; a process takes six when warm, thirty when nothing is cached

Decision = bool | str


@dataclass(frozen=True, slots=True)
class Scenario:
    """One VllmConfig to make: which draft, what was asked for, and who has the last word.

    `env` is set before, and stays. `engine_cores` makes the config once more in a second process,
    started in each of these ways, as vLLM's engine core does.
    """

    name: str
    draft: Literal["dflash", "dflash-unpadded", "ngram", "ngram_gpu", "none"] = "dflash"
    explicit: bool | None = None
    executor_off: bool = False
    platform_off: bool = False
    engine_cores: tuple[Literal["fork", "spawn"], ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """One process: the modules in force, its environment, and the scenarios or the script."""

    modules: tuple[str, ...]
    scenarios: tuple[Scenario, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    script: Path | None = None

    def command(self) -> list[str]:
        if self.script is not None:
            return [str(self.script)]
        return [str(_DECIDE), str(_EFFECT), json.dumps([asdict(s) for s in self.scenarios])]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run decided, and its whole log."""

    decisions: Mapping[str, Decision]
    log: str

    def count(self, text: str, *, process: str = "") -> int:
        """Lines of the log (of one process, by the prefix that vLLM gives it) that hold `text`."""
        prefix = f"({process} pid=" if process else ""
        return sum(prefix in line and text in line for line in self.log.splitlines())

    def during(self, scenario: str) -> Outcome:
        """The outcome with the part of the log that belongs to one scenario."""
        _, found, rest = self.log.partition(f"=== {scenario}\n")
        assert found, f"no scenario {scenario!r} in the log"
        return Outcome(self.decisions, rest.partition("\n=== ")[0])


def effect_of(module: str) -> Path:
    """The script that the module's own `[effect]` names."""
    script: str = _module(module)["effect"]["script"]
    return MODULES / module / script


def site_packages(python: Path) -> Path:
    """The directory that holds the installed `vllm` of an interpreter, found without importing it.

    Raises:
        RuntimeError: that interpreter has no vllm.
    """
    code = "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise RuntimeError(f"COMPOSE_PROVE_PYTHON={python} has no vllm:\n{found.stderr}")
    return Path(found.stdout.strip()).parent


def overlaid_package(files: Mapping[str, bytes | Path], tmp_path: Path, *, installed: Path) -> Path:
    """Lay `files` over the installed package as a tree of links; return what PYTHONPATH needs.

    Only directories on the way to a changed file are real, so that no changed file ever sits
    beside the bytecode of the one it replaces.

    Args:
        files: contents by path relative to the package root, as "vllm/config/vllm.py".
        tmp_path: where the tree goes.
        installed: the directory that holds the installed `vllm`.
    """
    _link_tree(installed / "vllm", tmp_path / "vllm", _tree(files).get("vllm", {}))
    for target, content in files.items():
        data = content.read_bytes() if isinstance(content, Path) else content
        (tmp_path / target).write_bytes(data)
    return tmp_path


def _tree(paths: Iterable[str]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in paths:
        node = root
        for part in Path(path).parts:
            node = node.setdefault(part, {})
    return root


def _link_tree(source: Path, copy: Path, changed: Mapping[str, Any]) -> None:
    copy.mkdir(parents=True)
    if source.is_dir():
        for entry in sorted(source.iterdir()):
            if entry.name not in changed and entry.name != "__pycache__":
                (copy / entry.name).symlink_to(entry)
    for name, below in changed.items():
        if below:
            _link_tree(source / name, copy / name, below)


def patched_files(names: tuple[str, ...], *, installed: Path) -> dict[str, bytes]:
    """The files that these modules change or add, patched by GNU patch without any fuzz.

    Hunks of all modules are put in the order of their places in the base file first: each has its
    place there, whatever the others insert.

    Raises:
        AssertionError: a preimage or a read-pin does not match, or a hunk does not sit exactly.
    """
    diffs: dict[str, list[str]] = {}
    files: dict[str, bytes] = {}
    for name in names:
        module = _module(name)
        for pin in [*module.get("patch", []), *module.get("read", [])]:
            _assert_preimage(name, installed / pin["target"], pin["preimage"])
        for patch in module.get("patch", []):
            text = (MODULES / name / patch["file"]).read_text(encoding="utf-8")
            diffs.setdefault(patch["target"], []).append(text)
        for add in module.get("add", []):
            assert not (installed / add["target"]).exists(), f"{name}: {add['target']} exists"
            files[add["target"]] = (MODULES / name / add["file"]).read_bytes()
    return files | {t: _patched(installed / t, _one_diff(texts)) for t, texts in diffs.items()}


def _module(name: str) -> dict[str, Any]:
    return tomllib.loads((MODULES / name / "module.toml").read_text(encoding="utf-8"))


def _assert_preimage(module: str, path: Path, allowed: list[str]) -> None:
    found = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    assert found in allowed, f"{module}: {path}: expected one of {allowed}, found {found}"


def _one_diff(texts: list[str]) -> str:
    header = texts[0].split("@@", maxsplit=1)[0]
    hunks = [h for text in texts for h in re.split(r"^(?=@@ )", text, flags=re.MULTILINE)[1:]]
    return header + "".join(sorted(hunks, key=_place))


def _place(hunk: str) -> int:
    place = re.match(r"@@ -(\d+)", hunk)
    assert place is not None, hunk
    return int(place[1])


def _patched(base: Path, diff: str) -> bytes:
    command = ["patch", "--unified", "--fuzz=0", "--reject-file=-", "--output=-", str(base)]
    done = subprocess.run(command, input=diff.encode(), capture_output=True, check=False)
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert "offset" not in said, said
    assert "fuzz" not in said, said
    return done.stdout


class Prover:
    """Runs processes, two at a time, over one package per set of modules.

    Args:
        python: the interpreter that has vllm and torch.
        scratch: a directory for packages, bytecode and vLLM's caches.
        files_of: the files of the image that has these modules, by path from the package root.
    """

    def __init__(
        self,
        python: Path,
        scratch: Path,
        files_of: Callable[[tuple[str, ...]], Mapping[str, bytes | Path]],
    ) -> None:
        self._python = python
        self._scratch = scratch
        self._files_of = files_of
        self._installed = site_packages(python)
        self._packages: dict[tuple[str, ...], Path] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=2)

    def start(self, runs: Mapping[str, Run]) -> dict[str, Future[Outcome]]:
        """Begin all runs, in this order; wait for each by its future."""
        return {name: self._pool.submit(self._run, run) for name, run in runs.items()}

    def close(self) -> None:
        """Wait for the runs that have begun, drop the others."""
        self._pool.shutdown(cancel_futures=True)

    def package(self, modules: tuple[str, ...]) -> Path:
        """The package with these modules, made once."""
        with self._lock:
            if modules not in self._packages:
                place = self._scratch / ("+".join(modules) or "stock")
                self._packages[modules] = overlaid_package(
                    self._files_of(modules), place, installed=self._installed
                )
            return self._packages[modules]

    def _run(self, run: Run) -> Outcome:
        command = [str(self._python), *run.command()]
        env = {**self._environment(self.package(run.modules)), **run.env}
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stderr[-4000:]}")
        return Outcome(json.loads(done.stdout), done.stderr)

    def _environment(self, package: Path) -> dict[str, str]:
        # A knob or a PYTHONDONTWRITEBYTECODE of the shell must not reach the process.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("VLLM_", "PYTHON"))}
        return inherited | {
            "PYTHONPATH": str(package),
            "PYTHONPYCACHEPREFIX": str(self._scratch / "pycache"),
            "VLLM_CACHE_ROOT": str(self._scratch / "vllm-cache"),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "NO_COLOR": "1",
        }
