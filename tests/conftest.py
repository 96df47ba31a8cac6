"""Rules for the whole suite: nothing of the host leaks in, and in CI nothing is skipped."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.real import RealProject

NO_SKIP = bool(os.environ.get("COMPOSE_TESTS_NO_SKIP"))

# Hides stale bytecode, which is what some tests are about.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Hides what is still in a buffer when a process ends.
os.environ.pop("PYTHONUNBUFFERED", None)


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a store of its own."""
    store = tmp_path / "store"
    monkeypatch.setenv("COMPOSE_STORE", str(store))
    return store


@pytest.fixture(scope="session")
def real_project(tmp_path_factory: pytest.TempPathFactory) -> RealProject:
    """The project on the real wheel; one for all the workers of a run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return RealProject(shared / "compose-real")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where nothing may be skipped."""
    report = yield
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where nothing may be: {report.longrepr}"
    return report
