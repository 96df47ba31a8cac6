"""Why a change cannot be made: the faults of `composer.overlay`, in words."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence

from .errors import Fault
from .module import Change, Module, Read
from .oci.digest import Digest
from .patch import Mismatch, Patch, PatchError
from .stack import Collision
from .target import ABSENT, State, Target
from .text import nearest

__all__ = ["collision", "fault", "misfit", "patch_fault", "read_fault"]

Names = Callable[[str, str], Sequence[str]]


def fault(
    module: str,
    what: str,
    change: Change | Read,
    *,
    expected: str = "",
    found: str = "",
    fix: str = "",
    context: Sequence[str] = (),
) -> Fault:
    """Return a fault of a module at the place of one of its entries."""
    return Fault(
        what=f"module {module}: {what}",
        where=change.place,
        expected=expected,
        found=found,
        fix=fix,
        context=tuple(context),
    )


def misfit(
    module: Module,
    target: Target,
    changes: Sequence[Change],
    *,
    required: frozenset[str],
    names: Names,
) -> Fault:
    """Say why none of the entries for a target fits the file that is there.

    required: the modules that this one requires, those that they require among them.
    """
    change = changes[0]
    if change.kind == "add":
        removing = [name for name, step in target.steps.items() if step is ABSENT]
        return fault(
            module.name,
            f"added file {change.target} is already there",
            change,
            found=f"in the base: {target.base.digest}",
            fix=f"let {module.name} require {removing[0]}, which removes it"
            if removing
            else "patch or replace the file that is there, or choose another name",
        )
    if target.base.digest is None and not target.steps:
        return fault(
            module.name,
            f"target {change.target} is missing",
            change,
            expected=f"/{target.path} in the base",
            found="no such file",
            fix=_near(target.path, names) or "it may have moved: look for its new home in the base",
        )
    return _preimage_fault(module, target, changes, required)


def _near(path: str, names: Names) -> str:
    folder, name = posixpath.split(path)
    guess = nearest(name, names(folder, ""))
    return guess if guess.startswith("did") else ""


def _preimage_fault(
    module: Module, target: Target, changes: Sequence[Change], required: frozenset[str]
) -> Fault:
    others = ", ".join(name for name in target.steps if name not in required)
    states = {view: target.state(view) for view in target.views(required)}
    return fault(
        module.name,
        f"the preimage of {changes[0].target} differs",
        changes[0],
        expected=_either([one for change in changes for one in change.preimages]),
        found=", or ".join(_seen(view, state) for view, state in states.items()),
        context=[line for one in changes for line in _hunk_report(one, list(states.values()))],
        fix=f"if it is written on the result of {others}, let it require that module"
        if others
        else "there is another file: rework the change against that one",
    )


def _seen(view: frozenset[str], state: State) -> str:
    place = f"as {', '.join(sorted(view))} leaves it" if view else "in the base"
    return f"{state.digest or 'no such file'} {place}"


def _hunk_report(change: Change, states: Sequence[State]) -> Iterator[str]:
    """Yield what a patch finds in the state that it fits best."""
    present = [state for state in states if state.digest is not None]
    if change.kind != "patch" or not present:
        return
    try:
        patch = Patch.parse(change.data)
    except PatchError as error:
        yield f"{change.file}: {error}"
        return
    misses = min((_mismatches(patch, state) for state in present), key=len)
    yield f"{change.file}: {len(patch.hunks) - len(misses)} of {len(patch.hunks)} hunks match"
    for miss in misses:
        yield from _describe(miss)


def _mismatches(patch: Patch, state: State) -> list[Mismatch]:
    return patch.mismatches([line.data for line in state.text.lines])


def collision(module: Module, target: Target, change: Change, met: Collision) -> Fault:
    """Say which module's edit another one meets."""
    if met.edit is None:
        found, apart = "one of the two changes the whole file", ""
    else:
        last = f"-{met.edit.end}" if met.edit.end > met.edit.start + 1 else ""
        found = f"hunk {met.edit.hunk}, line {met.edit.start + 1}{last}, meets what it does there"
        apart = ", or move the hunks apart"
    know = "" if met.other in module.requires else f"let {module.name} require {met.other}, and "
    return fault(
        module.name,
        f"collides with module {met.other} on {change.target} (/{target.path})",
        change,
        found=found,
        fix=f"{know}write it on the result of {met.other}{apart}",
    )


def patch_fault(module: Module, change: Change, error: PatchError, before: State) -> Fault:
    """Say why a patch whose preimage is there cannot be used."""
    what, _, fix = str(error).partition("; ")
    context: list[str] = []
    if change.kind == "patch" and before.digest is not None:
        try:
            misses = _mismatches(Patch.parse(change.data), before)
        except PatchError:
            misses = []
        context = [line for miss in misses for line in _describe(miss)]
    return fault(
        module.name,
        f"{change.file or change.target}: {what}",
        change,
        fix=fix or "make the patch again from the file with that preimage",
        context=context,
    )


def read_fault(
    module: Module, read: Read, found: Digest | None, changed_by: Sequence[str]
) -> Fault:
    """Say that a file a module relies on is another one."""
    state = "is missing" if found is None else "differs"
    by = f" (as module {', '.join(changed_by)} leaves it)" if changed_by else ""
    return fault(
        module.name,
        f"the file {read.target}, which it relies on, {state}",
        read,
        expected=_either(read.preimages),
        found=f"{found or 'no such file'}{by}",
        fix="see what changed in it; if the module still holds, add the new preimage",
    )


def _either(digests: Sequence[Digest]) -> str:
    return " or ".join(dict.fromkeys(str(one) for one in digests))


def _describe(miss: Mismatch) -> Iterator[str]:
    where = f"hunk {miss.hunk.number} {miss.hunk.header}"
    if miss.applied:
        yield f"{where}: the file already has this change"
        return
    if miss.expected is None:
        yield f"{where}: the file ends before line {miss.line}"
        return
    yield f"{where}: line {miss.line}"
    yield f"  expected {_quoted(miss.expected)}"
    yield f"  found    {_quoted(miss.found)}"


def _quoted(line: bytes | None) -> str:
    return "the end of the file" if line is None else repr(line.decode("utf-8", "replace"))
