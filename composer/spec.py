"""The files a person writes: `images.toml` and `modules/<name>/module.toml`.

These models check one file each and nothing between files; `composer.project` puts them
together. Every message has the form "what is wrong; what to do".
"""

from __future__ import annotations

import posixpath
import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    model_validator,
)

from .oci.digest import Digest
from .oci.platform import Platform
from .oci.reference import Reference
from .pinning.place import Kind, Place

__all__ = [
    "AddSpec",
    "BaseSpec",
    "DeploySpec",
    "EffectSpec",
    "ExperimentSpec",
    "GateSpec",
    "ImageSpec",
    "ImagesFile",
    "KnobSpec",
    "MarkerSpec",
    "ModuleFile",
    "PatchSpec",
    "PythonSpec",
    "ReadSpec",
    "RemoveSpec",
    "ReplaceSpec",
]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?\Z")
_VERSION = re.compile(r"\d+\.\d+\Z")


def _name(text: str) -> str:
    if not _NAME.match(text):
        raise ValueError("a name has lower-case letters and digits, with '-', '_' or '.' inside")
    return text


def _env_name(text: str) -> str:
    if not _ENV_NAME.match(text):
        raise ValueError("not the name of an environment variable")
    return text


def _version(text: str) -> str:
    if not _VERSION.match(text):
        raise ValueError("not a version of the form 3.12")
    return text


def _platform(text: str) -> str:
    return str(Platform.parse(text))


def _preimage(text: str) -> str:
    digest = Digest.parse(text)
    if digest.algorithm != "sha256":
        raise ValueError("a preimage is a sha256 digest")
    return str(digest)


def _target(text: str) -> str:
    if not text.strip("/") or text.endswith("/"):
        raise ValueError("a target is the path of a file")
    if _CONTROL.search(text):
        raise ValueError("a target has no control characters")
    if ".." in text.split("/"):
        raise ValueError("a target may not leave its root; write it without '..'")
    return text


def _inside(text: str) -> str:
    return _relative(text, "a file of the module", "the module's folder")


def _deploy_file(text: str) -> str:
    return _relative(text, "a deploy file", "the directory of images.toml")


def _relative(text: str, what: str, folder: str) -> str:
    if text.startswith("/") or ".." in text.split("/") or posixpath.normpath(text) == ".":
        raise ValueError(f"{what} is named relative to {folder}, and lies below it")
    if _CONTROL.search(text):
        raise ValueError(f"{what} has no control characters in its name")
    return text


def _absolute(text: str) -> str:
    if not text.startswith("/") or ".." in text.split("/"):
        raise ValueError("not an absolute path of the image")
    return posixpath.normpath("/" + text.lstrip("/"))  # "//" at the start would be kept


def _label(text: str) -> str:
    if text.startswith(("dev.compose.", "org.opencontainers.image.base.")):
        raise ValueError("compose sets this label itself; choose another name")
    return text


def _repository(text: str) -> str:
    reference = Reference.parse(text)
    if reference.tag is not None or reference.digest is not None:
        raise ValueError("a repository has no tag and no digest")
    return reference.repository


def _some(items: tuple[Any, ...]) -> tuple[Any, ...]:
    if not items:
        raise ValueError("the list is empty")
    return items


Name = Annotated[str, AfterValidator(_name)]
EnvName = Annotated[str, AfterValidator(_env_name)]
Label = Annotated[str, AfterValidator(_label)]
Version = Annotated[str, AfterValidator(_version)]
PlatformText = Annotated[str, AfterValidator(_platform)]
# Not min_length, which also complains of a list whose only item is wrong.
_SOME = Field(json_schema_extra={"minItems": 1})
Preimages = Annotated[
    tuple[Annotated[str, AfterValidator(_preimage)], ...], AfterValidator(_some), _SOME
]
TargetText = Annotated[str, AfterValidator(_target)]
Inside = Annotated[str, AfterValidator(_inside)]
Absolute = Annotated[str, AfterValidator(_absolute)]
Arm = dict[EnvName, str]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BaseSpec(_Document):
    """`[bases.NAME]`: an image, wheels, or wheels on an image."""

    image: str | None = None
    wheels: tuple[str, ...] = ()
    platforms: tuple[PlatformText, ...] = ()
    python: Version | None = None
    package_root: Absolute | None = None
    interpreter: Absolute | None = None
    glibc: Version | None = None

    @model_validator(mode="after")
    def _complete(self) -> BaseSpec:
        if self.image is None and not self.wheels:
            raise ValueError("a base needs 'image' or 'wheels'")
        if self.image is None:
            for key in ("platforms", "python", "package_root"):
                if not getattr(self, key):
                    raise ValueError(f"a base of wheels needs {key!r}; no image says it")
        if len(set(self.platforms)) != len(self.platforms):
            raise ValueError("a platform is listed twice")
        return self


class ImageSpec(_Document):
    """`[images.NAME]`. What `extends` names is inherited; see `composer.project`."""

    base: str | None = None
    extends: str | None = None
    modules: tuple[Name, ...] = ()
    retired: tuple[Name, ...] = ()
    repository: Annotated[str, AfterValidator(_repository)] | None = None
    knobs: dict[EnvName, str] = {}
    env: dict[EnvName, str] = {}
    labels: dict[Label, str] = {}
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    workdir: Absolute | None = None
    cache_namespace: StrictBool | None = None

    @model_validator(mode="after")
    def _complete(self) -> ImageSpec:
        if self.base is None and self.extends is None:
            raise ValueError("an image needs 'base' or 'extends'")
        return self


class DeploySpec(_Document):
    """`[deploy.NAME]`: where a release's digest is written."""

    file: Annotated[str, AfterValidator(_deploy_file)]
    kind: Kind
    at: str
    form: Literal["tag+digest", "digest", "image-id"] = "tag+digest"

    @model_validator(mode="after")
    def _place(self) -> DeploySpec:
        Place.parse(self.kind, self.at)
        return self


class ImagesFile(_Document):
    """`images.toml`."""

    schema_: Literal[1] = Field(alias="schema")
    bases: dict[Name, BaseSpec] = {}
    images: dict[Name, ImageSpec] = {}
    deploy: dict[Name, DeploySpec] = {}


class PatchSpec(_Document):
    """`[[patch]]`: a unified diff of one file, applied exactly."""

    target: TargetText
    file: Inside
    preimage: Preimages


class AddSpec(_Document):
    """`[[add]]`: a file that the image does not have yet."""

    target: TargetText
    file: Inside


class ReplaceSpec(_Document):
    """`[[replace]]`: a whole file; the last resort."""

    target: TargetText
    file: Inside
    preimage: Preimages


class RemoveSpec(_Document):
    """`[[remove]]`: a file that is gone."""

    target: TargetText
    preimage: Preimages


class ReadSpec(_Document):
    """`[[read]]`: a file the module relies on and does not change."""

    target: TargetText
    preimage: Preimages


class KnobSpec(_Document):
    """`[[knob]]`: an environment variable with its allowed values."""

    name: EnvName
    values: Annotated[tuple[str, ...], AfterValidator(_some), _SOME]
    default: str
    summary: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> KnobSpec:
        if len(set(self.values)) != len(self.values):
            raise ValueError(f"knob {self.name} lists a value twice")
        if self.default not in self.values:
            raise ValueError(f"knob {self.name}: the default {self.default!r} is not in 'values'")
        return self


class MarkerSpec(_Document):
    """`[[marker]]`: fixed strings that the boot log must and must not show."""

    when: Arm = {}
    process: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    disarm: tuple[str, ...] = ()


class EffectSpec(_Document):
    """`[effect]`: a script that prints observations, and the arms it runs in."""

    script: Inside
    arms: tuple[Arm, ...] = ()
    default: Literal["inert", "active"] = "inert"


class PythonSpec(_Document):
    """`[python]`: Python packages the module brings."""

    requirements: Inside


class GateSpec(_Document):
    """A bound on one metric of an experiment, absolute or against the control arm."""

    metric: str
    at_least: StrictFloat | None = None
    at_most: StrictFloat | None = None
    within_percent: Annotated[StrictFloat, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _bounded(self) -> GateSpec:
        if self.at_least is None and self.at_most is None and self.within_percent is None:
            raise ValueError("a gate needs 'at_least', 'at_most' or 'within_percent'")
        return self


class ExperimentSpec(_Document):
    """`[[experiment]]`: what must be measured before a module may be relied on."""

    hypothesis: str
    arms: dict[Name, Arm]
    gates: Annotated[tuple[GateSpec, ...], AfterValidator(_some), _SOME]
    bracket: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> ExperimentSpec:
        for arm in self.bracket:
            if arm not in self.arms:
                raise ValueError(f"the bracket names {arm!r}, which is not an arm")
        return self


class ModuleFile(_Document):
    """`module.toml`."""

    schema_: Literal[1] = Field(alias="schema")
    name: Name
    summary: str
    requires: tuple[Name, ...] = ()
    conflicts: tuple[Name, ...] = ()
    patch: tuple[PatchSpec, ...] = ()
    add: tuple[AddSpec, ...] = ()
    replace: tuple[ReplaceSpec, ...] = ()
    remove: tuple[RemoveSpec, ...] = ()
    read: tuple[ReadSpec, ...] = ()
    knob: tuple[KnobSpec, ...] = ()
    marker: tuple[MarkerSpec, ...] = ()
    effect: EffectSpec | None = None
    python: PythonSpec | None = None
    experiment: tuple[ExperimentSpec, ...] = ()

    def checks(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Return the faults between the tables of the file, as (place, message)."""
        return [*self._repeated_knobs(), *self._wrong_values(), *self._repeated_preimages()]

    def _repeated_knobs(self) -> list[tuple[tuple[str | int, ...], str]]:
        seen: set[str] = set()
        faults: list[tuple[tuple[str | int, ...], str]] = []
        for number, knob in enumerate(self.knob):
            if knob.name in seen:
                faults.append((("knob", number, "name"), f"knob {knob.name} is declared twice"))
            seen.add(knob.name)
        return faults

    def _wrong_values(self) -> list[tuple[tuple[str | int, ...], str]]:
        values = {knob.name: knob.values for knob in self.knob}
        arms: list[tuple[tuple[str | int, ...], Any]] = [
            (("marker", number, "when"), marker.when) for number, marker in enumerate(self.marker)
        ]
        if self.effect is not None:
            arms += [(("effect", "arms", at), arm) for at, arm in enumerate(self.effect.arms)]
        for number, experiment in enumerate(self.experiment):
            arms += [
                (("experiment", number, "arms", name), arm) for name, arm in experiment.arms.items()
            ]
        faults: list[tuple[tuple[str | int, ...], str]] = []
        for place, arm in arms:
            for knob, value in arm.items():
                if knob in values and value not in values[knob]:
                    message = f"{knob} takes {', '.join(values[knob])}, not {value!r}"
                    faults.append(((*place, knob), message))
        return faults

    def _repeated_preimages(self) -> list[tuple[tuple[str | int, ...], str]]:
        seen: dict[tuple[str, str], int] = {}
        faults: list[tuple[tuple[str | int, ...], str]] = []
        for number, patch in enumerate(self.patch):
            for preimage in patch.preimage:
                first = seen.setdefault((patch.target, preimage), number)
                if first != number:
                    message = f"patch[{first}] has the same target and preimage"
                    faults.append((("patch", number, "preimage"), message))
        return faults
