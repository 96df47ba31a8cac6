"""A git repository around a project, with an author of its own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .commands import tool

__all__ = ["Git"]

_SETTINGS = ("user.name=x", "user.email=x@example", "commit.gpgsign=false")


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in `root`."""

    root: Path

    def run(self, *arguments: str, **env: str) -> str:
        """Run git and return what it prints."""
        flags = [part for one in _SETTINGS for part in ("-c", one)]
        done = subprocess.run(
            [tool("git"), *flags, *arguments],
            cwd=self.root,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def init(self) -> Git:
        """Make the repository."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.run("init", "-q", "-b", "main")
        return self

    def commit(self) -> str:
        """Commit everything and return the commit."""
        self.run("add", "-A")
        self.run("commit", "-q", "--allow-empty", "-m", "commit")
        return self.run("rev-parse", "HEAD")
