"""Fixtures of the module tests: one `Prover` per session, over the files of built images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real import RealProject

from .vllm_harness import Prover


def _python() -> Path:
    python = os.environ.get("COMPOSE_PROVE_PYTHON")
    if not python:
        pytest.skip("COMPOSE_PROVE_PYTHON is not set: a Python that has torch and vllm 0.28.0")
    return Path(python)


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter that has vLLM."""
    return _python()


@pytest.fixture(scope="session")
def prover(
    python: Path, real_project: RealProject, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prover]:
    """Runs vLLM over the files of an image; skips where there is no vLLM to run."""
    prover = Prover(python, tmp_path_factory.mktemp("prove"), real_project.files)
    yield prover
    prover.close()
