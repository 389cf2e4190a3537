"""Whether this machine can run an engine, found out before anything is downloaded.

The readings are a value, and the judgement a function of it: every sentence can be tested on a
machine that lacks nothing.
"""

import ctypes
import platform
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator.adapters.engine_recipe import Needs
from orchestrator.errors import HostError

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 -- looked at, nothing is put there


@dataclass(frozen=True, kw_only=True)
class MachineReadings:
    """What was found on this machine."""

    system: str
    architecture: str

    glibc: str
    """Empty where the C library is another one, as on Alpine."""

    python: str
    """Major and minor version of the interpreter that would make the environment."""

    cpu_flags: frozenset[str]
    programs: frozenset[str]
    libraries: frozenset[str]
    memory_available_bytes: int
    shared_memory_free_bytes: int
    disk_free_bytes: int


def read_machine(needs: Needs, cache: Path) -> MachineReadings:
    """Look at this machine; of programs and libraries, only for those that are needed."""
    return MachineReadings(
        system=platform.system(),
        architecture=platform.machine(),
        glibc=_glibc(),
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        cpu_flags=_cpu_flags(),
        programs=frozenset(name for name in needs.programs if shutil.which(name)),
        libraries=frozenset(name for name in needs.libraries if _can_be_loaded(name)),
        memory_available_bytes=psutil.virtual_memory().available,
        shared_memory_free_bytes=_free_bytes(SHARED_MEMORY),
        disk_free_bytes=_free_bytes(cache),
    )


def check_can_run(readings: MachineReadings, needs: Needs) -> None:
    """Return if a server can run here.

    Raises:
        HostError: Something is missing. One sentence says what, and what to do.
    """
    _check_platform(readings, needs)
    _check_packages(needs.programs, readings.programs)
    _check_packages(needs.libraries, readings.libraries)
    _check_memory(readings, needs)


def check_can_install(readings: MachineReadings, needs: Needs, cache: Path) -> None:
    """Return if there is room for the engine.

    Raises:
        HostError: There is not.
    """
    if readings.disk_free_bytes < needs.disk_bytes:
        raise HostError(
            f"preparing this engine needs {_size(needs.disk_bytes)} of free disk and {cache} has "
            f"{_size(readings.disk_free_bytes)}: make room, or set VLLM_ARMS_CACHE to a folder on "
            "another disk"
        )


def _check_platform(readings: MachineReadings, needs: Needs) -> None:
    """What only another machine, or another system on it, can change."""
    if (readings.system, readings.architecture) != (needs.system, needs.architecture):
        raise HostError(
            f"this engine runs on {needs.system} {needs.architecture} and this machine is "
            f"{readings.system} {readings.architecture}: use another machine or another profile"
        )
    if _as_numbers(readings.glibc) < _as_numbers(needs.glibc):
        found = f"glibc {readings.glibc}" if readings.glibc else "no glibc"
        raise HostError(
            f"this engine needs glibc {needs.glibc} or newer and this system has {found}: "
            "use a newer system, Debian 12 for example"
        )
    if missing := _missing(needs.cpu_flags, readings.cpu_flags):
        raise HostError(
            f"this processor lacks {missing}, which this engine needs: use another machine"
        )
    if readings.python not in needs.python:
        raise HostError(
            f"this engine has no wheels for Python {readings.python}: install vllm-arms under "
            f"Python {_alternatives(needs.python)}"
        )


def _check_packages(package_of: Mapping[str, str], found: frozenset[str]) -> None:
    if missing := _missing(package_of, found):
        packages = " ".join(package_of[name] for name in package_of if name not in found)
        raise HostError(
            f"this engine needs {missing}: install it (Debian, Ubuntu: apt-get install {packages})"
        )


def _check_memory(readings: MachineReadings, needs: Needs) -> None:
    if readings.memory_available_bytes < needs.memory_bytes:
        raise HostError(
            f"this engine needs {_size(needs.memory_bytes)} of memory and "
            f"{_size(readings.memory_available_bytes)} is available: end other programs, or use "
            "another machine"
        )
    if readings.shared_memory_free_bytes < needs.shared_memory_bytes:
        raise HostError(
            f"this engine needs {_size(needs.shared_memory_bytes)} free in {SHARED_MEMORY} and "
            f"{_size(readings.shared_memory_free_bytes)} is: start the container that this runs "
            "in with --shm-size=1g"
        )


def _glibc() -> str:
    library, version = platform.libc_ver()
    return version if library == "glibc" else ""


def _cpu_flags() -> frozenset[str]:
    """Those of the first processor; empty where there is no such file (not Linux)."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return frozenset()
    for line in cpuinfo.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def _can_be_loaded(library: str) -> bool:
    # Loading is the question itself; `ctypes.util.find_library` needs a compiler or ldconfig.
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _free_bytes(folder: Path) -> int:
    """Of the file system that the folder is in, or will be in once it is made."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def _missing(wanted: Iterable[str], found: frozenset[str]) -> str:
    return ", ".join(name for name in wanted if name not in found)


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)


def _alternatives(names: tuple[str, ...]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def _size(size_bytes: int) -> str:
    gib = size_bytes / 2**30
    return f"{gib:.1f} GiB" if gib >= 1 else f"{size_bytes / 2**20:.0f} MiB"
