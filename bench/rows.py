"""The pieces of work, each done by `compose` and by its peers in turns."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from .acts import Stage
from .bases import TARGET
from .measure import Work, compose, peak_mib, run
from .peers import Peer, script
from .results import check

__all__ = ["derive", "edit", "file_table", "load", "patch", "unchanged"]

_US = "compose"


def _in_turns(count: int, acts: Sequence[tuple[int, Callable[[], None]]]) -> None:
    """Do every act its number of times, each once before any a second time."""
    for number in range(max(count, *(times for times, _ in acts))):
        for times, act in acts:
            if number < times:
                act()


def _push(stage: Stage, store: Path, image: str, *options: str) -> float:
    """Push an image with `compose` to a new repository, and check what is there."""
    project = stage.project
    repository = stage.repository(project)
    arguments = ["push", image, "--to", repository, "--tag", "v1", *options]
    took = stage.compose(store, *arguments)
    check(f"{repository}:v1", TARGET, project.file.read_bytes())
    return took


def derive(stage: Stage, base: str, runs: int, slow: int) -> Work:
    """Put a whole file on a base and push, with nothing of the base held locally."""
    size = "0.4" if base == "small" else "4"
    work = Work(f"Derive from a {size} GB base and push, nothing held locally")
    work.bars += ["compose: at most 0.25 s, less than 1 MB moved"]
    image = f"whole-{base}"
    for project in (stage.project, stage.counted):
        stage.compose(stage.fresh("locking"), "lock", image, project=project)

    def ours() -> None:
        store = stage.fresh("store")
        work.note(_US, _push(stage, store, image, "--locked"))
        shutil.rmtree(store)

    def theirs(peer: Peer) -> Callable[[], None]:
        return lambda: work.note(peer.name, _cold(stage, peer, peer.change, base))

    acts = [(slow if _slow(peer) else runs, theirs(peer)) for peer in stage.peers]
    _in_turns(runs, [(runs, ours), *acts])
    row = work.row(_US)
    to = f"{stage.counted.netloc}/out/counted-{base}"
    store = stage.fresh("store")
    arguments = ["push", image, "--to", to, "--tag", "v1", "--locked"]
    row.moved, row.peak = stage.compose_peak(store, *arguments)
    if base == "small":
        _count_peers(stage, work)
    factor = 25 if base == "small" else 100
    if "docker" in work.rows:
        ratio = work.row("docker").median / row.median
        work.bars.append(f"docker: at least {factor} times as long ({ratio:.0f})")
    return work


def _slow(peer: Peer) -> bool:
    return peer.name != "crane"


def _cold(stage: Stage, peer: Peer, text: str, base: str) -> float:
    work = stage.fresh("peer")
    took = stage.peer(peer, text, work, base=base, out=f"{stage.repository(stage.project)}:v1")
    stage.forget(peer, work)
    return took


def _count_peers(stage: Stage, work: Work) -> None:
    """Let each peer do it once more, through the proxy."""
    for peer in stage.peers:
        place = stage.fresh("peer")
        before = stage.proxy.moved
        out = f"{stage.repository(stage.counted)}:v1"
        stage.peer(peer, peer.change, place, out=out, project=stage.counted)
        work.row(peer.name).moved = stage.proxy.moved - before
        stage.forget(peer, place)


def patch(stage: Stage, runs: int, slow: int) -> Work:
    """Patch a file that has to be read out of the base first; no lock, nothing held."""
    work = Work("Lock, patch and push with the file read out of a 0.4 GB base for the first time")
    image = "patch-small"

    def ours() -> None:
        store = stage.fresh("store")
        stage.project.unlock(image)
        work.note(_US, _push(stage, store, image))
        shutil.rmtree(store)

    def theirs(peer: Peer) -> Callable[[], None]:
        return lambda: work.note(peer.name, _cold(stage, peer, peer.patch, "small"))

    stage.project.edit("")
    _in_turns(runs, [(runs, ours), *((slow, theirs(peer)) for peer in stage.peers)])
    stage.project.edit("")
    row = work.row(_US)
    to = f"{stage.counted.netloc}/out/counted-patch"
    row.moved, row.peak = stage.compose_peak(stage.fresh("store"), "push", image, "--to", to)
    work.bars += ["compose: at most 1.2 s and 64 MiB"]
    others = [one.median for one in work.rows.values() if one is not row]
    if others:
        ratio = min(others) / row.median
        work.bars.append(f"the fastest peer: at least 3 times as long ({ratio:.1f})")
    return work


def edit(stage: Stage, runs: int) -> Work:
    """Edit the file, build again and push, with everything held locally."""
    work = Work("Rebuild after an edit and push, base held")
    work.bars.append("compose: at most 0.25 s")
    store = stage.fresh("store")
    _push(stage, store, "whole-small")
    places = {peer.name: stage.fresh("peer") for peer in stage.peers}
    for peer in stage.peers:
        out = f"{stage.repository(stage.project)}:v1"
        stage.peer(peer, peer.change, places[peer.name], out=out)
    for number in range(runs):
        stage.project.edit(f"edit {number}")
        work.note(_US, _push(stage, store, "whole-small"))
        for peer in stage.peers:
            out = f"{stage.repository(stage.project)}:v1"
            text = peer.rebuild or peer.change
            work.note(peer.name, stage.peer(peer, text, places[peer.name], out=out))
    for peer in stage.peers:
        stage.forget(peer, places[peer.name])
    stage.project.edit("")
    return work


def unchanged(stage: Stage, runs: int) -> Work:
    """Build what is built."""
    work = Work("Nothing changed, no push")
    work.bars.append("compose: at most 0.07 s")
    store = stage.fresh("store")
    stage.compose(store, "build", "whole-small")
    peers = [peer for peer in stage.peers if peer.unchanged]
    places = {peer.name: stage.fresh("peer") for peer in peers}
    for peer in peers:
        stage.peer(peer, peer.unchanged, places[peer.name])
    for _ in range(runs):
        work.note(_US, stage.compose(store, "build", "whole-small"))
        for peer in peers:
            work.note(peer.name, stage.peer(peer, peer.unchanged, places[peer.name]))
    for peer in peers:
        stage.forget(peer, places[peer.name])
    return work


def load(stage: Stage, runs: int) -> Work:
    """Edit the file and have the result in a Docker daemon that has the base."""
    work = Work("Edit, and load into a Docker daemon that has the base")
    work.bars.append("compose: not slower than docker build")
    docker = next(peer for peer in stage.peers if peer.daemon)
    place, store = stage.fresh("peer"), stage.fresh("store")
    stage.peer(docker, docker.unchanged, place)  # pulls the base
    stage.compose(store, "load", "whole-small")
    for number in range(runs):
        stage.project.edit(f"load {number}")
        work.note(_US, stage.compose(store, "load", "whole-small"))
        work.note("docker build", stage.peer(docker, docker.unchanged, place))
    stage.forget(docker, place)
    stage.project.edit("")
    return work


def file_table(stage: Stage, layer: Path, runs: int) -> Work:
    """Read the file table of a layer for the first time, beside gunzip on it."""
    size = layer.stat().st_size / 1e6
    work = Work(f"File table of a gzip layer of {size:.0f} MB, for the first time")
    reference = f"oci:{layer.parents[2]}:last-layer"
    command = [compose(), "toc", reference, f"/{Path(TARGET).parent}"]
    gunzip = script(f"gunzip -c <{layer} >/dev/null")
    for _ in range(runs):
        store = stage.fresh("store")
        env = {"COMPOSE_STORE": str(store)}
        work.note(_US, run(command, cwd=stage.folder, env=env))
        shutil.rmtree(store)
        work.note("gunzip -c", run(gunzip, cwd=stage.folder, env={}))
    env = {"COMPOSE_STORE": str(stage.fresh("store"))}
    work.row(_US).peak = peak_mib(command, cwd=stage.folder, env=env)
    ratio = work.row("gunzip -c").median / work.row(_US).median
    work.bars.append(f"gunzip: at least 2.5 times as long ({ratio:.2f}); compose: under 200 MB")
    return work
