"""How long a server that can answer waits for us: the readiness checks, seen from outside.

Somebody else asks `/health` every 5 ms, from the moment on that the server's port is known, and
notes the first 200. What passes until our readiness probe is sent is our polling and the checks of
who it is that answers; what passes until the first probe of the run contains that probe's answer.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import httpx
import psutil

from tests.bench.figures import Figure, figure
from tests.bench.serving import resolved, serving

STARTS = {"miniature": 10, "docker-miniature": 10, "vllm-cpu-tiny-hybrid": 3}
POLL_S = 0.005
MARK = "VLLM_ARMS_READINESS"


@dataclass
class Able:
    """When the server first answered somebody else."""

    at_s: float | None = None


def measure() -> Iterator[Figure]:
    """On both runtimes, and on the real vLLM."""
    for profile, starts in STARTS.items():
        seen = [_start(profile, number) for number in range(starts)]
        probed = [1000 * (probe_s - able_s) for able_s, probe_s, _ in seen]
        ready = [1000 * (ready_s - able_s) for able_s, _, ready_s in seen]
        yield figure(f"{profile}: able to answer, until our readiness probe", probed, "ms")
        yield figure(f"{profile}: able to answer, until the first probe", ready, "ms")


def _start(profile: str, number: int) -> tuple[float, float, float]:
    """On the monotonic clock: able to answer, readiness probe sent, ready for the first probe."""
    plan, arm = resolved("three-arm", profile, "contaminated")
    mark = f"{profile}-{number}"
    environment = {**arm.launch.environment, MARK: mark}
    launch = arm.launch.model_copy(update={"environment": environment})
    sent_s: list[float] = []
    marked = arm.model_copy(update={"launch": launch})
    with (
        _somebody_else(mark) as able,
        serving(plan, marked, also=lambda exchange: sent_s.append(exchange.times.started_s)),
    ):
        ready_s = time.monotonic()
    if able.at_s is None:
        raise AssertionError(f"{profile}: nobody else was answered")
    return able.at_s, sent_s[0], ready_s


@contextmanager
def _somebody_else(mark: str) -> Iterator[Able]:
    able, over = Able(), threading.Event()

    def poll() -> None:
        port: int | None = None
        with httpx.Client(trust_env=False, timeout=1.0) as http:
            while not over.wait(POLL_S) and able.at_s is None:
                port = port or _port_of(mark)
                with suppress(httpx.HTTPError):
                    url = f"http://127.0.0.1:{port}/health"
                    if port and http.get(url).status_code == httpx.codes.OK:
                        able.at_s = time.monotonic()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield able
    finally:
        over.set()
        thread.join()


def _port_of(mark: str) -> int | None:
    """Of the marked server, in a container too, as its command line names it."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, ValueError, IndexError):
            if process.environ().get(MARK) == mark:
                command = process.cmdline()
                return int(command[command.index("--port") + 1])
    return None
