"""One file of a base and what modules make of it, seen by any set of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .oci.digest import Digest, sha256
from .oci.filetree import Entry
from .patch import PatchError, split_lines
from .stack import Step, Text

__all__ = ["ABSENT", "State", "Target", "place"]


@dataclass(slots=True)
class State:
    """A file at one point; `digest` None: it is not there. Text only when somebody needs it."""

    digest: Digest | None
    load: Callable[[], bytes]
    _text: Text | None = None

    @property
    def text(self) -> Text:
        if self._text is None:
            self._text = Text.of(split_lines(self.load()))
        return self._text


ABSENT = State(None, bytes)


@dataclass(slots=True)
class Target:
    """One file and what modules do to it. Views are named by the modules they have seen."""

    path: str
    entry: Entry | None  # of the base's file, as long as it is that one
    base: State
    # module -> its step on a view, or the state it leaves whatever was there
    steps: dict[str, Step | State] = field(default_factory=dict)
    seen: dict[str, frozenset[str]] = field(default_factory=dict)
    # module whose change of this file is refused -> the preimages that it names
    broken: dict[str, frozenset[Digest]] = field(default_factory=dict)
    _states: dict[frozenset[str], State] = field(default_factory=dict)

    def state(self, names: frozenset[str]) -> State:
        """Return the file as exactly these modules leave it."""
        if names not in self._states:
            self._states[names] = self._replay(names)
        return self._states[names]

    def add(self, module: str, step: Step | State, seen: frozenset[str], after: State) -> None:
        """Keep what a module does, from the view `seen`, and the file as it stands after it."""
        self.steps[module] = step
        self.seen[module] = seen
        if step is ABSENT:
            self.entry = None  # what takes the place later has no header to carry over
        self._states[frozenset(self.steps)] = after

    def _replay(self, names: frozenset[str]) -> State:
        state = self.base
        for name, step in self.steps.items():
            if name in names:
                state = step if isinstance(step, State) else patched(state.text.apply(step))
        return state

    @property
    def current(self) -> State:
        return self.state(frozenset(self.steps))

    def views(self, required: frozenset[str]) -> Iterator[frozenset[str]]:
        """Yield what a module with these transitive requirements may be written against.

        Each view once; the last one has seen the most.
        """
        known = [name for name in self.steps if name in required]
        results = (self.seen[name] | {name} for name in known)
        yield from dict.fromkeys([frozenset(), *results, frozenset(known)])


def patched(text: Text) -> State:
    return State(sha256(text.data), lambda: text.data, text)


def place(current: State, step: Step) -> State:
    after = patched(current.text.apply(step))
    if any(not line.data.endswith(b"\n") for line in after.text.lines[:-1]):
        raise PatchError("the result has a line without its end in the middle of the file")
    return after
