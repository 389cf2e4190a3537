"""Processes that hold memory of an NVIDIA GPU, ours and others."""

import re
from dataclasses import dataclass
from pathlib import Path

import docker
import psutil
from docker.models.containers import Container

from orchestrator.adapters.docker_engine import UNREACHABLE
from orchestrator.adapters.nvidia_smi import asked
from orchestrator.adapters.process_marks import read_marks
from orchestrator.model.labels import OWNER

_QUERY = "--query-compute-apps=pid,process_name,used_memory"

_LINE = re.compile(r"(?P<pid>\d+), (?P<name>.*), (?P<mib>[^,]*)")

_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
"""In a line of /proc/PID/cgroup; the engine names a container's group by it."""


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that holds memory of a GPU."""

    told: str
    """In words, with its container."""

    ours: bool
    """A server of ours, whichever orchestrator started it."""


def gpu_holders(client: docker.DockerClient | None) -> tuple[GpuHolder, ...] | None:
    """Every process that holds memory of a GPU; `None` when nvidia-smi does not tell.

    Args:
        client: The engine whose containers are looked at; `None`: there is none, so that a
            container of ours counts as somebody else's.
    """
    told = asked(_QUERY)
    if told is None:
        return None
    return tuple(
        _holder(int(found["pid"]), found["name"], found["mib"], client)
        for found in filter(None, map(_LINE.fullmatch, told.splitlines()))
    )


def _holder(pid: int, name: str, used_mib: str, client: docker.DockerClient | None) -> GpuHolder:
    container = None if client is None else _container(pid, client)
    where = "" if container is None else f" in container {container.name}"
    memory = f"{used_mib} MiB" if used_mib.isdecimal() else "an unknown amount"
    return GpuHolder(
        told=f"process {pid} ({name}){where} with {memory} of GPU memory",
        ours=_has_our_marks(pid) or (container is not None and OWNER in container.labels),
    )


def _has_our_marks(pid: int) -> bool:
    try:
        return read_marks(psutil.Process(pid)) is not None
    except psutil.NoSuchProcess:
        return False


def _container(pid: int, client: docker.DockerClient) -> Container | None:
    try:
        group = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it ended, or is a process of another machine's namespace
        return None
    named = _CONTAINER_ID.search(group)
    if named is None:
        return None
    try:
        return client.containers.get(named[0])
    except UNREACHABLE:  # of another engine, such as a cluster's
        return None
