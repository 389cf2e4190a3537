"""The machine that a run was made on, and the run's own record of itself."""

from datetime import datetime
from typing import Literal

from orchestrator.model.record import Record


class HostFacts(Record):
    """What does not change during a run. `None`: it could not be found out."""

    vllm_arms_version: str
    commit: str | None
    uncommitted_changes: bool | None
    python: str
    kernel: str
    architecture: str
    cpu: str | None
    cpus: int
    """Logical processors that we may run on."""

    memory_bytes: int


class HostState(Record):
    """What may change during a run."""

    memory_available_bytes: int
    """Linux' MemAvailable."""

    swap_free_bytes: int
    shared_memory_files: int
    """Entries of /dev/shm."""


class RunStart(Record):
    """Written before anything starts."""

    started_at: datetime
    command: tuple[str, ...]
    owner_pid: int
    host: HostFacts
    state: HostState


class RunEnd(Record):
    """Written last. Without it a run is still going on, or was killed."""

    ended_at: datetime
    how: Literal["finished", "interrupted", "failed"]
    exit_code: int
    reason: str | None
    state: HostState
