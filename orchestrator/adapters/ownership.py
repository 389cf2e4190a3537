"""Is the process that started something still there?"""

import hashlib
import os
import socket
from pathlib import Path

from orchestrator.model.ownership import Alive, Owner

_STARTED = 19
"""Field 22 of `/proc/PID/stat`, counted after the program's name, which may hold blanks."""


def this_process() -> Owner:
    """The owner of whatever is started now."""
    pid = os.getpid()
    return Owner(
        pid=pid,
        pid_started_ticks=_started_ticks(pid),
        boot_id=_boot_id(),
        machine=_machine(),
    )


def alive(owner: Owner) -> Alive:
    """Whether the owner still runs; another machine's owner is never judged from here."""
    if owner.machine is None or owner.boot_id is None or owner.pid_started_ticks is None:
        return "unknown"
    if owner.machine != _machine():
        return "unknown"
    if owner.boot_id != _boot_id():
        return "dead"
    return "alive" if _started_ticks(owner.pid) == owner.pid_started_ticks else "dead"


def _started_ticks(pid: int) -> int | None:
    """`None` when there is no such process; a zombie has ended and counts as none."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = line.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[_STARTED - 1])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _machine() -> str:
    try:
        name = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        name = ""
    return hashlib.sha256((name or socket.gethostname()).encode()).hexdigest()
