"""Kills a server before it makes the machine run out of memory.

A machine whose GPU and processor share one memory does not end in an OOM kill: it freezes, and is
switched off by hand (NVIDIA/open-gpu-kernel-modules issue 1358).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import structlog

from orchestrator.errors import ArmError, LowMemoryError

log = structlog.get_logger()

INTERVAL_S = 0.1
"""Between two looks, of 20 µs each. A server that fills pages as fast as one core can, 5 GB/s,
takes 0.5 GB in it: a floor should be well above that."""

_JOIN_LIMIT_S = 5.0


@contextmanager
def killed_when_memory_is_low(
    kill: Callable[[], None],
    floor_bytes: int | None,
    *,
    available: Callable[[], int] = lambda: psutil.virtual_memory().available,
    interval_s: float = INTERVAL_S,
) -> Iterator[None]:
    """Watch MemAvailable while the block lasts, and kill the server when it falls below a floor.

    Args:
        kill: Kills everything that the server consists of, at once.
        floor_bytes: `None`: nothing is watched.
        available: MemAvailable of the server's machine, in bytes. Its `OSError` ends the watch.
        interval_s: From one look to the next.

    Raises:
        LowMemoryError: The server was killed; in place of whatever its death made of the block.
    """
    if floor_bytes is None:
        yield
        return
    watch = _Watch(kill, floor_bytes, available, interval_s)
    try:
        yield
    except ArmError as error:
        watch.stop()
        watch.check(error)
        raise
    finally:
        watch.stop()
    watch.check(None)


class _Watch:
    def __init__(
        self,
        kill: Callable[[], None],
        floor_bytes: int,
        available: Callable[[], int],
        interval_s: float,
    ) -> None:
        self._available = available
        self._kill = kill
        self._floor_bytes = floor_bytes
        self._interval_s = interval_s
        self._found_bytes: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_JOIN_LIMIT_S)

    def check(self, cause: ArmError | None) -> None:
        if self._found_bytes is not None:
            raise LowMemoryError(
                f"the server was killed before the machine ran out of memory:"
                f" {self._found_bytes >> 20} MiB were available, and the profile's"
                f" host.memory_floor_bytes is {self._floor_bytes >> 20} MiB"
            ) from cause

    def _look(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                available = self._available()
            except OSError as error:
                log.warning("memory.unwatched", error=str(error))
                return
            if available < self._floor_bytes:
                self._found_bytes = available
                self._kill()
                log.error("server.killed_for_memory", memory_available_bytes=available)
                return
