"""What the built images hold is what GNU patch makes of the real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.real import RealProject

from .vllm_harness import patched_files, site_packages

pytestmark = pytest.mark.prove


@pytest.mark.parametrize(
    "modules",
    [
        ("glm53_fleet_sync",),
        ("glm53_async_dflash",),
        ("glm53_async_dflash", "glm53_fleet_sync"),
    ],
)
def test_image_and_gnu_patch_agree(
    modules: tuple[str, ...], python: Path, real_project: RealProject
) -> None:
    expected = patched_files(modules, installed=site_packages(python))
    assert expected
    assert real_project.files(modules) == expected
