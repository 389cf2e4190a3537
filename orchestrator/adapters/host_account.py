"""The machine around one server's life: ready for it before, itself again after."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
import structlog
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_result,
    sleep_using_event,
    stop_after_delay,
    stop_when_event_set,
    wait_fixed,
)

from orchestrator.accounting import not_back
from orchestrator.adapters.host_sampling import used_bytes
from orchestrator.adapters.kernel_log import kernel_log
from orchestrator.adapters.nvidia_smi import asked
from orchestrator.errors import HostError
from orchestrator.model.host import HostAccount, MemoryReading
from orchestrator.model.host_limits import HostLimits

R = TypeVar("R")

log = structlog.get_logger()

DROP_CACHES = Path("/proc/sys/vm/drop_caches")

_LOOK_INTERVAL_S = 0.2


@contextmanager
def accounted_host(
    limits: HostLimits, save: Callable[[HostAccount], None], *, hurry: threading.Event
) -> Iterator[None]:
    """Compare the machine before a server's start with the machine after its end.

    The block starts the server and ends it. What it holds back is waited for, and then told: the
    account is saved on every way out but an interrupt during that wait.

    Args:
        limits: The profile's.
        save: Puts the account on disk.
        hurry: Set by a second signal: nothing is waited for any longer.

    Raises:
        HostError: The page cache cannot be dropped, or less memory than the floor is available:
            the server would be killed at once.
    """
    if limits.drop_page_cache:
        drop_page_cache()
    if limits.memory_floor_bytes is not None:
        _wait_for_floor(limits.memory_floor_bytes, limits.memory_back_timeout_s, hurry)
    before = memory_reading()
    with kernel_log() as kernel:
        try:
            yield
        finally:
            ended_s = time.monotonic()
            after = _wait_for_return(before, limits, hurry)
            account = HostAccount(
                before=before,
                after=after,
                waited_s=time.monotonic() - ended_s,
                not_back=not_back(before, after, limits.memory_back_within_bytes),
                kernel=kernel.counts(),
            )
            if account.not_back is not None:
                log.warning("memory.not_back", why=account.not_back, waited_s=account.waited_s)
            save(account)


def memory_reading() -> MemoryReading:
    """The machine's memory now."""
    gpus = asked("--query-gpu=index,memory.used")
    return MemoryReading(
        memory_available_bytes=psutil.virtual_memory().available,
        swap_free_bytes=psutil.swap_memory().free,
        gpu_used_bytes=None if gpus is None else used_bytes(gpus.encode()),
    )


def drop_page_cache(switch: Path = DROP_CACHES) -> None:
    """Make the kernel forget every cached file, after what is not written yet is.

    Raises:
        HostError: We may not.
    """
    os.sync()
    try:
        switch.write_text("1\n", encoding="ascii")  # 1: the page cache alone (vm.rst)
    except OSError as error:
        raise HostError(
            f"host.drop_page_cache needs root ({error}): run as root, or leave it out of the"
            f" profile and run `sync; echo 1 | sudo tee {switch}` before"
        ) from error


def _wait_for_floor(floor_bytes: int, timeout_s: float, hurry: threading.Event) -> None:
    available = _waited(
        lambda: psutil.virtual_memory().available,
        until=lambda found: found >= floor_bytes,
        timeout_s=timeout_s,
        hurry=hurry,
    )
    if available < floor_bytes:
        raise HostError(
            f"{available >> 20} MiB of memory are available, and below host.memory_floor_bytes,"
            f" {floor_bytes >> 20} MiB, the server would be killed: end other programs first"
        )


def _wait_for_return(
    before: MemoryReading, limits: HostLimits, hurry: threading.Event
) -> MemoryReading:
    return _waited(
        memory_reading,
        until=lambda now: not_back(before, now, limits.memory_back_within_bytes) is None,
        timeout_s=limits.memory_back_timeout_s,
        hurry=hurry,
    )


def _waited(
    look: Callable[[], R], *, until: Callable[[R], bool], timeout_s: float, hurry: threading.Event
) -> R:
    """What was seen last: when it was good, when time was up, or when there is a hurry."""

    def last(state: RetryCallState) -> R:
        seen: R = state.outcome.result()  # type: ignore[union-attr]  # set once `look` returned
        return seen

    return Retrying(
        retry=retry_if_result(lambda seen: not until(seen)),
        stop=stop_after_delay(timeout_s) | stop_when_event_set(hurry),
        wait=wait_fixed(_LOOK_INTERVAL_S),
        sleep=sleep_using_event(hurry),
        retry_error_callback=last,
    )(look)
