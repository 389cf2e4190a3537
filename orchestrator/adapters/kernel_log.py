"""The kernel's log from one moment to another, where we may read it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.accounting import count_kernel_lines
from orchestrator.model.host import KernelCounts

KERNEL_LOG = "/dev/kmsg"
"""Readable for root and CAP_SYSLOG, and for everybody where kernel.dmesg_restrict is 0."""

_LONGEST_RECORD_BYTES = 8192
"""The kernel refuses a read into less than one record (PRINTKRB_RECORD_MAX is 1024 of text)."""


class KernelLog:
    """What the kernel logs from now on; a place in its ring buffer, so nothing runs meanwhile."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def counts(self) -> KernelCounts | None:
        """Counted since the last call, or since the beginning; `None`: it cannot be read."""
        if self._descriptor is None:
            return None
        messages: list[str] = []
        lost = False
        while True:
            try:
                record = os.read(self._descriptor, _LONGEST_RECORD_BYTES)
            except BlockingIOError:
                return count_kernel_lines(messages, lost=lost)
            except BrokenPipeError:  # our place was written over; the next read goes on after it
                lost = True
            else:
                messages.append(message(record))


def message(record: bytes) -> str:
    """The text of one record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg)."""
    first_line = record.split(b"\n", 1)[0]
    return first_line.partition(b";")[2].decode("utf-8", "replace")


@contextmanager
def kernel_log(path: str = KERNEL_LOG) -> Iterator[KernelLog]:
    """Gives the kernel's log from here on; one that counts nothing where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield KernelLog(None)
        return
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
        yield KernelLog(descriptor)
    finally:
        os.close(descriptor)
