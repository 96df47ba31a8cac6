"""Modules on the files of one base: what each module leaves of each target.

Pure but for `View.read`, which gives the content of base files that are patched. Every module
is judged, and every fault of all of them is reported together.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from . import bytecode, refusal
from .errors import Fault
from .module import Change, Kind, Module, Read
from .oci.digest import Digest, sha256
from .oci.filetree import WHITEOUT, Entry, PathError, resolve
from .patch import Patch, PatchError
from .refusal import fault
from .stack import Collision, Step
from .target import ABSENT, State, Target, place

__all__ = ["OVERLAY_PATH", "FileChange", "Overlay", "PinnedRead", "View", "overlay"]

# Where an image says what it is made of; no module may write there.
OVERLAY_PATH = "/usr/share/compose/overlay.json"


class View(Protocol):
    """The merged files of a base. Paths have no leading slash; the root is ""."""

    def stat(self, path: str) -> Entry | None:
        """Return what is at `path`, links not followed."""

    def names(self, path: str, stem: str = "") -> Sequence[str]:
        """Return the sorted names in a directory; none where it is not one.

        With a `stem`, only those that start with it and a dot.
        """

    def read(self, path: str) -> bytes:
        """Return the content of a regular file, checked against its entry."""

    def package_roots(self, package: str) -> Sequence[str]:
        """Return the directories of Python packages that hold `package`, sorted."""

    def siblings(self, path: str) -> Sequence[str]:
        """Return the other names of a hard-linked file."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """What one module does to one file. `post` is None where it removes it.

    entry: mode, owner and xattrs the file will have. data: the file as it stands after the
    module. hunks: the headers of the patch's hunks.
    """

    module: str
    kind: Kind
    target: str
    path: str
    pre: Digest | None
    post: Digest | None
    entry: Entry
    data: bytes = field(repr=False)
    hunks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PinnedRead:
    """A read-pin that holds."""

    module: str
    target: str
    path: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class Overlay:
    """The outcome: changes by module (in order) and path; faults; remarks for people."""

    changes: tuple[FileChange, ...]
    reads: tuple[PinnedRead, ...]
    faults: tuple[Fault, ...]
    remarks: tuple[str, ...]

    def of(self, module: str) -> Sequence[FileChange]:
        """Return one module's changes."""
        return [change for change in self.changes if change.module == module]


def overlay(modules: Sequence[Module], view: View, package_root: str | None) -> Overlay:
    """Apply `modules`, which are in order, to the files of `view`.

    package_root: without leading slash; None to find it in the base, for each package.
    """
    work = _Work(view, package_root)
    for module in modules:
        work.add(module)
    for module in modules:
        work.check_reads(module)
    work.check_layout()
    return Overlay(tuple(work.changes), tuple(work.reads), tuple(work.faults), tuple(work.remarks))


class _Work:
    """Collects changes and faults over the modules of an image."""

    def __init__(self, view: View, package_root: str | None) -> None:
        self.view = view
        self.package_root = package_root
        self.targets: dict[str, Target] = {}
        self.required: dict[str, frozenset[str]] = {}
        self.changes: list[FileChange] = []
        self.reads: list[PinnedRead] = []
        self.faults: list[Fault] = []
        self.remarks: list[str] = []
        self.places: dict[tuple[str, str], str] = {}  # module and path -> where it says so

    def add(self, module: Module) -> None:
        """Apply a module whose requirements have been added."""
        self.required[module.name] = frozenset(module.requires).union(
            *(self.required.get(name, frozenset()) for name in module.requires)
        )
        by_path: dict[str, list[Change]] = {}
        for change in module.changes:
            if (path := self._resolve(change, module.name)) is not None:
                by_path.setdefault(path, []).append(change)
        for path in sorted(by_path):
            self._change(module, self._target(path), by_path[path])

    def _resolve(self, change: Change | Read, module: str) -> str | None:
        target = change.target
        try:
            path = resolve(self.view.stat, self._written(target))
            reserved = resolve(self.view.stat, OVERLAY_PATH)
        except PathError as error:
            why, _, fix = str(error).partition("; ")
            what = f"target {target} cannot be reached: {why}"
            self.faults.append(fault(module, what, change, fix=fix))
            return None
        if any(part.startswith(WHITEOUT) for part in path.split("/")):
            what = f"target {target}: layers reserve names that start with {WHITEOUT}"
        elif f"{reserved}/".startswith(f"{path}/"):
            what = f"target {target}: compose writes {OVERLAY_PATH} itself"
        else:
            return path
        self.faults.append(fault(module, what, change))
        return None

    def _written(self, target: str) -> str:
        """Return the target as a path of the image; the package root is never guessed.

        Raises:
            PathError: the base has its package nowhere, or in several places.
        """
        if target.startswith("/"):
            return target
        if self.package_root is not None:
            return f"{self.package_root}/{target}"
        package = target.partition("/")[0]
        roots = self.view.package_roots(package)
        if len(roots) == 1:
            return f"{roots[0]}/{target}"
        found = " and ".join(f"/{root}" for root in roots) or "no directory of packages of the base"
        raise PathError(f"{package} is in {found}; name one: package_root of the base")

    def _target(self, path: str) -> Target:
        if path not in self.targets:
            entry = self.view.stat(path)
            base = ABSENT
            if entry is not None and entry.is_file:
                base = State(Digest("sha256", entry.sha256), lambda: self.view.read(path))
            self.targets[path] = Target(path, entry, base)
        return self.targets[path]

    def _change(self, module: Module, target: Target, changes: Sequence[Change]) -> None:
        """Judge a module's entries for one target; keep what fits, or the reason why not."""
        found = _unsound(module, target, changes) or self._try(module, target, changes)
        if found is None:
            return
        preimages = frozenset(one for change in changes for one in change.preimages)
        if not self._follows(module, target, preimages):
            self.faults.append(found)
        target.broken[module.name] = preimages

    def _follows(self, module: Module, target: Target, preimages: frozenset[Digest]) -> bool:
        """Tell whether a change is written on the result of one that failed, and fails with it.

        One fault says it then. Modules that name the same preimage stand side by side.
        """
        return any(
            name in self.required[module.name] and not named & preimages
            for name, named in target.broken.items()
        )

    def _try(self, module: Module, target: Target, changes: Sequence[Change]) -> Fault | None:
        required = self.required[module.name]
        # By entry: a file that a module changes and another one changes back fits twice.
        fits = {
            number: (change, seen)
            for seen in target.views(required)
            for number, change in enumerate(changes)
            if _fits(change, target.state(seen))
        }
        if not fits:
            return refusal.misfit(module, target, changes, required=required, names=self.view.names)
        if len(fits) > 1:
            return _ambiguous(module, target, [change for change, _ in fits.values()])
        ((change, seen),) = fits.values()
        before = target.state(seen)
        try:
            step = self._step(change, module.name, target, seen)
            after = step if isinstance(step, State) else place(target.current, step)
        except Collision as collision:
            return refusal.collision(module, target, change, collision)
        except PatchError as error:
            return refusal.patch_fault(module, change, error, before)
        self.changes.append(self._file_change(module.name, change, target, before, after))
        target.add(module.name, step, seen, after)
        self.places[module.name, target.path] = change.place
        return None

    @staticmethod
    def _step(change: Change, module: str, target: Target, seen: frozenset[str]) -> Step | State:
        """Return what the module does, from the view that has seen the modules `seen`."""
        before = target.state(seen)
        others = [name for name in target.steps if name not in seen]
        if change.kind != "patch":
            if others:
                raise Collision(None, others[0])
            if change.kind == "remove":
                return ABSENT
            after = State(sha256(change.data), lambda: change.data)
            if after.digest == before.digest:
                raise PatchError("the file is the same as the one it replaces; drop the entry")
            return after
        for other in others:
            if isinstance(target.steps[other], State):
                raise Collision(None, other)
        patch = Patch.parse(change.data)
        if patch.mismatches([line.data for line in before.text.lines]):
            raise PatchError("the patch does not fit the file whose preimage it names")
        step = Step.of(before.text, patch.edits(), module)
        if before.text.apply(step).data == before.text.data:
            raise PatchError("the patch changes nothing; drop it")
        return step

    def _file_change(
        self, module: str, change: Change, target: Target, before: State, after: State
    ) -> FileChange:
        entry = target.entry
        hunks: tuple[str, ...] = ()
        if change.kind == "patch":
            hunks = tuple(hunk.header for hunk in Patch.parse(change.data).hunks)
        if entry is not None and (siblings := self.view.siblings(target.path)):
            names = ", ".join(f"/{one}" for one in siblings)
            self.remarks.append(
                f"module {module}: /{target.path} is hard-linked in the base; {names} keep the"
                " old content"
            )
        return FileChange(
            module=module,
            kind=change.kind,
            target=change.target,
            path=target.path,
            pre=before.digest,
            post=after.digest,
            entry=entry if entry is not None else Entry("f", mode=0o644),
            data=after.load() if after.digest is not None else b"",
            hunks=hunks,
        )

    def check_reads(self, module: Module) -> None:
        """Compare a module's read-pins with the files as the whole image has them."""
        for read in module.reads:
            path = self._resolve(read, module.name)
            if path is None:
                continue
            target = self._target(path)
            found = target.current.digest
            if found is not None and found in read.preimages:
                self.reads.append(PinnedRead(module.name, read.target, path, found))
            elif not self._follows(module, target, frozenset(read.preimages)):
                self.faults.append(refusal.read_fault(module, read, found, list(target.steps)))

    def check_layout(self) -> None:
        """Check the outcome as a whole: types along the paths, and what shadows sources."""
        last = {change.path: change for change in self.changes}
        names = _final_names(self.view, last)
        for path, change in sorted(last.items()):
            if change.post is None:
                continue
            for parent in _parents(path):
                if parent in last and last[parent].post is not None:
                    self._layout_fault(
                        change, f"/{parent} is a file of module {last[parent].module}, not a folder"
                    )
            if bytecode.is_source(path):
                for shadow in bytecode.shadows(path, names):
                    self._layout_fault(
                        change,
                        f"an import finds /{shadow} before it, so that it would never run",
                        fix="remove what shadows it, or patch that",
                    )

    def _layout_fault(self, change: FileChange, why: str, fix: str = "") -> None:
        self.faults.append(
            Fault(
                what=f"module {change.module}: target {change.target}: {why}",
                where=self.places[change.module, change.path],
                fix=fix,
            )
        )


def _unsound(module: Module, target: Target, changes: Sequence[Change]) -> Fault | None:
    """Say what is wrong with the entries for a target before any file is looked at."""
    first, *others = changes
    if others and any(change.kind != "patch" for change in changes):
        return fault(
            module.name,
            f"/{target.path} is the target of several entries",
            others[0],
            found=", ".join(one.place for one in changes),
            fix="leave one; only patches with different preimages may share a target",
        )
    entry = target.entry
    if entry is not None and not entry.is_file:
        kind = {"d": "a directory", "l": "a link"}.get(entry.kind, "not a regular file")
        return fault(module.name, f"target {first.target} is {kind}", first)
    return None


def _ambiguous(module: Module, target: Target, changes: Sequence[Change]) -> Fault:
    return fault(
        module.name,
        f"several entries fit /{target.path}",
        changes[0],
        found=", ".join(one.place for one in changes),
        fix="exactly one may fit: take a preimage out",
    )


def _fits(change: Change, state: State) -> bool:
    if change.kind == "add":
        return state.digest is None
    return state.digest in change.preimages


def _parents(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _final_names(view: View, last: Mapping[str, FileChange]) -> bytecode.Names:
    added: dict[str, set[str]] = {}
    removed: dict[str, set[str]] = {}
    for path, change in last.items():
        folder, name = posixpath.split(path)
        (added if change.post is not None else removed).setdefault(folder, set()).add(name)

    def names(folder: str, stem: str = "") -> list[str]:
        start = f"{stem}." if stem else ""
        new = {name for name in added.get(folder, ()) if name.startswith(start)}
        present = {*view.names(folder, stem), *new}
        return sorted(present - removed.get(folder, set()))

    return names
