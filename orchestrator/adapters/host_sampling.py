"""Memory of the machine and of one server, about once a second, for as long as the server lives.

Each sample is one line, written as soon as it is taken: like `server.log`, the file grows while the
arm runs. A run that is killed for want of memory is the one whose samples matter most, and neither
a `finally` nor a file written whole at the end would have them.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shutil import which

import psutil
import structlog

from orchestrator.model.host import MemoryReading, MemorySample

log = structlog.get_logger()

INTERVAL_S = 1.0
"""A prefill that moves memory takes seconds."""

LARGEST_SHARE = 0.01
"""Of one core's time: our part must not show in what is measured. A sample takes 1.3 ms where 84
processes run, mostly to find the server's among them; where so many run that it would exceed this
share, samples come less often."""

_END_LIMIT_S = 5.0
"""For a sample that is under way, and for nvidia-smi's end."""


@contextmanager
def sampled_memory(
    pids: Callable[[], Iterable[int]],
    path: Path,
    *,
    read_there: Callable[[], MemoryReading] | None = None,
    interval_s: float = INTERVAL_S,
) -> Iterator[None]:
    """Sample from another thread until the block is left, once at either end of it.

    A sample that cannot be written ends the sampling with a warning, and nothing else: the server
    is what the run is about.

    Args:
        pids: The server's living processes.
        path: Gets one `MemorySample` a line; must not exist.
        read_there: Reads the server's machine, where it is not this one.
        interval_s: From the end of one sample to the beginning of the next.
    """
    stop = threading.Event()
    machine = memory_here() if read_there is None else nullcontext(read_there)
    with path.open("xb", buffering=0) as file, machine as read:
        sampler = threading.Thread(
            target=_sample_until,
            args=(stop, interval_s, lambda: file.write(_line(pids(), read()))),
            name="memory",
            daemon=True,
        )
        sampler.start()
        try:
            yield
        finally:
            stop.set()
            sampler.join(_END_LIMIT_S)


def read_samples(content: bytes) -> tuple[MemorySample, ...]:
    """The samples of a file; the unfinished last line of a run that was killed is left out.

    Raises:
        pydantic.ValidationError: A finished line is no sample.
    """
    finished, _, _ = content.rpartition(b"\n")
    return tuple(MemorySample.from_json(line) for line in finished.splitlines())


def _sample_until(stop: threading.Event, interval_s: float, sample: Callable[[], object]) -> None:
    taken, pause_s = 0, 0.0
    try:
        while True:
            last = stop.wait(pause_s)
            spent_s = time.thread_time()
            sample()
            spent_s = time.thread_time() - spent_s
            taken += 1
            if last:
                break
            pause_s = max(interval_s, spent_s / LARGEST_SHARE)
    except (OSError, ValueError) as error:  # the disk; or the file was closed after the limit
        log.warning("memory.sampling_failed", error=str(error), taken=taken)
        return
    log.info("memory.sampled", taken=taken, processor_s=round(time.thread_time(), 3))


@contextmanager
def memory_here() -> Iterator[Callable[[], MemoryReading]]:
    """Gives a function that reads this machine's memory."""
    with gpu_memory() as read_gpu:
        yield lambda: MemoryReading(
            memory_available_bytes=psutil.virtual_memory().available,
            swap_free_bytes=psutil.swap_memory().free,
            gpu_used_bytes=read_gpu(),
        )


def _line(pids: Iterable[int], machine: MemoryReading) -> bytes:
    sample = MemorySample(
        at_s=time.monotonic(),
        memory_available_bytes=machine.memory_available_bytes,
        swap_free_bytes=machine.swap_free_bytes,
        server_resident_bytes=_resident_bytes(pids),
        gpu_used_bytes=machine.gpu_used_bytes,
    )
    return sample.model_dump_json().encode() + b"\n"


def _resident_bytes(pids: Iterable[int]) -> int | None:
    sizes = []
    for pid in pids:
        try:
            sizes.append(psutil.Process(pid).memory_info().rss)
        except psutil.Error:  # it ended meanwhile, or is another user's
            continue
    return sum(sizes) if sizes else None


@contextmanager
def gpu_memory() -> Iterator[Callable[[], tuple[int | None, ...] | None]]:
    """Gives a function for the used bytes of each GPU, as read since its last call.

    One nvidia-smi writes for as long as the block lasts: started for every sample, it would take
    20 ms of processor time each on an H200, and so it takes 1 ms a second. Should this program
    be killed, its closed pipe ends nvidia-smi within half a second (seen there too).
    """
    program = which("nvidia-smi")
    if program is None:
        yield lambda: None
        return
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb", buffering=0) as lines:
        process = subprocess.Popen(
            [program, *_QUERY],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.DEVNULL,
        )
        os.close(writing)
        try:
            yield lambda: used_bytes(lines.read() or b"")
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_LIMIT_S)
    except subprocess.TimeoutExpired:  # a driver that hangs must not keep the arm from ending
        log.warning("memory.nvidia_smi_hangs", pid=process.pid)
        process.kill()


_QUERY = (
    "--query-gpu=index,memory.used",
    "--format=csv,noheader,nounits",
    "--loop-ms=500",  # twice a second, so that no sample is without a reading of its own
)


def used_bytes(lines: bytes) -> tuple[int | None, ...] | None:
    """The last reading of each GPU in nvidia-smi's lines, such as `0, 1234` in MiB.

    Half a line at either end of a read counts as no reading; `None` without any.
    """
    used: dict[int, int | None] = {}
    for line in lines.decode("ascii", "replace").splitlines(keepends=True):
        index, _, mebibytes = line.partition(", ")
        if line.endswith("\n") and index.isdecimal():
            used[int(index)] = int(mebibytes) << 20 if mebibytes.strip().isdecimal() else None
    return tuple(used[index] for index in sorted(used)) if used else None
