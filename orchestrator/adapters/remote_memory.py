"""Memory of the engine's machine, where it is another one: its own /proc/meminfo, by SSH."""

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from orchestrator.adapters.engine_place import SshPlace
from orchestrator.adapters.ssh_tunnel import ssh_command
from orchestrator.errors import HostError
from orchestrator.model.host import MemoryReading

ReadMemory = Callable[[], MemoryReading]

_STREAM = "while cat /proc/meminfo; do sleep 0.5; done"

_OLD_S = 5.0
"""Ten readings missed: what is older says nothing about now."""

_FIRST_LIMIT_S = 15.0
"""ssh's own limit for a connection is 10 s."""


@contextmanager
def memory_there(place: SshPlace) -> Iterator[ReadMemory]:
    """Gives a function for the machine's latest reading, twice a second a new one.

    The function raises `OSError` when the latest is too old to say anything. GPU memory is not
    read there: `None`.

    Raises:
        HostError: The first reading does not come.
    """
    process = subprocess.Popen(
        ssh_command(place, _STREAM),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C reaches us alone
    )
    latest = _Latest(place)
    reading = threading.Thread(
        target=latest.follow, args=(process.stdout,), name="memory-there", daemon=True
    )
    reading.start()
    try:
        if not latest.came.wait(_FIRST_LIMIT_S):
            raise HostError(f"{place.destination}: /proc/meminfo cannot be read there by ssh")
        yield latest.read
    finally:
        process.kill()
        process.wait()
        reading.join()
        if process.stdout is not None:
            process.stdout.close()


class _Latest:
    def __init__(self, place: SshPlace) -> None:
        self.came = threading.Event()
        self._place = place
        self._latest: tuple[float, MemoryReading] | None = None

    def follow(self, lines: IO[str]) -> None:
        available = 0
        for line in lines:
            found = re.fullmatch(r"(MemAvailable|SwapFree): +(\d+) kB\n", line)
            if found and found[1] == "MemAvailable":
                available = int(found[2]) << 10
            elif found:  # of one reading, it comes after the other
                free = int(found[2]) << 10
                self._latest = (
                    time.monotonic(),
                    MemoryReading(
                        memory_available_bytes=available, swap_free_bytes=free, gpu_used_bytes=None
                    ),
                )
                self.came.set()

    def read(self) -> MemoryReading:
        if self._latest is None or time.monotonic() - self._latest[0] > _OLD_S:
            raise OSError(f"{self._place.destination} gave no reading for {_OLD_S:g} s")
        return self._latest[1]
