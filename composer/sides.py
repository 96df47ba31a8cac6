"""What a person names on the command line -> a lock: a release, an image of the project, a file.

Each kind has a function that looks for a name and a word that may stand before it. A name that
fits two kinds is refused until it is said which one is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import releases
from .errors import InputError
from .lock import Lock, load, read_lock
from .places import lock_path
from .release import Release, is_name, load_release
from .text import nearest

__all__ = ["KINDS", "Side", "find"]


@dataclass(frozen=True, slots=True)
class Side:
    """One of two locks to compare. commit: where the modules' files are, if it is known."""

    name: str
    kind: str
    lock: Lock
    commit: str = ""
    retired: Callable[[], Collection[str]] = field(default=tuple, repr=False)


_Finder = Callable[[Path | None, str], Side | None]


def find(root: Path | None, text: str) -> Side:
    """Return what `text` names. root: the project's, where there is one.

    Raises:
        InputError: nothing is called so, or more than one thing.
        IntegrityError: it is damaged.
    """
    kind, colon, name = text.partition(":")
    if colon and kind in KINDS:
        found = [side] if (side := KINDS[kind](root, name)) else []
    else:
        found = [side for finder in KINDS.values() if (side := finder(root, text))]
    if not found:
        raise _unknown(root, text)
    if len(found) > 1:
        raise InputError.of(
            f"{text!r} is more than one thing",
            found=" and ".join(f"{one.kind} {text}" for one in found),
            fix=f"say which: {' or '.join(f'{one.kind}:{text}' for one in found)}",
        )
    return found[0]


def _release(root: Path | None, name: str) -> Side | None:
    if root is None or not is_name(name) or (release := releases.read(root, name)) is None:
        return None
    return _of_release(release, name, "release")


def _of_release(release: Release, name: str, kind: str) -> Side:
    origin = release.provenance
    return Side(name, kind, release.lock, origin.commit, lambda: origin.retired)


def _image(root: Path | None, name: str) -> Side | None:
    if root is None or not is_name(name) or (lock := read_lock(root, name)) is None:
        return None
    return Side(name, "image", lock, "", lambda: _retired(root, name))


def _file(root: Path | None, name: str) -> Side | None:
    if "/" not in name and not name.endswith((".lock", ".toml")):
        return None
    path = Path(name)
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise InputError.of(
            "the file cannot be read", where=name, found=error.strerror or str(error)
        ) from error
    if path.suffix == ".toml":
        return _of_release(load_release(raw, name, path.stem), name, "file")
    lock = load(raw, name)
    return Side(name, "file", lock, "", lambda: _retired(root, lock.image))


def _retired(root: Path | None, image: str) -> Collection[str]:
    from . import project  # noqa: PLC0415 - only where a module is gone

    return project.load(root).retired(image) if root is not None else ()


KINDS: Mapping[str, _Finder] = {"release": _release, "image": _image, "file": _file}


def _unknown(root: Path | None, text: str) -> InputError:
    known: list[str] = []
    if root is not None:
        from . import project  # noqa: PLC0415 - only where nothing was found

        images = project.load(root).images
        if text.removeprefix("image:") in images:
            image = text.removeprefix("image:")
            return InputError.of(
                f"image {image} has no lock yet",
                where=lock_path(image),
                fix=f"run `compose lock {image}`",
            )
        known = [*releases.names(root), *images]
    return InputError.of(
        f"nothing is called {text!r}",
        expected="a release, an image of the project, or the path of a lock or a release",
        fix=nearest(text, known),
    )
