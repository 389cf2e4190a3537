"""Each thing that a machine can lack has its sentence."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.adapters.engine_recipe import load_recipe
from orchestrator.adapters.machine_check import (
    MachineReadings,
    check_can_install,
    check_can_run,
    read_machine,
)
from orchestrator.errors import HostError

NEEDS = load_recipe(Path(__file__).parent.parent / "launch_profiles/engines/vllm-cpu").needs
CACHE = Path("/srv/cache")

GIB = 2**30

ABLE = MachineReadings(
    system="Linux",
    architecture="x86_64",
    glibc="2.36",
    python="3.11",
    cpu_flags=frozenset({"avx", "avx2", "f16c", "fma"}),
    programs=frozenset({"lscpu"}),
    libraries=frozenset({"libnuma.so.1", "libstdc++.so.6"}),
    memory_available_bytes=8 * GIB,
    shared_memory_free_bytes=1 * GIB,
    disk_free_bytes=40 * GIB,
)
"""A machine that lacks nothing."""


def test_a_machine_that_lacks_nothing_passes() -> None:
    """No check refuses what the others need."""
    check_can_run(ABLE, NEEDS)
    check_can_install(ABLE, NEEDS, CACHE)


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (
            replace(ABLE, architecture="aarch64"),
            (
                "this engine runs on Linux x86_64 and this machine is Linux aarch64: use another "
                "machine or another profile"
            ),
        ),
        (
            replace(ABLE, system="Darwin"),
            (
                "this engine runs on Linux x86_64 and this machine is Darwin x86_64: use another "
                "machine or another profile"
            ),
        ),
        (
            replace(ABLE, glibc="2.28"),
            (
                "this engine needs glibc 2.31 or newer and this system has glibc 2.28: use a newer "
                "system, Debian 12 for example"
            ),
        ),
        (
            replace(ABLE, glibc=""),
            (
                "this engine needs glibc 2.31 or newer and this system has no glibc: use a newer "
                "system, Debian 12 for example"
            ),
        ),
        (
            replace(ABLE, cpu_flags=frozenset({"avx", "f16c"})),
            "this processor lacks avx2, which this engine needs: use another machine",
        ),
        (
            replace(ABLE, python="3.15"),
            (
                "this engine has no wheels for Python 3.15: install vllm-arms under Python 3.11, "
                "3.12, 3.13 or 3.14"
            ),
        ),
        (
            replace(ABLE, programs=frozenset()),
            "this engine needs lscpu: install it (Debian, Ubuntu: apt-get install util-linux)",
        ),
        (
            replace(ABLE, libraries=frozenset()),
            (
                "this engine needs libnuma.so.1, libstdc++.so.6: install it (Debian, Ubuntu: "
                "apt-get install libnuma1 libstdc++6)"
            ),
        ),
        (
            replace(ABLE, memory_available_bytes=int(2.5 * GIB)),
            (
                "this engine needs 4.0 GiB of memory and 2.5 GiB is available: end other programs, "
                "or use another machine"
            ),
        ),
        (
            replace(ABLE, shared_memory_free_bytes=64 * 2**20),
            (
                "this engine needs 160 MiB free in /dev/shm and 64 MiB is: start the "
                "container that this runs in with --shm-size=1g"
            ),
        ),
    ],
)
def test_a_machine_that_cannot_run_the_engine_is_told_why_and_what_to_do(
    machine: MachineReadings, sentence: str
) -> None:
    """One sentence, exit code 4."""
    with pytest.raises(HostError) as caught:
        check_can_run(machine, NEEDS)

    assert str(caught.value) == sentence
    assert caught.value.exit_code == 4


def test_too_small_a_disk_is_said_before_anything_is_downloaded() -> None:
    """The sentence names the folder, and the way to another one."""
    with pytest.raises(HostError) as caught:
        check_can_install(replace(ABLE, disk_free_bytes=GIB), NEEDS, CACHE)

    assert str(caught.value) == (
        "preparing this engine needs 3.0 GiB of free disk and /srv/cache has 1.0 GiB: make room, "
        "or set VLLM_ARMS_CACHE to a folder on another disk"
    )


def test_a_version_is_compared_as_numbers() -> None:
    """Glibc 2.4 is older than 2.31."""
    with pytest.raises(HostError, match=r"glibc 2\.4"):
        check_can_run(replace(ABLE, glibc="2.4"), NEEDS)


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    """A cache that is not made yet is measured where it will be; a missing library is missed."""
    needs = NEEDS.model_validate(
        {**NEEDS.model_dump(), "libraries": {"libc.so.6": "libc6", "libabsent.so.9": "absent"}}
    )

    readings = read_machine(needs, tmp_path / "not" / "there")

    assert readings.libraries == {"libc.so.6"}
    assert readings.disk_free_bytes > 0
    assert readings.memory_available_bytes > 0
    assert readings.system == "Linux"
    assert "fpu" in readings.cpu_flags
