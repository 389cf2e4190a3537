"""What machine it is, as it says itself."""

from pathlib import Path

import pytest

from orchestrator.adapters.host_facts import gpu_driver, host_facts

PUBLISHED = {
    # Module of the closed and of the open kind, as NVIDIA's, Talos' and SUSE's users publish them.
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  515.65.01  Wed Mar 16 11:24:05 UTC 2022\n"
    "GCC version:  gcc version 12.2.0 (GCC)\n": "515.65.01",
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  384.81  Wed Aug 17 22:24:07 PDT 2016\n"
    "GCC version:  gcc version 4.8.5 20150623 (Red Hat 4.8.5-4) (GCC)\n": "384.81",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06  Release Build"
    "  (abuild@host)  Thu Jul 11 12:00:00 UTC 2024\n"
    "GCC version:  gcc version 7.5.0 (SUSE Linux) \n": "555.42.06",
}


@pytest.mark.parametrize(("told", "version"), PUBLISHED.items(), ids=PUBLISHED.values())
def test_the_driver_is_read_from_the_kernel_module(told: str, version: str, tmp_path: Path) -> None:
    """Of every kind of module; the compiler's version is not taken for it."""
    (tmp_path / "version").write_text(told)

    assert gpu_driver(tmp_path / "version") == version


def test_no_driver_is_known_and_an_unknown_one_is_not(tmp_path: Path) -> None:
    """`none` is a fact; a text that is not understood is none."""
    (tmp_path / "version").write_text("something else\n")

    assert gpu_driver(tmp_path / "absent") == "none"
    assert gpu_driver(tmp_path / "version") is None


def test_the_machines_facts_say_whether_there_is_a_driver(tmp_path: Path) -> None:
    """Here, whichever machine this is."""
    there = Path("/proc/driver/nvidia/version").exists()

    assert (host_facts(tmp_path).gpu_driver == "none") is not there
