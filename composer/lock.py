"""`lock/<image>.lock`: everything an image was resolved to, down to the result's digests.

The lock is written by `compose` and read by people in review: one TOML file, sorted, with a
line for each thing that can change. What only makes or writes a lock is imported when one is
made: those who read locks are quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from . import fingerprint
from .errors import InputError, IntegrityError
from .oci.digest import Digest
from .oci.platform import Platform
from .places import lock_path
from .tomlfile import parse, read_bytes, validate

if TYPE_CHECKING:
    from .plan import Plan, PlatformPlan

__all__ = [
    "Lock",
    "LockedBase",
    "LockedChange",
    "LockedKnob",
    "LockedLayer",
    "LockedModule",
    "LockedPlatform",
    "LockedRead",
    "LockedWheel",
    "Record",
    "differences",
    "dump",
    "load",
    "lock_of",
    "read_lock",
]

_HEADER = "# Made by compose: change images.toml or modules/ and run `compose lock`.\n"


def _digest(text: str) -> str:
    return str(Digest.parse(text))


def _platform(text: str) -> str:
    return str(Platform.parse(text))


DigestText = Annotated[str, AfterValidator(_digest)]
PlatformText = Annotated[str, AfterValidator(_platform)]
Size = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    """A part of a document that compose writes; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LockedWheel(Record):
    """A wheel of a base, by name and content. `size` in bytes."""

    platform: PlatformText
    requirement: str
    name: str
    version: str
    filename: str
    digest: DigestText
    size: Size


class LockedBase(Record):
    """What the base is pinned to. `digest`: of its index or single manifest.

    image, media_type, size: of a base that is an image, or has wheels on one; reference: where
    it is, if `image` says so only on some machine.
    epoch: the time of the layers' files, in seconds; source_date_epoch: if it was chosen.
    python, glibc: what the wheels were chosen for; package_root, interpreter: where they are
    on an image.
    """

    name: str
    digest: DigestText
    image: str = ""
    reference: str = ""
    media_type: str = ""
    size: Size = 0
    epoch: Size
    source_date_epoch: Size | None = None
    python: str = ""
    glibc: str = ""
    package_root: str = ""
    interpreter: str = ""
    wheels: tuple[LockedWheel, ...] = ()


class LockedKnob(Record):
    """A knob with the value the image sets."""

    name: str
    values: tuple[str, ...]
    value: str


class LockedModule(Record):
    """A module. `content`: of all it says and brings, on whatever base."""

    name: str
    content: DigestText
    requires: tuple[str, ...] = ()
    knobs: tuple[LockedKnob, ...] = ()


class LockedLayer(Record):
    """A layer of ours. `size` in bytes, as stored."""

    module: str
    diff_id: DigestText
    digest: DigestText
    size: Size


class LockedChange(Record):
    """A file and what a module makes of it; without `post` it is removed."""

    module: str
    kind: Literal["patch", "add", "replace", "remove"]
    target: str
    path: str
    pre: DigestText | None = None
    post: DigestText | None = None


class LockedRead(Record):
    """A read-pin that held."""

    module: str
    target: str
    digest: DigestText


class LockedPlatform(Record):
    """The derived image of one platform. `facts`: what was asked of a base that is an image.

    base_layers: how many of the manifest's layers came from an image, and are not ours.
    """

    platform: PlatformText
    manifest: DigestText
    manifest_size: Size
    config: DigestText
    base: DigestText
    base_name: str = ""
    base_layers: Size = 0
    cache_root: str = ""
    layers: tuple[LockedLayer, ...]
    changes: tuple[LockedChange, ...] = ()
    reads: tuple[LockedRead, ...] = ()
    facts: tuple[str, ...] = ()

    def inputs(self, epoch: int, modules: Sequence[str]) -> dict[str, Any]:
        """Return the platform's part of the inputs document."""
        return fingerprint.platform_inputs(
            base=Digest.parse(self.base),
            base_name=self.base_name,
            epoch=epoch,
            modules=modules,
            changes=[_Recorded(change) for change in self.changes],
        )


class LockedConfig(Record):
    """What the image sets in its config, as declared."""

    env: dict[str, str] = {}
    labels: dict[str, str] = {}
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    workdir: str = ""
    cache_namespace: bool = False


class Lock(Record):
    """A lock. `digest`: what a pin uses. `source`: of everything it was resolved from."""

    schema_: Literal[1] = Field(alias="schema")
    image: str
    format: int
    digest: DigestText
    media_type: str
    inputs: DigestText
    source: DigestText
    base: LockedBase
    config: LockedConfig = LockedConfig()
    modules: tuple[LockedModule, ...] = ()
    platforms: tuple[LockedPlatform, ...]

    def platform(self, name: str) -> LockedPlatform | None:
        """Return the record of one platform."""
        return next((one for one in self.platforms if one.platform == name), None)


class _Recorded:
    """A recorded change in the types that `fingerprint` takes."""

    def __init__(self, change: LockedChange) -> None:
        self.module = change.module
        self.kind = change.kind
        self.target = change.target
        self.path = change.path.removeprefix("/")
        self.pre = Digest.parse(change.pre) if change.pre else None
        self.post = Digest.parse(change.post) if change.post else None


def lock_of(
    plan: Plan,
    *,
    base: LockedBase,
    source: Digest,
    kept: Mapping[str, LockedPlatform] | None = None,
    digest: Digest | None = None,
) -> Lock:
    """Return the lock of a plan.

    kept: records of platforms that were not planned now; then `digest` is the index's.
    """
    from .plan import knob_values, settings

    definition = plan.definition
    knobs: dict[str, list[LockedKnob]] = {}
    for module, name, values, value in knob_values(definition):
        knobs.setdefault(module, []).append(LockedKnob(name=name, values=values, value=value))
    platforms = dict(kept or {})
    platforms.update({str(one.platform): _locked_platform(one) for one in plan.platforms})
    top = plan.index or plan.platforms[0].image.manifest
    return Lock(
        schema=1,
        image=definition.name,
        format=fingerprint.FORMAT,
        digest=str(digest or plan.digest),
        media_type=top.media_type,
        inputs=str(plan.inputs),
        source=str(source),
        base=base,
        config=LockedConfig(**settings(definition)),
        modules=tuple(
            LockedModule(
                name=module.name,
                content=str(fingerprint.content(module)),
                requires=module.requires,
                knobs=tuple(knobs.get(module.name, ())),
            )
            for module in definition.modules
        ),
        platforms=tuple(platforms[name] for name in sorted(platforms)),
    )


def _locked_platform(one: PlatformPlan) -> LockedPlatform:
    return LockedPlatform(
        platform=str(one.platform),
        manifest=str(one.image.manifest.digest),
        manifest_size=one.image.manifest.size,
        config=str(one.image.config.digest),
        base=str(one.base.image.manifest.digest),
        base_name=one.base.name,
        base_layers=len(one.base.image.manifest.layers) - one.base.own,
        cache_root=one.cache_root,
        layers=tuple(
            LockedLayer(
                module=layer.module,
                diff_id=str(layer.layer.diff_id),
                digest=str(layer.layer.digest),
                size=layer.layer.size,
            )
            for layer in one.layers
        ),
        changes=tuple(
            LockedChange(
                module=change.module,
                kind=change.kind,
                target=change.target,
                path=f"/{change.path}",
                pre=str(change.pre) if change.pre else None,
                post=str(change.post) if change.post else None,
            )
            for change in one.overlay.changes
        ),
        reads=tuple(
            LockedRead(module=read.module, target=read.target, digest=str(read.digest))
            for read in one.overlay.reads
        ),
        facts=one.base.facts.lines() if one.base.facts is not None else (),
    )


def dump(lock: Lock) -> bytes:
    """Serialise a lock: the same lock gives the same bytes."""
    import tomli_w

    document = lock.model_dump(by_alias=True, exclude_defaults=True)
    return (_HEADER + tomli_w.dumps(document)).encode()


def load(raw: bytes, shown: str) -> Lock:
    """Read a lock.

    Raises:
        IntegrityError: it was damaged, or written by hand; never an `InputError`, because
            nobody but compose writes it.
    """
    try:
        lock = validate(parse(raw, shown), Lock)
    except InputError as error:
        raise IntegrityError(*error.faults) from error
    if lock.format > fingerprint.FORMAT:
        raise IntegrityError.of(
            f"the lock has byte format {lock.format}, this compose writes {fingerprint.FORMAT}",
            where=shown,
            fix="use the compose that wrote the lock, or a newer one",
        )
    return lock


def read_lock(root: Path, image: str) -> Lock | None:
    """Return an image's lock, or None where there is none.

    Raises:
        InputError: it cannot be read. IntegrityError: it is damaged.
    """
    shown = lock_path(image)
    raw = read_bytes(root, shown)
    return load(raw, shown) if raw is not None else None


def differences(old: Lock | None, new: Lock) -> Iterator[str]:
    """Say in words what a refreshed lock has that the old one had not, a line each."""
    if old is None:
        yield "new lock"
        return
    if old.base.name != new.base.name or old.base.digest != new.base.digest:
        yield (
            f"base {old.base.name} -> {new.base.name}"
            if old.base.name != new.base.name
            else (f"base {new.base.name} {old.base.digest[:19]} -> {new.base.digest[:19]}")
        )
    elif old.base != new.base:
        yield f"what base {new.base.name} was resolved from, or its epoch"
    if old.format != new.format:
        yield f"byte format {old.format} -> {new.format}"
    before = {module.name: module for module in old.modules}
    after = {module.name: module for module in new.modules}
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield f"module {name} added"
        elif name not in after:
            yield f"module {name} removed"
        elif before[name].content != after[name].content:
            yield f"module {name} changed"
        elif before[name].knobs != after[name].knobs:
            yield f"knobs of module {name} changed"
    fields = LockedConfig.model_fields
    if changed := [one for one in fields if getattr(old.config, one) != getattr(new.config, one)]:
        yield f"settings changed: {', '.join(changed)}"
    if [one.platform for one in old.platforms] != [one.platform for one in new.platforms]:
        yield f"platforms {', '.join(one.platform for one in new.platforms)}"
    if old.digest != new.digest:
        yield f"digest {old.digest} -> {new.digest}"
