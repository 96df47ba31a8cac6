"""A project on disk: `images.toml` and `modules/` -> definitions of images, ready to plan.

All reading of the project's files happens here. A file is read once, and the bytes that were
read are the bytes that are used; their sha256 is kept for the unchanged path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .errors import ComposeError, Fault, InputError, raise_all
from .module import Change, Knob, Module, Read, in_order
from .oci.digest import Digest
from .places import FILE
from .spec import (
    BaseSpec,
    ImagesFile,
    ImageSpec,
    ModuleFile,
    PatchSpec,
    ReadSpec,
    RemoveSpec,
    ReplaceSpec,
)
from .text import nearest
from .tomlfile import Location, TomlFile, parse, validate

__all__ = ["ImageDefinition", "Project", "load"]


@dataclass(frozen=True, slots=True)
class ImageDefinition:
    """One image with everything that `extends` brings, its modules loaded and in order."""

    name: str
    base_name: str
    base: BaseSpec
    modules: Sequence[Module]
    retired: tuple[str, ...]
    repository: str | None
    knobs: Mapping[str, str]
    env: Mapping[str, str]
    labels: Mapping[str, str]
    entrypoint: tuple[str, ...] | None
    cmd: tuple[str, ...] | None
    workdir: str | None
    cache_namespace: bool
    inputs: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Project:
    """A project whose `images.toml` is sound; modules are read when an image needs them."""

    root: Path
    file: TomlFile
    spec: ImagesFile
    digest: str
    _modules: dict[str, Module] = field(default_factory=dict, repr=False)

    @property
    def images(self) -> Sequence[str]:
        """The names of the images, sorted."""
        return sorted(self.spec.images)

    def image(self, name: str) -> ImageDefinition:
        """Return an image's definition.

        Raises:
            InputError: no such image, or faults in its modules, all of them.
        """
        if name not in self.spec.images:
            raise InputError.of(
                f"there is no image {name!r}", where=FILE, fix=nearest(name, self.images)
            )
        chain = self._chain(name)
        specs = [spec for _, spec in chain]
        listed: dict[str, str] = {}  # module -> the image of the chain that lists it
        for one, spec in chain:
            for module in spec.modules:
                listed.setdefault(module, one)
        modules, faults = self._load_modules(listed)
        raise_all(faults)
        ordered, order_faults = in_order(modules, name)
        declaring = [modules[one] for one in sorted(modules)]
        raise_all([*order_faults, *_knob_faults(self.file, declaring, chain)])
        return self._definition(name, specs, ordered)

    def retired(self, name: str) -> tuple[str, ...]:
        """Return the modules of earlier releases of an image that are gone on purpose, sorted."""
        chain = self._chain(name) if name in self.spec.images else []
        return _retired(spec for _, spec in chain)

    def repository(self, name: str) -> str | None:
        """Return where an image is pushed to, without reading its modules; None: nowhere."""
        chain = self._chain(name) if name in self.spec.images else []
        found: str | None = _last([spec for _, spec in chain], "repository") if chain else None
        return found

    def _definition(
        self, name: str, chain: Sequence[ImageSpec], modules: Sequence[Module]
    ) -> ImageDefinition:
        base_name = _last(chain, "base")
        entrypoint, cmd = _command(chain)
        inputs = {FILE: self.digest}
        for module in modules:
            inputs.update(module.inputs)
        return ImageDefinition(
            name=name,
            base_name=base_name,
            base=self.spec.bases[base_name],
            modules=modules,
            retired=_retired(chain),
            repository=_last(chain, "repository"),
            knobs=_merged(spec.knobs for spec in chain),
            env=_merged(spec.env for spec in chain),
            labels=_merged(spec.labels for spec in chain),
            entrypoint=entrypoint,
            cmd=cmd,
            workdir=_last(chain, "workdir"),
            cache_namespace=bool(_last(chain, "cache_namespace")),
            inputs=inputs,
        )

    def _chain(self, name: str) -> list[tuple[str, ImageSpec]]:
        """Return the image's ancestors, the oldest first, itself last."""
        chain: list[tuple[str, ImageSpec]] = []
        step: str | None = name
        while step is not None:
            chain.append((step, self.spec.images[step]))
            step = self.spec.images[step].extends
        return chain[::-1]

    def _load_modules(self, listed: Mapping[str, str]) -> tuple[dict[str, Module], list[Fault]]:
        modules: dict[str, Module] = {}
        faults: list[Fault] = []
        for name, image in listed.items():
            try:
                modules[name] = self.module(name, needed_by=image)
            except ComposeError as error:
                faults += error.faults
        return modules, faults

    def on(self, base: str, image: str) -> Project:
        """Return the same project with another image as its base `base`."""
        changed = self.spec.bases[base].model_copy(update={"image": image})
        bases = {**self.spec.bases, base: changed}
        return replace(self, spec=self.spec.model_copy(update={"bases": bases}))

    def module(self, name: str, *, needed_by: str = "") -> Module:
        """Return a module.

        Raises:
            InputError: there is none of that name, or all the faults of its files.
        """
        if name not in self._modules:
            self._modules[name] = self._read_module(name, needed_by)
        return self._modules[name]

    def module_names(self) -> Sequence[str]:
        """Return the names of all module folders, sorted."""
        return sorted(path.parent.name for path in self.root.glob("modules/*/module.toml"))

    def _read_module(self, name: str, needed_by: str) -> Module:
        shown = f"modules/{name}/module.toml"
        try:
            raw = (self.root / shown).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError.of(
                f"there is no module {name!r}",
                where=self.file.at(("images", needed_by, "modules")) if needed_by else shown,
                expected=shown,
                fix=nearest(name, self.module_names()),
            ) from error
        except OSError as error:
            raise _unreadable(shown, error) from error
        return _ModuleReader(self.root, parse(raw, shown), name, raw).read()


def _command(
    chain: Sequence[ImageSpec],
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return entrypoint and cmd: a new entrypoint clears the cmd it was not written for."""
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    for spec in chain:
        if spec.entrypoint is not None:
            entrypoint, cmd = spec.entrypoint, None
        if spec.cmd is not None:
            cmd = spec.cmd
    return entrypoint, cmd


def _retired(chain: Iterable[ImageSpec]) -> tuple[str, ...]:
    return tuple(sorted({one for spec in chain for one in spec.retired}))


def _last(chain: Sequence[ImageSpec], key: str) -> Any:
    """Return the setting of the youngest image of a chain that has it."""
    values = (getattr(spec, key) for spec in reversed(chain))
    return next((value for value in values if value is not None), None)


def _merged(maps: Iterable[Mapping[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for one in maps:
        merged.update(one)
    return dict(sorted(merged.items()))


def _unreadable(shown: str, error: OSError) -> InputError:
    return InputError.of("the file cannot be read", where=shown, found=error.strerror or str(error))


class _ModuleReader:
    """Reads one module's files, collecting faults."""

    def __init__(self, root: Path, file: TomlFile, name: str, raw: bytes) -> None:
        self.folder = root / "modules" / name
        self.file = file
        self.name = name
        self.inputs = {file.shown: hashlib.sha256(raw).hexdigest()}
        self.faults: list[Fault] = []

    def read(self) -> Module:
        spec = validate(self.file, ModuleFile)
        for place, message in spec.checks():
            self._fault(place, message)
        if spec.name != self.name:
            self._fault(("name",), f"the folder is named {self.name!r}; use one name for both")
        if spec.python is not None:
            self._fault(("python",), "this version does not install a module's Python packages")
        changes = tuple(self._changes(spec))
        raise_all(self.faults)
        return Module(
            name=self.name,
            requires=tuple(sorted(set(spec.requires))),
            conflicts=tuple(sorted(set(spec.conflicts))),
            changes=changes,
            reads=tuple(self._reads(spec.read)),
            knobs=tuple(
                Knob(one.name, one.values, one.default, self.file.at(("knob", number, "name")))
                for number, one in enumerate(spec.knob)
            ),
            place=self.file.at(("name",)),
            inputs=self.inputs,
        )

    def _changes(self, spec: ModuleFile) -> Iterator[Change]:
        for number, patch in enumerate(spec.patch):
            yield Change("patch", *self._content(patch, ("patch", number)))
        for number, whole in enumerate(spec.replace):
            yield Change("replace", *self._content(whole, ("replace", number)))
        for number, add in enumerate(spec.add):
            location: Location = ("add", number)
            data = self._file(add.file, location)
            yield Change("add", add.target, add.file, data, (), self.file.at(location))
        for number, remove in enumerate(spec.remove):
            where = self.file.at(("remove", number))
            yield Change("remove", remove.target, "", b"", _digests(remove), where)

    def _content(
        self, one: PatchSpec | ReplaceSpec, location: Location
    ) -> tuple[str, str, bytes, tuple[Digest, ...], str]:
        data = self._file(one.file, location)
        return one.target, one.file, data, _digests(one), self.file.at(location)

    def _reads(self, reads: Iterable[ReadSpec]) -> Iterator[Read]:
        for number, read in enumerate(reads):
            yield Read(read.target, _digests(read), self.file.at(("read", number)))

    def _file(self, name: str, location: Location) -> bytes:
        path = self.folder / name
        try:
            data = path.read_bytes()
        except OSError as error:
            self._fault(
                (*location, "file"),
                f"the file {name} cannot be read: {error.strerror or error}; put it into"
                f" modules/{self.name}, or correct its name",
            )
            return b""
        self.inputs[f"modules/{self.name}/{name}"] = hashlib.sha256(data).hexdigest()
        return data

    def _fault(self, location: Location, message: str) -> None:
        what, _, fix = message.partition("; ")
        self.faults.append(Fault(what=what, where=self.file.at(location), fix=fix))


def _digests(one: PatchSpec | ReplaceSpec | RemoveSpec | ReadSpec) -> tuple[Digest, ...]:
    return tuple(Digest.parse(text) for text in one.preimage)


def _knob_faults(
    file: TomlFile, modules: Sequence[Module], chain: Sequence[tuple[str, ImageSpec]]
) -> Iterator[Fault]:
    declared: dict[str, tuple[str, Knob]] = {}
    for module in modules:
        for knob in module.knobs:
            first, _ = declared.setdefault(knob.name, (module.name, knob))
            if first != module.name:
                yield Fault(
                    what=f"knob {knob.name} is declared by {first} and by {module.name}",
                    where=knob.place,
                    fix="one module declares a knob; others that need it require that module",
                )
    knobs = {name: knob for name, (_, knob) in declared.items()}
    for name, spec in chain:
        yield from _setting_faults(file, name, spec, knobs)


def _setting_faults(
    file: TomlFile, image: str, spec: ImageSpec, knobs: Mapping[str, Knob]
) -> Iterator[Fault]:
    for name, value in spec.knobs.items():
        where = file.at(("images", image, "knobs", name))
        if name not in knobs:
            what = f"no module of the image declares the knob {name}"
            yield Fault(what=what, where=where, fix=nearest(name, sorted(knobs)))
        elif value not in knobs[name].values:
            yield Fault(
                what=f"knob {name} does not take {value!r}",
                where=where,
                expected=" or ".join(knobs[name].values),
                found=value,
                fix=f"its values are declared at {knobs[name].place}",
            )
    for name in sorted(spec.env.keys() & knobs.keys()):
        yield Fault(
            what=f"{name} is a knob, set as a plain variable",
            where=file.at(("images", image, "env", name)),
            fix=f"write it under knobs: knobs = {{ {name} = ... }}",
        )


def load(root: Path) -> Project:
    """Read and check `images.toml`.

    Raises:
        InputError: it cannot be read, or has faults: all of them.
    """
    try:
        raw = (root / FILE).read_bytes()
    except OSError as error:
        raise _unreadable(str(root / FILE), error) from error
    file = parse(raw, FILE)
    spec = validate(file, ImagesFile)
    raise_all(_reference_faults(file, spec))
    return Project(root, file, spec, hashlib.sha256(raw).hexdigest())


def _reference_faults(file: TomlFile, spec: ImagesFile) -> Iterator[Fault]:
    for name, image in spec.images.items():
        for key, known in (("base", spec.bases), ("extends", spec.images)):
            value = getattr(image, key)
            if value is not None and value not in known:
                yield Fault(
                    what=f"there is no {'base' if key == 'base' else 'image'} {value!r}",
                    where=file.at(("images", name, key)),
                    fix=nearest(value, sorted(known)),
                )
        if cycle := _extends_cycle(spec, name):
            yield Fault(
                what="images extend each other in a circle",
                where=file.at(("images", name, "extends")),
                found=" -> ".join(cycle),
            )
        yield from _module_list_faults(file, spec, name)


def _extends_cycle(spec: ImagesFile, name: str) -> list[str]:
    seen = [name]
    while (parent := spec.images[seen[-1]].extends) in spec.images:
        if parent == name:
            return [*seen, name]
        if parent is None or parent in seen:
            break
        seen.append(parent)
    return []


def _module_list_faults(file: TomlFile, spec: ImagesFile, name: str) -> Iterator[Fault]:
    image = spec.images[name]
    where = file.at(("images", name, "modules"))
    for module in sorted(set(image.modules)):
        if image.modules.count(module) > 1:
            yield Fault(what=f"module {module!r} is listed twice", where=where)
    for module in sorted(set(image.retired) & _all_modules(spec, name)):
        yield Fault(
            what=f"module {module!r} is both in the image and retired",
            where=file.at(("images", name, "retired")),
            fix="'retired' names modules that are gone from the image on purpose",
        )


def _all_modules(spec: ImagesFile, name: str) -> set[str]:
    """Return what an image lists and inherits, as far as its ancestors are known."""
    modules: set[str] = set()
    seen: set[str] = set()
    step: str | None = name
    while step in spec.images and step not in seen:
        seen.add(step)
        modules.update(spec.images[step].modules)
        step = spec.images[step].extends
    return modules
