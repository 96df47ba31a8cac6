"""A difference of two locks -> one JSON document, for programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .diff import Details, Difference, FileChange, KnobChange, LayerChange, ModuleChange, Value
from .lock import LockedChange, LockedKnob

__all__ = ["document"]


def document(
    before: Mapping[str, str], after: Mapping[str, str], found: Difference, details: Details
) -> dict[str, Any]:
    """Return what `compose diff --json` prints. before, after: what the two were named by."""
    return {
        "schema": 1,
        "before": {**before, "image": found.before.image, "digest": found.before.digest},
        "after": {**after, "image": found.after.image, "digest": found.after.digest},
        "same": found.empty,
        "result": [_value(one) for one in found.result],
        "base": [_value(one) for one in found.base],
        "modules": [_module_document(one, details) for one in found.modules],
        "order": [list(names) for names in found.order] if found.order is not None else None,
        "files": [_file_document(one, details) for one in found.files],
        "reads": [_value(one) for one in found.reads],
        "knobs": [_knob_document(one) for one in found.knobs],
        "env": [_value(one) for one in found.env],
        "labels": [_value(one) for one in found.labels],
        "settings": [_value(one) for one in found.settings],
        "platforms": [_value(one) for one in found.platforms],
        "layers": [_layer_document(one) for one in found.layers],
    }


def _value(one: Value) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": one.name, "before": one.before, "after": one.after}
    return {**entry, "platforms": list(one.platforms)} if one.platforms else entry


def _module_document(one: ModuleChange, details: Details) -> dict[str, Any]:
    changes = details.sources.get(one.name)
    return {
        "name": one.name,
        "before": one.before,
        "after": one.after,
        "lost": one.lost,
        "sources": None
        if changes is None
        else [
            {"file": each.file, "kind": each.kind, "gone": list(each.gone), "new": list(each.new)}
            for each in changes
        ],
    }


def _knob_document(one: KnobChange) -> dict[str, Any]:
    def state(knob: LockedKnob | None) -> dict[str, Any] | None:
        return None if knob is None else {"value": knob.value, "values": list(knob.values)}

    return {
        "name": one.name,
        "module": one.module,
        "before": state(one.before),
        "after": state(one.after),
    }


def _file_document(one: FileChange, details: Details) -> dict[str, Any]:
    text = details.text(one)
    before, after = one.contents
    return {
        "path": one.path,
        "target": one.target,
        "platforms": list(one.platforms),
        "before": [_change(change) for change in one.before],
        "after": [_change(change) for change in one.after],
        "contents": {"before": before, "after": after},
        "text": None
        if text is None or text.lines is None
        else {"added": text.added, "removed": text.removed, "diff": "\n".join(text.lines)},
    }


def _change(one: LockedChange) -> dict[str, Any]:
    return {"module": one.module, "kind": one.kind, "pre": one.pre, "post": one.post}


def _layer_document(one: LayerChange) -> dict[str, Any]:
    groups = {"shared": one.shared, "gone": one.gone, "new": one.new}
    return {
        "platform": one.platform,
        **{
            word: [
                {
                    "module": each.module,
                    "diff_id": each.diff_id,
                    "digest": each.digest,
                    "size": each.size,
                }
                for each in layers
            ]
            for word, layers in groups.items()
        },
    }
