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
    with changing(deploy, say) as (history, raw):
        made = _released(project, release)
        reference = _reference(project, made)
        _require(project, layout, made, reference, say)
        after = deploy.replaced(raw, _pinned(made, reference, deploy))
        value, previous = deploy.value(after), deploy.value(raw)
        last = history.last
        if value != previous or last is None or (last.release, last.value) != (release, value):
            entry = Entry(
                action="pin",
                release=release,
                digest=made.result.digest,
                previous=previous,
                value=value,
                edited=history.edited(previous),
            )
            deploy.write(history, entry, after)
        for note in deploy.notes(raw) if value != previous else ():
            say(note)
        return Outcome(name, deploy.spec.file, release, made.result.digest, previous, value)


def rollback(
    project: Project,
    layout: Layout,
    name: str,
    *,
    to: str | None,
    dry_run: bool,
    show: Shown,
    say: _Say,
) -> Outcome:
    """Write what was pinned before into a deploy file, or the last pin of release `to`.

    show: is given what differs, before anything is written.

    Raises:
        InputError: there is no such deploy file, or nothing to go back to.
        CheckFailedError: neither the registry nor the store has the bytes any more.
        UnreachableError: the registry does not answer, and the store has them not.
        IntegrityError: the store, the registry or the history is damaged.
    """
    deploy = deploy_of(project, name)
    with changing(deploy, say) as (history, raw):
        previous = deploy.value(raw)
        number = _goal(deploy, history, previous, to, say)
        goal = history.entries[number - 1]
        made = _released(project, goal.release)
        if made.result.digest != goal.digest:
            raise IntegrityError.of(
                f"release {made.name} is not what was pinned as entry {number}",
                where=pins_path(name),
                expected=goal.digest,
                found=made.result.digest,
            )
        reference = _recorded(goal.value) or _reference(project, made)
        new = _pinned(made, reference, deploy)
        after = deploy.replaced(raw, new)
        value = deploy.value(after)
        if setter := history.setter(previous):
            _show(project, history.entries[setter - 1].release, made.name, show=show, say=say)
        again = _again(project, layout, made, reference, say)
        if not dry_run:
            if again:
                reference = _push(project, layout, made, reference, say)
                after = deploy.replaced(raw, _pinned(made, reference, deploy))
                value = deploy.value(after)
            if value != previous:
                entry = Entry(
                    action="rollback",
                    release=made.name,
                    digest=goal.digest,
                    previous=previous,
                    value=value,
                    to=number,
                    edited=history.edited(previous),
                )
                deploy.write(history, entry, after)
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
        value = deploy.value(raw)
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
        yield Fault(
            what=f"nothing was ever pinned to {deploy.name}",
            where=where,
            found=value,
            fix=f"`compose pin {deploy.name} RELEASE`",
        )
        return
    again = f"`compose pin {deploy.name} {last.release}`"
    if last.pending:
        yield Fault(
            what=f"a {last.action} of {last.release} was interrupted",
            where=pins_path(deploy.name),
            fix=f"run it again: {again}",
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


def _reference(project: Project, release: Release) -> Reference:
    """Return the repository to name, and the tag: where it was pushed, else where it would be."""
    own = project.repository(release.image)
    known = pushes.references(project.root, release.result.digest)
    there = [one for one in known if own is not None and one.repository == _plain(own)] or known
    named = [one for one in there if one.tag == release.name] or [one for one in there if one.tag]
    if named or there:
        return (named or there)[0]
    if own is None:
        raise InputError.of(
            f"image {release.image} has no repository to name",
            fix=f"give it one: repository = ... in [images.{release.image}]",
        )
    return Reference.parse(own).with_tag(release.name)


def _plain(repository: str) -> str:
    return Reference.parse(repository).repository


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


def _require(
    project: Project, layout: Layout, release: Release, reference: Reference, say: _Say
) -> None:
    """Check that the bytes of a release can be had."""
    pushed = pushes.references(project.root, release.result.digest)
    if availability.held(layout, release):
        if not pushed:
            say(f"it was not pushed yet: `compose push {release.name}`")
        return
    found = f"not in the store {layout.root}"
    if pushed:
        gone = availability.absent(release, reference)
        if not gone:
            return
        found += f"; {reference.repository} lacks {gone[0]}"
    raise CheckFailedError.of(
        f"the bytes of release {release.name} are nowhere",
        where=release_path(release.name),
        found=found,
        fix=releases.remake(project.root, release),
    )


def _goal(deploy: Deploy, history: History, value: str, to: str | None, say: _Say) -> int:
    """Return the number of the pin to go back to."""
    where = pins_path(deploy.name)
    setter = len(history.entries) if not history.edited(value) else history.setter(value)
    if history.edited(value):
        say(f"{deploy.spec.file} was edited by hand: it says {value}")
    if not history.entries:
        raise InputError.of(
            f"nothing was ever pinned to {deploy.name}",
            where=where,
            found=value,
            fix=f"`compose pin {deploy.name} RELEASE`",
        )
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


def _again(
    project: Project, layout: Layout, release: Release, reference: Reference, say: _Say
) -> bool:
    """Tell whether a release has to be pushed again, to be had at all.

    Raises:
        CheckFailedError, UnreachableError: it can be had nowhere.
    """
    held = availability.held(layout, release)
    if not pushes.references(project.root, release.result.digest):
        if not held:
            _require(project, layout, release, reference, say)
        return False
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
    raise CheckFailedError.of(
        f"the bytes of release {release.name} are nowhere",
        where=release_path(release.name),
        found=f"not in the store {layout.root}; {reference.repository} lacks {gone[0]}",
        fix=releases.remake(project.root, release),
    )


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
