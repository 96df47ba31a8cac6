"""`compose` beside its peers, with bases in a registry: `python -m bench.registry [--help]`.

Needs docker-registry and skopeo; measures every peer whose programs are on PATH, in turns, so
that all have the same conditions. Docker's daemon, buildah and podman need root. Prints Markdown.
Takes some 20 GB in the temporary directory; with --keep DIR the bases are generated once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from .acts import Stage
from .bases import Base, write_base
from .measure import Work
from .peers import PEERS, Peer
from .project import Project
from .rows import derive, edit, file_table, load, patch, unchanged
from .services import CountingProxy, docker_daemon, registry, unmount_below

MB = 1_000_000
SMALL = Base("small", (60 * MB, 310 * MB))
BIG = Base("big", (60 * MB, 750 * MB, 750 * MB, 1100 * MB, 1100 * MB, 310 * MB))
TINY = Base("small", (2 * MB, 40 * MB))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="of what is quick")
    parser.add_argument("--slow-runs", type=int, default=3, help="of what moves a base of 0.4 GB")
    parser.add_argument("--big-runs", type=int, default=1, help="of what moves a base of 4 GB")
    parser.add_argument("--peers", help="names with commas; otherwise all on PATH")
    parser.add_argument("--tiny", action="store_true", help="a small base only, to try it out")
    parser.add_argument("--no-big", action="store_true", help="leave the 4 GB base out")
    parser.add_argument("--only", help="of small,big,patch,edit,unchanged,load,table")
    parser.add_argument("--keep", type=Path, help="where generated bases are kept")
    return parser.parse_args()


def _peers(names: str | None) -> list[Peer]:
    wanted = names.split(",") if names is not None else [peer.name for peer in PEERS]
    found = [peer for peer in PEERS if peer.name in wanted and peer.present]
    if os.geteuid() != 0:
        found = [peer for peer in found if not peer.daemon]
    return found


def _publish(bases: dict[str, Path], netloc: str) -> None:
    for name, folder in bases.items():
        target = f"docker://{netloc}/base/{name}:v1"
        command = ["skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci:{folder}:v1", target]
        subprocess.run(command, check=True)


@contextlib.contextmanager
def _stage(folder: Path, options: argparse.Namespace) -> Iterator[tuple[Stage, Path]]:
    """Start everything; yields the stage and the layer of the row on file tables."""
    kinds = [TINY] if options.tiny else [SMALL] if options.no_big else [SMALL, BIG]
    kept = (options.keep or folder / "bases") / ("tiny" if options.tiny else "full")
    layers = {base.name: write_base(kept / base.name, base) for base in kinds}
    peers = _peers(options.peers)
    with contextlib.ExitStack() as stack:
        stack.callback(unmount_below, folder)
        netloc = stack.enter_context(registry(folder / "registry"))
        _publish({name: kept / name for name in layers}, netloc)
        host = ""
        if any(peer.daemon for peer in peers):
            host = stack.enter_context(docker_daemon(folder / "dockerd"))
        proxy = CountingProxy(netloc)
        stack.callback(proxy.close)
        project = Project(folder / "project", netloc, list(layers))
        counted = Project(folder / "counted", proxy.netloc, list(layers))
        yield Stage(folder, project, counted, proxy, peers, host), layers["small"]


def _measure(stage: Stage, layer: Path, options: argparse.Namespace) -> Iterator[Work]:
    runs, slow = options.runs, options.slow_runs
    work: dict[str, Callable[[], Work]] = {
        "small": lambda: derive(stage, "small", runs, slow),
        "big": lambda: derive(stage, "big", runs, options.big_runs),
        "patch": lambda: patch(stage, runs, slow),
        "edit": lambda: edit(stage, runs),
        "unchanged": lambda: unchanged(stage, runs),
        "load": lambda: load(stage, runs),
        "table": lambda: file_table(stage, layer, runs),
    }
    chosen = options.only.split(",") if options.only else list(work)
    if options.tiny or options.no_big:
        chosen = [name for name in chosen if name != "big"]
    if not stage.docker_host:
        chosen = [name for name in chosen if name != "load"]
    done: dict[str, Work] = {}
    for name in chosen:
        done[name] = work[name]()
        if name == "big" and "small" in done:
            ratio = done["big"].row("compose").median / done["small"].row("compose").median
            bar = f"compose: at most 1.2 times its time on the small base ({ratio:.2f})"
            done["big"].bars.append(bar)
        yield done[name]


def main() -> None:
    """Measure and print."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="compose-bench-") as name:
        folder = Path(name)
        with _stage(folder, options) as (stage, layer):
            names = ", ".join(peer.name for peer in stage.peers)
            load1 = os.getloadavg()[0]
            print(
                f"{os.cpu_count()} cores, {platform.system()}, Python"
                f" {platform.python_version()}; load {load1:.1f} at the start; peers: {names}\n",
                flush=True,
            )
            for work in _measure(stage, layer, options):
                print(work.markdown(), flush=True)
            print(f"load {os.getloadavg()[0]:.1f} at the end", file=sys.stderr)


if __name__ == "__main__":
    main()
