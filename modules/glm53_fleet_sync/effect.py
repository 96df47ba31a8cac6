"""Print what asynchronous scheduling resolves to for a dflash draft, as one JSON object.

Asks the real VllmConfig, on a machine without a GPU: an out-of-tree platform that decides nothing
takes the place of the one that vLLM would find, and two directories with a `config.json` each take
the place of the models. No weights are read. About six seconds.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

HIDDEN = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
TARGET = {
    **HIDDEN,
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 4,
}
DRAFT = {
    **HIDDEN,
    "model_type": "qwen3",
    "architectures": ["DFlashDraftModel"],
    "num_hidden_layers": 1,
    "num_target_layers": 4,
    "dflash_config": {"mask_token_id": 511, "target_layer_ids": [1, 2]},
}


def install_platform() -> type[Any]:
    """Put a platform that leaves every decision alone in place; return its class.

    Has to come before anything else of vLLM is imported.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from vllm import platforms
    from vllm.platforms.interface import Platform, PlatformEnum

    class Undecided(Platform):
        _enum = PlatformEnum.OOT
        device_name = "cpu"
        device_type = "cpu"

        @classmethod
        def check_and_update_config(cls, vllm_config: Any) -> None:
            vllm_config.parallel_config.worker_cls = "vllm.v1.worker.gpu_worker.Worker"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return 80 << 30

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> None:
            return None

    platforms._current_platform = Undecided()
    return Undecided


def write_models(root: Path) -> tuple[str, str]:
    """Write a target model and a dflash draft under `root`; return their directories."""
    for name, config in (("target", TARGET), ("draft", DRAFT)):
        (root / name).mkdir()
        (root / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(root / "target"), str(root / "draft")


def engine_config(model: str, speculative: dict[str, Any] | None, explicit: bool | None) -> Any:
    """Make the VllmConfig that `vllm serve` would make."""
    from vllm.engine.arg_utils import EngineArgs

    return EngineArgs(
        model=model,
        tokenizer=model,
        skip_tokenizer_init=True,
        speculative_config=speculative,
        async_scheduling=explicit,
        max_model_len=256,
    ).create_engine_config()


def resolve(model: str, speculative: dict[str, Any] | None, explicit: bool | None) -> bool | str:
    """What asynchronous scheduling resolves to; the first line of the refusal if it is refused."""
    try:
        config = engine_config(model, speculative, explicit)
    except ValueError as refusal:
        # pydantic quotes the reason on its third line, after "N validation error" and the place.
        lines = [line.strip() for line in str(refusal).splitlines()]
        reason = next((line for line in lines if line.startswith("Value error, ")), lines[0])
        return "ValueError: " + reason.removeprefix("Value error, ").partition(" [type=")[0]
    return bool(config.scheduler_config.async_scheduling)


def observe(root: Path) -> dict[str, bool | str]:
    """The decision for a dflash draft, by default and explicit, and for no draft at all."""
    target, draft = write_models(root)
    dflash = {"method": "dflash", "model": draft, "num_speculative_tokens": 4}
    unpadded = {**dflash, "disable_padded_drafter_batch": True}
    return {
        "dflash, default": resolve(target, dflash, None),
        "dflash, explicit": resolve(target, dflash, True),
        "dflash, disable_padded_drafter_batch, default": resolve(target, unpadded, None),
        "dflash, disable_padded_drafter_batch, explicit": resolve(target, unpadded, True),
        "no draft, default": resolve(target, None, None),
    }


def main() -> None:
    """Observe, with the log on stderr: stdout is for the JSON object alone."""
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        install_platform()
        with tempfile.TemporaryDirectory() as root:
            json.dump(observe(Path(root)), out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
