"""Deploy files and their pins on disk, changed together: killed anywhere, the next run settles it.

Three writes, each whole or not at all: the entry as pending, the deploy file, the entry as done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from .errors import InputError
from .oci.layout import atomic_write, exclusive
from .pinning.pin import Value, find, replace
from .pinning.pinned import Pinned
from .pins import Entry, History, dump_history, load_history
from .places import FILE, PINS, pins_path
from .project import Project
from .spec import DeploySpec
from .text import nearest
from .tomlfile import read_bytes

__all__ = ["Deploy", "Standing", "changing", "deploy_of"]


@dataclass(frozen=True, slots=True)
class Deploy:
    """A `[deploy.NAME]` of a project."""

    root: Path
    name: str
    spec: DeploySpec

    def read(self) -> bytes:
        """Return the file.

        Raises:
            InputError: it is not there, or cannot be read.
        """
        try:
            return (self.root / self.spec.file).read_bytes()
        except OSError as error:
            raise InputError.of(
                f"the deploy file of {self.name} cannot be read",
                where=self.spec.file,
                found=error.strerror or str(error),
                fix=f"'file' of [deploy.{self.name}] in {FILE} says where it is",
            ) from error

    def find(self, raw: bytes) -> Value:
        """Return the image that the file names.

        Raises:
            InputError: the file is wrong, or the place is not there or not unique.
        """
        return find(raw, self.spec.kind, self.spec.at, self.spec.file)

    def replaced(self, raw: bytes, new: Pinned) -> bytes:
        """Return the file with another image.

        Raises:
            InputError, IntegrityError: see `composer.pinning.pin.replace`.
        """
        spec = self.spec
        return replace(raw, spec.kind, spec.at, new, form=spec.form, shown=spec.file)

    def history(self) -> History:
        """Return its pins; none where nothing was pinned yet.

        Raises:
            InputError: they cannot be read. IntegrityError: they were damaged, or changed by hand.
        """
        shown = pins_path(self.name)
        raw = read_bytes(self.root, shown)
        return load_history(raw, shown) if raw is not None else History()

    def record(self, history: History) -> None:
        """Write its pins.

        Raises:
            UnreachableError: they cannot be written.
        """
        atomic_write(self.root / pins_path(self.name), dump_history(history))

    def write(self, history: History, entry: Entry, raw: bytes) -> None:
        """Write a file with the entry that says so; `changing` has to be held.

        Raises:
            UnreachableError: one of them cannot be written.
        """
        pending = history.adding(entry.model_copy(update={"pending": True}))
        self.record(pending)
        atomic_write(self.root / self.spec.file, raw)
        self.record(pending.finished())


def deploy_of(project: Project, name: str) -> Deploy:
    """Return a deploy file of the project.

    Raises:
        InputError: it has none that is called so.
    """
    known = project.spec.deploy
    if name not in known:
        raise InputError.of(
            f"there is no deploy file {name!r}",
            where=FILE,
            fix=nearest(name, sorted(known)) if known else f"describe it: [deploy.{name}]",
        )
    return Deploy(project.root, name, known[name])


@dataclass(frozen=True, slots=True)
class Standing:
    """What a deploy file says, and the history of it with nothing pending."""

    raw: bytes
    value: Value
    history: History


@contextmanager
def changing(deploy: Deploy, say: Callable[[str], None], *, dry_run: bool) -> Iterator[Standing]:
    """Keep other pins of the project out, and settle what a killed one left.

    dry_run: nothing is going to be written, and here nothing is.

    Raises:
        InputError: the file is wrong, or cannot be read. IntegrityError: see `Deploy.history`.
        UnreachableError: the history cannot be written.
    """
    with nullcontext() if dry_run else exclusive(deploy.root / PINS):
        raw = deploy.read()
        value = deploy.find(raw)
        history, remark = deploy.history().settled(value.text)
        if remark:
            say(remark)
            if not dry_run:
                deploy.record(history)
        yield Standing(raw, value, history)
