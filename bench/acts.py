"""What a row is made of: one act of `compose` or of a peer, timed or with its bytes counted."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from .bases import TARGET
from .measure import compose, peak_mib, run
from .peers import Peer, script
from .project import Project
from .results import check
from .services import CountingProxy, unmount_below

__all__ = ["Stage"]


class _Circumstances(TypedDict):
    cwd: Path
    env: Mapping[str, str]


@dataclass(slots=True)
class Stage:
    """A registry with bases and, as far as there are any, a daemon and peers.

    counted: the same project by way of `proxy`. docker_host: empty without a daemon.
    """

    folder: Path
    project: Project
    counted: Project
    proxy: CountingProxy
    peers: Sequence[Peer]
    docker_host: str
    _number: int = field(default=0)

    def fresh(self, name: str) -> Path:
        """Return a directory that is not there yet, empty."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))

    def repository(self, project: Project) -> str:
        """Return a repository that is not there yet."""
        self._number += 1
        return f"{project.netloc}/out/result-{self._number}"

    def compose(self, store: Path, *arguments: str, project: Project | None = None) -> float:
        """Run `compose` over a store; returns seconds."""
        return run([compose(), *arguments], **self._with(store, project or self.project))

    def compose_peak(self, store: Path, *arguments: str) -> tuple[int, float | None]:
        """Run `compose` through the proxy; returns the bytes moved and its peak in MiB."""
        before = self.proxy.moved
        peak = peak_mib([compose(), *arguments], **self._with(store, self.counted))
        return self.proxy.moved - before, peak

    def _with(self, store: Path, project: Project) -> _Circumstances:
        env = {"COMPOSE_STORE": str(store)}
        if self.docker_host:
            env["DOCKER_HOST"] = self.docker_host
        return {"cwd": project.root, "env": env}

    def peer(
        self,
        peer: Peer,
        text: str,
        work: Path,
        *,
        base: str = "small",
        out: str = "",
        project: Project | None = None,
    ) -> float:
        """Run a script of a peer; returns seconds. out: a reference, where it pushes."""
        project = project or self.project
        env = {
            "BASE": project.use(base),
            "OUT": out or "localhost/made:v1",
            "FILE": str(project.file),
            "PATCH": str(project.patch),
            "TARGET": TARGET,
            "CONTEXT": str(project.context),
            "WORK": str(work),
        }
        if peer.daemon:
            env["DOCKER_HOST"] = self.docker_host
        took = run(script(text), cwd=project.root, env=env)
        if out:
            check(out, TARGET, project.file.read_bytes())
        return took

    def forget(self, peer: Peer, work: Path) -> None:
        """Let a peer forget all that it holds."""
        self.peer(peer, peer.clean, work)
        unmount_below(work)
        shutil.rmtree(work)
