"""glm53_async_dflash on the real VllmConfig: what the knob does, and what the log says of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest

from .vllm_harness import Outcome, Prover, Run, Scenario, effect_of

pytestmark = pytest.mark.prove

ALONE = ("glm53_async_dflash",)
FLEET = ("glm53_fleet_sync",)
BOTH = ("glm53_async_dflash", "glm53_fleet_sync")

KNOB = "VLLM_GLM53_ASYNC_DFLASH"
ON = {KNOB: "1"}
OURS = "[async-dflash]"
RESOLVED_TRUE = "[async-dflash] resolved async_scheduling=True"
RESOLVED_FALSE = "[async-dflash] resolved async_scheduling=False"
UNSUPPORTED = (
    "Async scheduling not supported with dflash-based speculative decoding and will be disabled."
)
NOT_UNPADDED = (
    "Async scheduling is not compatible with disable_padded_drafter_batch=True and will be "
    "disabled."
)
REFUSED = (
    "ValueError: Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU"
    "/DSpark kind of speculative decoding"
)
UNPADDED = "ValueError: Async scheduling is not compatible with disable_padded_drafter_batch=True."
NO_EXECUTOR = "ValueError: `uni` does not support async scheduling yet."

DEFAULT = Scenario("default")
EXPLICIT = Scenario("explicit", explicit=True)
ACCEPTED = (DEFAULT, EXPLICIT)
LATER_RULES = (
    Scenario("unpadded, default", "dflash-unpadded"),
    Scenario("unpadded, explicit", "dflash-unpadded", explicit=True),
    Scenario("executor, default", executor_off=True),
    Scenario("executor, explicit", executor_off=True, explicit=True),
    Scenario("switched off", explicit=False),
)
OTHERS = (
    Scenario("ngram", "ngram"),
    Scenario("ngram, explicit", "ngram", explicit=True),
    Scenario("ngram_gpu", "ngram_gpu"),
    Scenario("no draft", "none"),
    Scenario("no draft, explicit", "none", explicit=True),
)
V1_RUNNER = {"VLLM_USE_V2_MODEL_RUNNER": "0"}  # the V2 runner refuses ngram by rules of its own
QUIET = ("0", "")
STRANGE = ("yes", "true", " 1", "2")


def at(value: str, *scenarios: Scenario) -> tuple[Scenario, ...]:
    """The scenarios with the knob at a value, which becomes part of their names."""
    return tuple(replace(s, name=f"{value!r} {s.name}", env={KNOB: value}) for s in scenarios)


RUNS = {
    "on": Run(BOTH, (Scenario("default", engine_cores=("spawn", "fork")), EXPLICIT), ON),
    "on, later rules": Run(BOTH, LATER_RULES, ON),
    "on, platform": Run(BOTH, (Scenario("default", platform_off=True),), ON),
    "unset": Run(BOTH, (*ACCEPTED, *LATER_RULES)),
    "quiet": Run(BOTH, tuple(s for value in QUIET for s in at(value, *ACCEPTED))),
    "strange": Run(BOTH, tuple(s for value in STRANGE for s in at(value, EXPLICIT, DEFAULT))),
    "alone": Run(ALONE, tuple(s for v in "01" for s in at(v, *ACCEPTED, *LATER_RULES))),
    "others": Run(BOTH, (*at("1", *OTHERS), *at("yes", *OTHERS)), V1_RUNNER),
    "effect, without": Run(FLEET, script=effect_of("glm53_async_dflash")),
    "effect, default": Run(BOTH, script=effect_of("glm53_async_dflash")),
    "effect, on": Run(BOTH, script=effect_of("glm53_async_dflash"), env=ON),
}

Runs = dict[str, Future[Outcome]]


@pytest.fixture(scope="module")
def runs(prover: Prover) -> Iterator[Runs]:
    futures = prover.start(RUNS)
    yield futures
    for future in futures.values():
        future.cancel()


def test_on_dflash_passes_both_conditions(runs: Runs) -> None:
    on = runs["on"].result()
    assert on.decisions["default"] is True
    assert on.decisions["explicit"] is True
    assert on.count("not supported with dflash") == 0


def test_on_the_marker_is_printed_once(runs: Runs) -> None:
    on = runs["on"].result()
    assert on.count(OURS, process="APIServer") == 1
    (line,) = (line for line in on.log.splitlines() if OURS in line and "APIServer" in line)
    assert line.endswith(f" {RESOLVED_TRUE}")
    assert " INFO " in line


def test_on_the_engine_core_says_it_too(runs: Runs) -> None:
    # A forked engine core inherits the memory of what the API server has said.
    on = runs["on"].result()
    assert on.decisions["default, spawn"] is True
    assert on.decisions["default, fork"] is True
    assert on.count(RESOLVED_TRUE, process="EngineCore") == 2
    assert on.count(OURS) == 3


def test_on_the_later_rules_still_decide(runs: Runs) -> None:
    on = runs["on, later rules"].result()
    assert on.decisions == {
        "unpadded, default": False,
        "unpadded, explicit": UNPADDED,
        "executor, default": False,
        "executor, explicit": NO_EXECUTOR,
        "switched off": False,
    }
    assert on.count(NOT_UNPADDED) == 1
    assert on.count("not supported with dflash") == 0


def test_on_the_marker_tells_that_a_later_rule_switched_it_off(runs: Runs) -> None:
    on = runs["on, later rules"].result()
    assert on.count(RESOLVED_FALSE) == 1
    assert on.count(OURS) == 1


def test_the_marker_comes_after_the_platforms_own_decision(runs: Runs) -> None:
    on = runs["on, platform"].result()
    assert on.decisions == {"default": False}
    assert on.count(RESOLVED_FALSE) == 1
    assert on.count(OURS) == 1


def test_unset_the_images_own_rules_decide_and_nothing_is_said(runs: Runs) -> None:
    unset = runs["unset"].result()
    assert unset.decisions == {
        "default": False,
        "explicit": REFUSED,
        "unpadded, default": False,
        "unpadded, explicit": REFUSED,
        "executor, default": False,
        "executor, explicit": REFUSED,
        "switched off": False,
    }
    assert unset.count(UNSUPPORTED) == 1
    assert unset.count(OURS) == 0


def test_zero_and_empty_are_as_good_as_unset(runs: Runs) -> None:
    quiet = runs["quiet"].result()
    assert quiet.decisions == {
        "'0' default": False,
        "'0' explicit": REFUSED,
        "'' default": False,
        "'' explicit": REFUSED,
    }
    assert quiet.count(UNSUPPORTED) == 1
    assert quiet.count(OURS) == 0


@pytest.mark.parametrize("value", STRANGE)
def test_a_strange_value_leaves_it_off_and_says_so_once(runs: Runs, value: str) -> None:
    strange = runs["strange"].result()
    assert strange.decisions[f"{value!r} default"] is False
    assert strange.decisions[f"{value!r} explicit"] == REFUSED
    said = [line for line in strange.log.splitlines() if OURS in line and repr(value) in line]
    assert len(said) == 1
    assert said[0] in strange.during(f"{value!r} explicit").log  # before the refusal, not after it
    assert said[0].endswith(f' [async-dflash] off: {KNOB}={value!r} is neither "0" nor "1"')
    assert " WARNING " in said[0]
    assert strange.count(OURS) == len(STRANGE)


def test_without_fleet_sync_upstream_decides(runs: Runs) -> None:
    alone = runs["alone"].result()
    upstream = {
        "default": True,
        "explicit": True,
        "unpadded, default": False,
        "unpadded, explicit": UNPADDED,
        "executor, default": False,
        "executor, explicit": NO_EXECUTOR,
        "switched off": False,
    }
    for value in ("'0'", "'1'"):
        assert {name: alone.decisions[f"{value} {name}"] for name in upstream} == upstream
    off, _, on = alone.log.partition("=== '1' default\n")
    assert OURS not in off
    assert on.count(RESOLVED_TRUE) == 1
    assert on.count(RESOLVED_FALSE) == 1


@pytest.mark.parametrize("value", ["1", "yes"])
def test_other_methods_are_untouched(runs: Runs, value: str) -> None:
    others = runs["others"].result()
    expected = {
        "ngram": False,
        "ngram, explicit": REFUSED,
        "ngram_gpu": True,
        "no draft": True,
        "no draft, explicit": True,
    }
    assert {name: others.decisions[f"{value!r} {name}"] for name in expected} == expected
    assert others.count("not supported with ngram-based") == 1


def test_a_strange_value_is_worth_a_word_for_any_method(runs: Runs) -> None:
    others = runs["others"].result()
    assert others.count(OURS) == 1
    assert others.during("'yes' ngram").count("[async-dflash] off: ") == 1


def test_the_effect_by_default_is_none(runs: Runs) -> None:
    without = runs["effect, without"].result().decisions
    assert runs["effect, default"].result().decisions == without
    assert without["dflash, default"] is False


def test_the_effect_of_the_knob(runs: Runs) -> None:
    off, on = (runs[f"effect, {arm}"].result().decisions for arm in ("default", "on"))
    assert {name: (off[name], on[name]) for name in off if off[name] != on[name]} == {
        "dflash, default": (False, True),
        "dflash, explicit": (REFUSED, True),
        "dflash, disable_padded_drafter_batch, explicit": (REFUSED, UNPADDED),
    }
