"""Processes of servers whose orchestrator and supervisor were both killed at once."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from orchestrator.adapters.leftovers.leftover import Leftover
from orchestrator.adapters.process_marks import Marks, read_marks
from orchestrator.errors import HostError

_KILL_LIMIT_S = 10.0
"""SIGKILL leaves nothing to wait for but the kernel; past this the machine has a problem."""


def left_processes() -> Iterator[Leftover]:
    """Every living process that carries our marks, those of one arm together."""
    found: defaultdict[Marks, list[psutil.Process]] = defaultdict(list)
    for process in psutil.process_iter():
        marks = read_marks(process)
        if marks is not None:
            found[marks].append(process)
    for marks, processes in found.items():
        yield _leftover(marks, processes)


def _leftover(marks: Marks, processes: Sequence[psutil.Process]) -> Leftover:
    pids = ", ".join(str(process.pid) for process in processes)
    return Leftover(
        what=f"server process {pids} of {marks.folder or 'an unknown arm'}",
        owner=marks.owner,
        removal="killed, and the shared memory that it had mapped deleted",
        remove=lambda: _kill(processes),
    )


def _kill(processes: Iterable[psutil.Process]) -> None:
    mapped: set[str] = set()
    killed = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it ended by itself just now
            mapped |= _shared_memory(process)
            process.kill()  # compares the moment of its start first: no stranger is hit
            killed.append(process)
    _, alive = psutil.wait_procs(killed, timeout=_KILL_LIMIT_S)
    if alive:
        raise HostError(f"cannot be killed: {', '.join(str(process.pid) for process in alive)}")
    for path in mapped:
        Path(path).unlink(missing_ok=True)


def _shared_memory(process: psutil.Process) -> set[str]:
    """Its files in our /dev/shm; none where it has a /dev/shm of its own, gone with it."""
    try:
        if Path(f"/proc/{process.pid}/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink():
            return set()
        maps = process.memory_maps()
    except (OSError, psutil.Error):
        return set()
    return {entry.path for entry in maps if entry.path.startswith("/dev/shm/")}  # noqa: S108
