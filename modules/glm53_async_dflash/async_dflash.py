"""Let dflash drafts use the asynchronous scheduler, when the operator says so.

`vllm/config/vllm.py` asks `admits` in both rules that refuse a speculative method, the one for an
explicit `--async-scheduling` and the one for the default, and calls `report` once no rule is left
that could decide otherwise. All other rules stay upstream's own. Nothing here raises.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vllm.logger import init_logger

if TYPE_CHECKING:
    from vllm.config.speculative import SpeculativeConfig
    from vllm.config.vllm import VllmConfig

logger = init_logger(__name__)

KNOB = "VLLM_GLM53_ASYNC_DFLASH"
METHOD = "dflash"

# By process id: an engine core that was forked inherits this set, and has to speak for itself.
# vLLM's own *_once methods would keep it silent.
_said: set[tuple[int, str]] = set()


def admits(speculative_config: SpeculativeConfig | None) -> bool:
    """Whether the knob lets this method through the rule that was about to refuse it."""
    return getattr(speculative_config, "method", None) == METHOD and _armed()


def report(config: VllmConfig) -> None:
    """State the value that was resolved for dflash, if the knob is on."""
    if _armed() and getattr(config.speculative_config, "method", None) == METHOD:
        resolved = config.scheduler_config.async_scheduling
        _once(f"[async-dflash] resolved async_scheduling={resolved}", warn=False)


def _armed() -> bool:
    # No strip, no "true": a value that only looks like "1" must not arm anything.
    value = os.environ.get(KNOB, "")
    if value not in ("", "0", "1"):
        _once(f'[async-dflash] off: {KNOB}={value!r} is neither "0" nor "1"', warn=True)
    return value == "1"


def _once(line: str, *, warn: bool) -> None:
    said = (os.getpid(), line)
    if said in _said:
        return
    _said.add(said)
    (logger.warning if warn else logger.info)("%s", line)
