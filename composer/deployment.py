"""`compose pin`, `compose rollback` and `compose pin --check`: releases into deploy files.

A pin writes nothing before the release's bytes are known to be had. A rollback goes by what was
recorded when it was pinned, and needs neither the project's modules nor its locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import availability, pushes, releases
from .deploys import Deploy, changing, deploy_of
from .errors import (
    CheckFailedError,
    ComposeError,
    Fault,
    InputError,
    IntegrityError,
    UnreachableError,
)
from .oci.digest import Digest
from .oci.layout import Layout
from .oci.reference import Reference
from .pinning.pinned import Pinned
from .pins import Entry, History
from .places import pins_path, release_path
from .project import Project
from .release import Release, is_name
from .text import nearest

if TYPE_CHECKING:
    from .comparing import Compared

__all__ = ["Checked", "Outcome", "Shown", "check", "pin", "rollback"]

Shown = Callable[["Compared"], None]
_Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was written. previous: what the file said before; the same as `value`: nothing was.

    pushed: the release was given to the registry again first.
    """

    deploy: str
    file: str
    release: str
    digest: str
    previous: str
    value: str
    pushed: bool = False

    @property
    def changed(self) -> bool:
        """The file says something else now."""
        return self.previous != self.value


@dataclass(frozen=True, slots=True)
class Checked:
    """A deploy file that was checked. release: the one in force; empty where there is none."""

    deploy: str
    file: str
    value: str
    release: str
    faults: tuple[Fault, ...]


def pin(project: Project, layout: Layout, name: str, release: str, say: _Say) -> Outcome:
    """Write a release into a deploy file.

    Raises:
        InputError: there is no such deploy file or release, or the place has no room for it.
        CheckFailedError: neither the store nor the registry has its bytes.
        UnreachableError: only the registry may have them, and does not answer.
        IntegrityError: the release, the store or the history is damaged.
    """
    deploy = deploy_of(project, name)
    with changing(deploy, say, dry_run=False) as now:
        made = _released(project, release)
        reference = _reference(project, made)
        _registry_lacks(project, layout, made, reference, ask=False, say=say)
        after = deploy.replaced(now.raw, _pinned(made, reference, deploy))
        value, previous, last = deploy.find(after).text, now.value.text, now.history.last
        if value != previous or last is None or (last.release, last.value) != (release, value):
            entry = Entry(
                action="pin",
                release=release,
                digest=made.result.digest,
                previous=previous,
                value=value,
                edited=now.history.edited(previous),
            )
            deploy.write(now.history, entry, after)
        for note in now.value.notes if value != previous else ():
            say(note)
        return Outcome(name, deploy.spec.file, release, made.result.digest, previous, value)


def rollback(
    project: Project,
    layout: Layout,
    name: str,
    *,
    to: str | None,
    dry_run: bool,
    show: Shown | None,
    say: _Say,
) -> Outcome:
    """Write what was pinned before into a deploy file, or the last pin of release `to`.

    show: is given what differs, before anything is written; None: nobody looks.

    Raises:
        InputError: there is no such deploy file, or nothing to go back to.
        CheckFailedError: neither the registry nor the store has the bytes any more.
        UnreachableError: the registry does not answer, and the store does not have them.
        IntegrityError: the store, the registry or the history is damaged.
    """
    deploy = deploy_of(project, name)
    with changing(deploy, say, dry_run=dry_run) as now:
        previous = now.value.text
        number = _goal(deploy, now.history, previous, to, say)
        goal = now.history.entries[number - 1]
        made = _released(project, goal.release)
        if made.result.digest != goal.digest:
            raise IntegrityError.of(
                f"release {made.name} is not what was pinned as entry {number}",
                where=pins_path(name),
                expected=goal.digest,
                found=made.result.digest,
            )
        reference = _recorded(goal.value) or _reference(project, made)
        after = deploy.replaced(now.raw, _pinned(made, reference, deploy))  # refused before a push
        setter = now.history.setter(previous)
        if show is not None and setter is not None:
            before = now.history.entries[setter - 1].release
            _show(project, before, made.name, show=show, say=say)
        again = _registry_lacks(project, layout, made, reference, ask=True, say=say)
        if again and not dry_run:
            reference = _push(project, layout, made, reference, say)
            after = deploy.replaced(now.raw, _pinned(made, reference, deploy))
        value = deploy.find(after).text
        if value != previous and not dry_run:
            entry = Entry(
                action="rollback",
                release=made.name,
                digest=goal.digest,
                previous=previous,
                value=value,
                to=number,
                edited=now.history.edited(previous),
            )
            deploy.write(now.history, entry, after)
        return Outcome(name, deploy.spec.file, made.name, goal.digest, previous, value, again)


def check(project: Project, names: Sequence[str]) -> list[Checked]:
    """Check deploy files, all of the project where none is named; nothing is asked or written.

    Raises:
        InputError: the project has none that is called so.
    """
    chosen = [deploy_of(project, name) for name in names or sorted(project.spec.deploy)]
    return [_checked(project, one) for one in chosen]


def _checked(project: Project, deploy: Deploy) -> Checked:
    value, release = "", ""
    faults: list[Fault] = []
    try:
        raw = deploy.read()
        value = deploy.find(raw).text
        history = deploy.history()
        release = history.last.release if history.last else ""
        faults += _faults(project, deploy, history, raw, value)
    except ComposeError as error:
        faults += error.faults
    return Checked(deploy.name, deploy.spec.file, value, release, tuple(faults))


def _faults(
    project: Project, deploy: Deploy, history: History, raw: bytes, value: str
) -> Iterable[Fault]:
    last, where = history.last, f"{deploy.spec.file}: {deploy.spec.at}"
    if last is None:
        yield _unpinned(deploy, value)
        return
    again = f"`compose pin {deploy.name} {last.release}`"
    if last.pending:
        rolled = f"`compose rollback {deploy.name} --to {last.release}`"
        yield Fault(
            what=f"a {last.action} of {last.release} was interrupted",
            where=pins_path(deploy.name),
            fix=f"run it again: {rolled if last.action == 'rollback' else again}",
        )
    elif value != last.value:
        yield Fault(
            what=f"{deploy.name} was edited by hand: it does not name release {last.release}",
            where=where,
            expected=last.value,
            found=value,
            fix=again,
        )
    made = _released(project, last.release)
    if made.result.digest != last.digest:
        yield Fault(
            what=f"release {last.release} is not what was pinned",
            where=release_path(last.release),
            expected=last.digest,
            found=made.result.digest,
        )
    elif not last.pending and value == last.value:
        reference = _recorded(value) or _reference(project, made)
        if deploy.replaced(raw, _pinned(made, reference, deploy)) != raw:
            yield Fault(
                what=f"the form of the pin of {deploy.name} is not {deploy.spec.form}",
                where=where,
                found=value,
                fix=again,
            )


def _released(project: Project, name: str) -> Release:
    found = releases.read(project.root, name) if is_name(name) else None
    if found is None:
        raise InputError.of(
            f"there is no release {name!r}",
            where=release_path(name),
            fix=nearest(name, known)
            if (known := releases.names(project.root))
            else "record one: `compose release IMAGE NAME`",
        )
    return found


def _recorded(value: str) -> Reference | None:
    """Return the repository and tag of a value that was pinned; None of an image id."""
    if value.startswith("sha256:"):
        return None
    return Reference.parse(value).with_digest(None)


def _unpinned(deploy: Deploy, value: str) -> Fault:
    return Fault(
        what=f"nothing was ever pinned to {deploy.name}",
        where=f"{deploy.spec.file}: {deploy.spec.at}",
        found=value,
        fix=f"`compose pin {deploy.name} RELEASE`",
    )


def _reference(project: Project, release: Release) -> Reference:
    """Return the repository to name, and the tag: where it was pushed, else where it would be."""
    named = project.repository(release.image)
    own = Reference.parse(named) if named is not None else None

    def rank(one: Reference) -> tuple[bool, ...]:
        return (
            own is None or one.repository != own.repository,
            one.tag != release.name,
            one.tag is None,
        )

    if known := pushes.references(project.root, release.result.digest):
        return min(known, key=rank)
    if own is None:
        raise InputError.of(
            f"image {release.image} has no repository to name",
            fix=f"give it one: repository = ... in [images.{release.image}]",
        )
    return own.with_tag(release.name)


def _pinned(release: Release, reference: Reference, deploy: Deploy) -> Pinned:
    image_id = None
    if deploy.spec.form == "image-id":
        configs = [one.config for one in release.result.platforms]
        if len(configs) != 1:
            raise InputError.of(
                f"release {release.name} has an image id for each of its platforms",
                where=f"[deploy.{deploy.name}]",
                found=", ".join(one.platform for one in release.result.platforms),
                fix='form = "digest" names all of them',
            )
        image_id = Digest.parse(configs[0])
    digest = Digest.parse(release.result.digest)
    return Pinned(reference.repository, reference.tag or release.name, digest, image_id)


def _registry_lacks(
    project: Project,
    layout: Layout,
    release: Release,
    reference: Reference,
    *,
    ask: bool,
    say: _Say,
) -> bool:
    """Tell whether the registry that a release was pushed to lost what the store still has.

    ask: it is asked even where the store has everything.

    Raises:
        CheckFailedError: neither has it. UnreachableError: the store has not, and the registry
            does not answer. IntegrityError: the store or the registry is damaged.
    """
    held = not releases.missing(layout, release)
    pushed = bool(pushes.references(project.root, release.result.digest))
    if held and not pushed:
        say(f"release {release.name} was not pushed yet: `compose push {release.name}`")
    if held and not (pushed and ask):
        return False
    found = f"not in the store {layout.root}"
    if pushed:
        try:
            gone = availability.absent(release, reference)
        except UnreachableError as error:
            if not held:
                raise
            say(f"{reference.repository} was not asked: {error.faults[0].what}")
            return False
        if not gone:
            return False
        if held:
            say(f"{reference.repository} lacks {gone[0]}; the store has it")
            return True
        found += f"; {reference.repository} lacks {gone[0]}"
    raise CheckFailedError.of(
        f"the bytes of release {release.name} are nowhere",
        where=release_path(release.name),
        found=found,
        fix=releases.remake(project.root, release),
    )


def _goal(deploy: Deploy, history: History, value: str, to: str | None, say: _Say) -> int:
    """Return the number of the pin to go back to."""
    if not history.entries:
        raise InputError(_unpinned(deploy, value))
    where = pins_path(deploy.name)
    if history.edited(value):
        say(f"{deploy.spec.file} was edited by hand: it says {value}")
    if to is not None:
        number = history.pinned(to)
        if number is None:
            known = [one.release for one in history.entries]
            raise InputError.of(
                f"release {to!r} was never pinned to {deploy.name}",
                where=where,
                fix=f"{nearest(to, known)}; a first time is `compose pin {deploy.name} {to}`",
            )
        return number
    setter = history.setter(value)
    if setter is None:
        # What a hand put there is above the stack: its top is what to go back to.
        return history.position(len(history.entries))
    number = history.before(setter)
    if number is None:
        first = history.entries[history.position(setter) - 1]
        raise InputError.of(
            f"nothing was pinned to {deploy.name} before release {first.release}",
            where=where,
            found=f"the file said {first.previous or 'nothing'}",
            fix=f"`compose pin {deploy.name} RELEASE` writes any other",
        )
    return number


def _show(project: Project, before: str, goal: str, *, show: Shown, say: _Say) -> None:
    """Give what differs between the release in force and the one to go back to."""
    from .comparing import compare_named

    try:
        compared = compare_named(
            project.root, f"release:{before}", f"release:{goal}", contents=False, back=True
        )
    except ComposeError as error:
        say(f"what differs cannot be said: {error.faults[0].what}")
        return
    show(compared)


def _push(
    project: Project, layout: Layout, release: Release, reference: Reference, say: _Say
) -> Reference:
    """Push a release again, byte for byte; return its repository and tag."""
    from .pushing import Delivery, push_release
    from .sources import registries

    tag = reference.tag or release.name
    digest = Digest.parse(release.result.digest)
    there = registries().source(reference).current(tag)
    if there not in (None, digest):  # it is another's now, and is not taken away
        tag = f"{release.name}-{digest.hex[:12]}"
    published = push_release(project, layout, release, Delivery(tag=tag, to=reference.repository))
    say(f"pushed again: {published.reference}")
    return published.reference.with_digest(None)
