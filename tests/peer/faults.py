"""What is put to both tools, at the same stage of the same work."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import httpx

from orchestrator.adapters.process_server import command_line, environment
from orchestrator.cli.planning import resolve_plan
from tests.conftest import PROJECT
from tests.peer.household import Household
from tests.peer.work import Work

MIDDLE = 6
"""Measured answers after which a fault comes; fifteen are still to be given."""

STRANGER_LIMIT_S = 30.0

Act = Callable[[subprocess.Popen[bytes], Household], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a job."""

    name: str

    act: Act | None = None
    """Done after `MIDDLE` answers. `None`: the fault is there from the beginning."""

    bad_flags: tuple[str, ...] = ()
    port_taken: bool = False
    references: bool = False


def signalled(number: signal.Signals) -> Act:
    """The signal, to the tool's own process and no other."""
    return lambda tool, _: tool.send_signal(number)


def kill_engine(_: subprocess.Popen[bytes], household: Household) -> None:
    """SIGKILL of the server's engine core, as the kernel does when memory runs out."""
    (core,) = household.engine_cores()
    core.kill()


BAD_FLAG = Fault("a flag that the server does not know", bad_flags=("--no-such-flag",))

FAULTS = (
    Fault("SIGINT in the middle", signalled(signal.SIGINT)),
    Fault("SIGTERM in the middle", signalled(signal.SIGTERM)),
    Fault("SIGKILL in the middle", signalled(signal.SIGKILL)),
    Fault("engine core killed in the middle", kill_engine),
    Fault("port served by another server", port_taken=True),
    BAD_FLAG,
    Fault("answers to one request that differ", references=True),
)


@contextmanager
def stranger(work: Work, port: int) -> Iterator[None]:
    """Serve the port with the miniature, under the name of the model that is asked for.

    Another vLLM would do as well, and take half a minute to be there.
    """
    planned = resolve_plan(work.folder, "three-arm", "miniature", "quick", ["clean"], None).plan
    launch = planned.arms[0].launch
    with subprocess.Popen(
        command_line(launch, port),
        env=environment(launch, {}),
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_for_health(port)
            yield
        finally:
            process.terminate()


def _wait_for_health(port: int) -> None:
    until_s = time.monotonic() + STRANGER_LIMIT_S
    while time.monotonic() < until_s:
        with suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/health").is_success:
                return
        time.sleep(0.02)
    raise AssertionError("the other server did not come up")
