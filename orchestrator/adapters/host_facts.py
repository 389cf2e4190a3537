"""What machine this is, and what state it is in, before and after a run."""

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil

from orchestrator.model.host import HostFacts, HostState


def host_facts(project: Path) -> HostFacts:
    """What does not change during a run."""
    commit = _git(project, "rev-parse", "HEAD")
    changes = _git(project, "status", "--porcelain")
    return HostFacts(
        vllm_arms_version=version("vllm-arms"),
        commit=commit,
        uncommitted_changes=None if changes is None else changes != "",
        python=platform.python_version(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu=_cpu_model(),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        gpu_driver=gpu_driver(Path("/proc/driver/nvidia/version")),
    )


def host_state() -> HostState:
    """What may change during a run."""
    return HostState(
        memory_available_bytes=psutil.virtual_memory().available,
        swap_free_bytes=psutil.swap_memory().free,
        shared_memory_files=len(list(Path("/dev/shm").iterdir())),  # noqa: S108 - looked at only
    )


def _cpu_model() -> str | None:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def gpu_driver(version_file: Path) -> str | None:
    """The NVIDIA kernel module's version, such as `580.173.02`.

    `none` where no such module is loaded, `None` where the file is not understood. The module's
    own word needs no tool in the path; its first line is
    `NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.173.02  Release Build …`.
    """
    try:
        told = version_file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "none"
    found = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", told, re.MULTILINE)
    return None if found is None else found[1]


def _git(project: Path, *args: str) -> str | None:
    """A git command's output; `None` outside a repository or without git."""
    try:
        done = subprocess.run(
            ["git", "-C", str(project), *args],  # noqa: S607 - whichever git the user has
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
