"""Ask the real VllmConfig; run by the tests with the interpreter COMPOSE_PROVE_PYTHON.

    decide.py EFFECT_SCRIPT SCENARIOS

SCENARIOS is a JSON list of `vllm_harness.Scenario` as objects. Prints one JSON object, scenario ->
decision, on stdout, and vLLM's log on stderr, with a line "=== NAME" where each scenario begins.
The platform and the models are the effect script's. Standard library and vLLM only: this file runs
in another environment than the tests.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import multiprocessing
import os
import pickle
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

NGRAM = {"num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 2}


def load(script: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("effect", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drafts(draft_model: str) -> dict[str, dict[str, Any] | None]:
    """The speculative configs that a scenario may name."""
    dflash = {"method": "dflash", "model": draft_model, "num_speculative_tokens": 4}
    return {
        "dflash": dflash,
        "dflash-unpadded": {**dflash, "disable_padded_drafter_batch": True},
        "ngram": {"method": "ngram", **NGRAM},
        "ngram_gpu": {"method": "ngram_gpu", **NGRAM},
        "none": None,
    }


def platform_that_decides(undecided: type[Any]) -> Any:
    """A platform whose own hook, the last of all rules, switches asynchronous scheduling off."""

    class Decided(undecided):  # type: ignore[misc]
        @classmethod
        def check_and_update_config(cls, vllm_config: Any) -> None:
            super().check_and_update_config(vllm_config)
            vllm_config.scheduler_config.async_scheduling = False

    return Decided()


def let_executor_support_async(supported: bool) -> None:
    """Whether the executor of a single process says that it can be scheduled asynchronously."""
    executor: Any = importlib.import_module("vllm.v1.executor.uniproc_executor").UniProcExecutor
    executor.supports_async_scheduling = classmethod(lambda _: supported)


def name_the_log(process: str) -> None:
    """Prefix each line with the name of the process, as vLLM does."""
    system_utils: Any = importlib.import_module("vllm.utils.system_utils")
    system_utils.decorate_logs(process)


def engine_core(script: str, pickled: bytes, fresh: bool, answer: Any) -> None:
    """What EngineCoreProc does with the config it was handed: run `__post_init__` once more."""
    if fresh:
        load(script).install_platform()
    name_the_log("EngineCore")
    config = pickle.loads(pickled)
    config.__post_init__()
    answer.put(bool(config.scheduler_config.async_scheduling))


def in_engine_core(script: str, config: Any, start: str) -> bool:
    """The decision in a second process, started by "fork" or "spawn"."""
    context = multiprocessing.get_context(start)
    answer = context.SimpleQueue()
    process = context.Process(  # type: ignore[attr-defined]
        target=engine_core, args=(script, pickle.dumps(config), start == "spawn", answer)
    )
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"the engine core, started by {start}, ended with {process.exitcode}")
    return bool(answer.get())


def main() -> None:
    script, scenarios = sys.argv[1], json.loads(sys.argv[2])
    os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "1")
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    effect = load(script)
    undecided = effect.install_platform()
    platforms: Any = importlib.import_module("vllm.platforms")
    name_the_log("APIServer")
    decisions: dict[str, bool | str] = {}
    with tempfile.TemporaryDirectory() as root:
        target, draft = effect.write_models(Path(root))
        for scenario in scenarios:
            name, explicit = scenario["name"], scenario["explicit"]
            print(f"=== {name}", file=sys.stderr, flush=True)
            os.environ.update(scenario["env"])
            platforms._current_platform = (
                platform_that_decides(undecided) if scenario["platform_off"] else undecided()
            )
            let_executor_support_async(not scenario["executor_off"])
            speculative = drafts(draft)[scenario["draft"]]
            decisions[name] = effect.resolve(target, speculative, explicit)
            for start in scenario["engine_cores"]:
                config = effect.engine_config(target, speculative, explicit)
                decisions[f"{name}, {start}"] = in_engine_core(script, config, start)
    json.dump(decisions, out)
    out.close()


if __name__ == "__main__":
    main()
