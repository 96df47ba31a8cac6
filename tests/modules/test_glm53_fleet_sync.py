"""glm53_fleet_sync on the real VllmConfig: dflash stays synchronous, all else is upstream's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from .vllm_harness import MODULES, Outcome, Prover, Run, Scenario, effect_of

pytestmark = pytest.mark.prove

FLEET = ("glm53_fleet_sync",)
UNSUPPORTED = (
    "Async scheduling not supported with dflash-based speculative decoding and will be disabled."
)
REFUSED = (
    "ValueError: Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU"
    "/DSpark kind of speculative decoding"
)
UNPADDED = "ValueError: Async scheduling is not compatible with disable_padded_drafter_batch=True."

TABLE = (
    Scenario("default"),
    Scenario("explicit", explicit=True),
    Scenario("switched off", explicit=False),
    Scenario("unpadded, default", "dflash-unpadded"),
    Scenario("unpadded, explicit", "dflash-unpadded", explicit=True),
    Scenario("no draft", "none"),
    Scenario("no draft, explicit", "none", explicit=True),
)
# The V2 runner refuses ngram by rules of its own.
OTHER_METHODS = (
    Scenario("ngram", "ngram"),
    Scenario("ngram, explicit", "ngram", explicit=True),
    Scenario("ngram_gpu", "ngram_gpu"),
    Scenario("ngram_gpu, explicit", "ngram_gpu", explicit=True),
)
V1_RUNNER = {"VLLM_USE_V2_MODEL_RUNNER": "0"}

RUNS = {
    "stock": Run((), TABLE),
    "fleet": Run(FLEET, (*TABLE, Scenario("again", engine_cores=("fork",)))),
    "stock, other methods": Run((), OTHER_METHODS, V1_RUNNER),
    "fleet, other methods": Run(FLEET, OTHER_METHODS, V1_RUNNER),
    "effect, stock": Run((), script=effect_of("glm53_fleet_sync")),
    "effect, fleet": Run(FLEET, script=effect_of("glm53_fleet_sync")),
}


Runs = dict[str, Future[Outcome]]


@pytest.fixture(scope="module")
def runs(prover: Prover) -> Iterator[Runs]:
    futures = prover.start(RUNS)
    yield futures
    for future in futures.values():
        future.cancel()


def test_stock_lets_dflash_through(runs: Runs) -> None:
    stock = runs["stock"].result()
    assert stock.decisions == {
        "default": True,
        "explicit": True,
        "switched off": False,
        "unpadded, default": False,
        "unpadded, explicit": UNPADDED,
        "no draft": True,
        "no draft, explicit": True,
    }
    assert stock.count("not supported with") == 0


def test_dflash_is_excluded_from_both_conditions_in_every_process(runs: Runs) -> None:
    fleet = runs["fleet"].result()
    assert fleet.decisions == {
        "default": False,
        "explicit": REFUSED,
        "switched off": False,
        "unpadded, default": False,
        "unpadded, explicit": REFUSED,
        "no draft": True,
        "no draft, explicit": True,
        "again": False,
        "again, fork": False,
    }


def test_the_warning_is_upstreams_own(runs: Runs) -> None:
    assert runs["fleet"].result().count(UNSUPPORTED) == 1


def test_other_methods_are_untouched(runs: Runs) -> None:
    stock = runs["stock, other methods"].result()
    fleet = runs["fleet, other methods"].result()
    assert fleet.decisions == stock.decisions
    assert fleet.decisions == {
        "ngram": False,
        "ngram, explicit": REFUSED,
        "ngram_gpu": True,
        "ngram_gpu, explicit": True,
    }


def test_the_effect_is_seen_in_dflash_alone(runs: Runs) -> None:
    stock = runs["effect, stock"].result().decisions
    fleet = runs["effect, fleet"].result().decisions
    assert {name: (stock[name], fleet[name]) for name in stock if stock[name] != fleet[name]} == {
        "dflash, default": (True, False),
        "dflash, explicit": (True, REFUSED),
        "dflash, disable_padded_drafter_batch, explicit": (UNPADDED, REFUSED),
    }


def test_both_modules_make_the_same_observations() -> None:
    # A module's folder stands alone, so the script is there twice.
    ours = (MODULES / "glm53_fleet_sync" / "effect.py").read_bytes()
    assert ours == (MODULES / "glm53_async_dflash" / "effect.py").read_bytes()
