"""Fixtures of the module tests: one `Prover` per session, and the files it runs over."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from .vllm_harness import Prover, patched_files, site_packages


def _python() -> Path:
    python = os.environ.get("COMPOSE_PROVE_PYTHON")
    if not python:
        pytest.skip("COMPOSE_PROVE_PYTHON is not set: a Python that has torch and vllm 0.28.0")
    return Path(python)


def files_of(modules: tuple[str, ...]) -> Mapping[str, bytes | Path]:
    """The changed files of the image that has these modules, by path from the package root."""
    return patched_files(modules, installed=site_packages(_python()))


@pytest.fixture(scope="session")
def prover(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prover]:
    """Runs vLLM over the files of an image; skips where there is no vLLM to run."""
    prover = Prover(_python(), tmp_path_factory.mktemp("prove"), files_of)
    yield prover
    prover.close()
