"""Whole processes, timed; and the Markdown of what they took."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Row", "Work", "compose", "peak_mib", "run"]


def compose() -> str:
    """Return the `compose` that is installed beside this interpreter."""
    return str(Path(sys.executable).with_name("compose"))


def run(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> float:
    """Run a program and return how long it took, in seconds.

    Raises:
        SystemExit: it failed; with what it said.
    """
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**_environment(), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    took = time.perf_counter() - start
    if done.returncode != 0:
        said = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
        raise SystemExit(f"{' '.join(command)}\nfailed ({done.returncode}):\n{said}")
    return took


def _environment() -> dict[str, str]:
    environ = dict(os.environ)
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody imports without bytecode every day
    return environ


def peak_mib(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> float | None:
    """Run a program and return its peak of resident memory; None without `/usr/bin/time`."""
    timer = shutil.which("time")
    if timer is None:
        run(command, cwd=cwd, env=env)
        return None
    report = cwd / "peak"
    run([timer, "-f", "%M", "-o", str(report), *command], cwd=cwd, env=env)
    kib = int(report.read_text().split()[-1])
    report.unlink()
    return kib / 1024


@dataclass(slots=True)
class Row:
    """What one tool took for a piece of work: seconds of each run, bytes moved, MiB at most."""

    who: str
    seconds: list[float] = field(default_factory=list)
    moved: int | None = None
    peak: float | None = None

    @property
    def median(self) -> float:
        """The median of the runs, in seconds."""
        return statistics.median(self.seconds)


@dataclass(slots=True)
class Work:
    """A piece of work, who did it, and what `compose` is held to."""

    title: str
    bars: list[str] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)

    def row(self, who: str) -> Row:
        """Return the row of `who`."""
        return self.rows.setdefault(who, Row(who))

    def note(self, who: str, seconds: float) -> None:
        """Add a run, and tell whoever watches."""
        self.row(who).seconds.append(seconds)
        print(f"{self.title}: {who} {seconds:.3f} s", file=sys.stderr)

    def markdown(self) -> str:
        """Return a section: a table, and the bars."""
        ours = self.rows.get("compose")
        lines = [f"### {self.title}", ""]
        lines += ["| | median s | min | max | runs | x compose | bytes moved | peak MiB |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for row in sorted(self.rows.values(), key=lambda one: one.median):
            ratio = f"{row.median / ours.median:.1f}" if ours else ""
            low, high = min(row.seconds), max(row.seconds)
            peak = f"{row.peak:.0f}" if row.peak is not None else ""
            lines.append(
                f"| {row.who} | {row.median:.3f} | {low:.3f} | {high:.3f} | {len(row.seconds)}"
                f" | {ratio} | {_bytes(row.moved)} | {peak} |"
            )
        if self.bars:
            lines += ["", f"Bars: {'; '.join(self.bars)}."]
        return "\n".join([*lines, ""])


def _bytes(count: int | None) -> str:
    if count is None:
        return ""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
