"""Bars on a terminal, drawn by rich. Imported when there is one to draw."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from ..text import size

__all__ = ["Screen"]

_RATE = 5  # pictures a second


class Screen:
    """The bars that are shown now, below what the terminal has; they leave nothing behind."""

    def __init__(self, stream: TextIO) -> None:
        name = TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        )
        self._progress = Progress(
            name,
            BarColumn(16),
            _Amount(table_column=Column(no_wrap=True)),
            console=Console(file=stream),
            transient=True,
            expand=True,
            refresh_per_second=_RATE,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._progress.start()

    def show(self, label: str, total: int | None, moved: int) -> TaskID:
        """Draw a bar for a transfer, of which `moved` bytes are there."""
        return self._progress.add_task(label, total=total, completed=moved)

    def move(self, bar: TaskID, moved: int, total: int | None) -> None:
        """Draw how far it is. A layer has headers beside the files that its total counts."""
        self._progress.update(bar, completed=moved if total is None else min(moved, total))

    def hide(self, bar: TaskID) -> None:
        """Draw it no more."""
        self._progress.remove_task(bar)

    def close(self) -> None:
        """Wipe the bars and give the cursor back."""
        self._progress.stop()


class _Amount(ProgressColumn):
    """`12.3 MiB of 310.0 MiB  45.6 MiB/s  7 s left`; seconds where no bytes are counted."""

    def render(self, task: Task) -> Text:
        done, rate = int(task.completed), task.speed
        if not done:
            return Text(f"{task.elapsed or 0:.0f} s")
        parts = [size(done) if task.total is None else f"{size(done)} of {size(int(task.total))}"]
        if rate:
            parts.append(f"{size(int(rate))}/s")
        if task.time_remaining is not None:
            parts.append(f"{task.time_remaining:.0f} s left")
        return Text("  ".join(parts))
