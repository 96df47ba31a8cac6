"""What interpreter and system a wheel has to fit, whatever this host is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from composer.oci.platform import Platform
from composer.wheelhouse import WheelTarget

TARGET = WheelTarget("3.12", Platform("linux", "amd64"), "2.35")


def test_platforms_of_amd64() -> None:
    assert replace(TARGET, glibc="2.18").platforms == (
        "manylinux_2_18_x86_64",
        "manylinux_2_17_x86_64",
        "manylinux2014_x86_64",
        "manylinux_2_16_x86_64",
        "manylinux_2_15_x86_64",
        "manylinux_2_14_x86_64",
        "manylinux_2_13_x86_64",
        "manylinux_2_12_x86_64",
        "manylinux2010_x86_64",
        "manylinux_2_11_x86_64",
        "manylinux_2_10_x86_64",
        "manylinux_2_9_x86_64",
        "manylinux_2_8_x86_64",
        "manylinux_2_7_x86_64",
        "manylinux_2_6_x86_64",
        "manylinux_2_5_x86_64",
        "manylinux1_x86_64",
        "linux_x86_64",
    )


def test_platforms_of_arm64() -> None:
    target = WheelTarget("3.12", Platform("linux", "arm64"), "2.18")
    assert target.platforms == (
        "manylinux_2_18_aarch64",
        "manylinux_2_17_aarch64",
        "manylinux2014_aarch64",
        "linux_aarch64",
    )


@pytest.mark.parametrize(
    ("platform", "last"),
    [
        ("linux/386", "linux_i686"),
        ("linux/amd64/v3", "linux_x86_64"),
        ("linux/arm/v6", "linux_armv6l"),
        ("linux/arm/v7", "linux_armv7l"),
        ("linux/arm", "linux_armv7l"),
        ("linux/arm64/v8", "linux_aarch64"),
        ("linux/loong64", "linux_loongarch64"),
        ("linux/ppc64le", "linux_ppc64le"),
        ("linux/riscv64", "linux_riscv64"),
        ("linux/s390x", "linux_s390x"),
    ],
)
def test_machines(platform: str, last: str) -> None:
    assert WheelTarget("3.12", Platform.parse(platform), "2.35").platforms[-1] == last


def test_pip_options() -> None:
    target = WheelTarget("3.9", Platform("linux", "arm64"), "2.17")
    assert target.pip_options == (
        "--python-version", "3.9", "--implementation", "cp", "--abi", "cp39",
        "--platform", "manylinux_2_17_aarch64",
        "--platform", "manylinux2014_aarch64",
        "--platform", "linux_aarch64",
    )  # fmt: skip


def test_pip_options_for_one_wheel() -> None:
    assert TARGET.pip_options_for("a-1-cp38-abi3-manylinux_2_28_x86_64.win_amd64.whl") == (
        "--python-version", "3.12", "--implementation", "cp",
        "--abi", "abi3", "--platform", "manylinux_2_28_x86_64",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("python", "platform", "glibc", "reason"),
    [
        ("2.7", "linux/amd64", "2.35", "python '2.7' is not a version such as 3.12"),
        ("3.12.1", "linux/amd64", "2.35", "python '3.12.1' is not a version such as 3.12"),
        ("3.12", "linux/amd64", "3", "glibc '3' is not a version such as 2.35"),
        ("3.12", "linux/mips", "2.35", "no wheels are made for platform linux/mips"),
        ("3.12", "windows/amd64", "2.35", "no wheels are made for platform windows/amd64"),
    ],
)
def test_targets_that_are_none(python: str, platform: str, glibc: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        WheelTarget(python, Platform.parse(platform), glibc)


@pytest.mark.parametrize(
    ("tags", "accepted"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("py311-none-any", True),
        ("cp312-cp312-manylinux_2_35_x86_64", True),
        ("cp38-abi3-manylinux_2_28_x86_64", True),
        ("cp38-abi3-manylinux1_x86_64.manylinux_2_5_x86_64", True),
        ("cp312-cp312-linux_x86_64", True),
        ("py3-none-manylinux2014_x86_64", True),
        ("cp312-cp312-manylinux_2_36_x86_64", False),
        ("cp313-abi3-manylinux_2_28_x86_64", False),
        ("cp311-cp311-manylinux_2_28_x86_64", False),
        ("cp312-cp312t-manylinux_2_28_x86_64", False),
        ("cp312-cp312-manylinux_2_28_aarch64", False),
        ("cp312-cp312-musllinux_1_2_x86_64", False),
        ("cp312-cp312-macosx_11_0_arm64", False),
        ("cp312-cp312-win_amd64", False),
    ],
)
def test_accepts(tags: str, accepted: bool) -> None:
    assert TARGET.accepts(f"demo-1.0-{tags}.whl") is accepted


def test_accepts_only_wheels() -> None:
    assert not TARGET.accepts("demo-1.0.tar.gz")
