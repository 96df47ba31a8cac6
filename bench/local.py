"""How fast the everyday acts are, as whole processes: `python bench/local.py [--runs N]`.

Prints a Markdown table of medians, with what each is held against in the same run. Needs the
package index or a warm pip cache, `unzip` and `sha256sum`; writes to a temporary store only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGE = "glm53-async"
EDITED = "modules/glm53_async_dflash/async_dflash.py"


def seconds(action: Callable[[], object]) -> float:
    """Return how long one call takes, in seconds."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


class Bench:
    """A copy of the project and a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.store = folder / "store"
        self.project.mkdir()
        for name in ("images.toml", "modules", "lock", "deploy"):
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, self.project / name)

    def run(self, *command: str) -> str:
        """Run a program in the project and return its output."""
        env = {**os.environ, "COMPOSE_STORE": str(self.store)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(command, cwd=self.project, env=env, stdout=-1, check=True)
        return done.stdout.decode()

    def compose(self, *arguments: str) -> str:
        """Run `compose`, as installed beside this interpreter."""
        return self.run(str(Path(sys.executable).with_name("compose")), *arguments)

    def edit(self) -> None:
        """Change one overlay file, each time otherwise."""
        path = self.project / EDITED
        path.write_text(path.read_text() + f"# {time.time_ns()}\n")

    def wheel(self) -> Path:
        """Return the wheel of the base, as the store keeps it."""
        lock = (self.project / f"lock/{IMAGE}.lock").read_text()
        section = lock.partition("[[base.wheels]]")[2]
        digest = section.partition('digest = "sha256:')[2].partition('"')[0]
        return self.store / "blobs/sha256" / digest

    def forget_base(self) -> None:
        """Drop what was assembled, and keep the downloaded wheel."""
        wheel = self.wheel()
        for path in (*self.store.glob("blobs/sha256/*"), *self.store.glob("unchanged/*")):
            if path != wheel:
                path.unlink()
        shutil.rmtree(self.store / "bases")


def measure(bench: Bench, runs: int) -> dict[str, list[float]]:
    """Return the seconds of every run, by what was done."""
    bench.compose("build", IMAGE)
    unzip = f"unzip -p {bench.wheel()} | sha256sum"
    empty = [sys.executable, "-c", "pass"]
    found: dict[str, list[float]] = {}

    def note(name: str, action: Callable[[], object]) -> None:
        found.setdefault(name, []).append(seconds(action))

    for _ in range(runs):
        note("python -c pass", lambda: bench.run(*empty))
        note("compose --help", lambda: bench.compose("--help"))
        note("nothing changed", lambda: bench.compose("build", IMAGE))
    bench.compose("build", "glm53")  # a pin needs the bytes of its release
    for _ in range(runs):
        note("compose diff v13 v14", lambda: bench.compose("diff", "v13", "v14"))
        note("compose pin prod v14", lambda: bench.compose("pin", "-q", "prod", "v14"))
        note("compose rollback prod", lambda: bench.compose("rollback", "-q", "prod"))
    for _ in range(runs):
        bench.edit()
        note("one overlay file edited", lambda: bench.compose("build", IMAGE))
    for _ in range(max(3, runs // 4)):
        note("unzip -p | sha256sum", lambda: bench.run("sh", "-c", unzip))
        bench.forget_base()
        note("cold assembly of the base", lambda: bench.compose("build", IMAGE))
    return found


BARS = {
    "compose --help": "<= 0.08",
    "nothing changed": "<= 0.07",
    "one overlay file edited": "<= 0.25",
    "compose diff v13 v14": "<= 0.25",
    "compose pin prod v14": "<= 0.2",
    "cold assembly of the base": "<= 2.5 x unzip -p | sha256sum",
}


def table(found: dict[str, list[float]]) -> str:
    """Return the Markdown table of medians."""
    median = {name: statistics.median(times) for name, times in found.items()}
    floor, unzip = median["python -c pass"], median["unzip -p | sha256sum"]
    lines = [
        "| what | median s | min | max | runs | ratio | bar |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, times in found.items():
        slow = name in ("cold assembly of the base", "unzip -p | sha256sum")
        against, base = ("unzip", unzip) if slow else ("python", floor)
        low, high = min(times), max(times)
        lines.append(
            f"| {_cell(name)} | {median[name]:.3f} | {low:.3f} | {high:.3f} | {len(times)}"
            f" | {median[name] / base:.2f} x {against} | {_cell(BARS.get(name, ''))} |"
        )
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print every time, in seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="compose-bench-") as folder:
        found = measure(Bench(Path(folder)), options.runs)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(
        f"{os.cpu_count()} cores, {platform.system()} {platform.release().split('-')[0]},", end=" "
    )
    print(f"Python {platform.python_version()}, {options.runs} runs\n")
    print(table(found))


if __name__ == "__main__":
    main()
