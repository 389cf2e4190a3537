"""A job done from beginning to end, with a fault in it or none, and what is seen of it."""

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.adapters.process_server import free_port
from orchestrator.model.record import Record
from tests.conftest import COMMAND, PROJECT
from tests.peer.faults import MIDDLE, Fault, stranger
from tests.peer.household import Household
from tests.peer.jobs import OURS, Job, our_job, peer_job
from tests.peer.keeping import Kept, kept_by
from tests.peer.timeline import Event, measured, read_events
from tests.peer.work import Work, work_in

JOB_LIMIT_S = 420.0
"""Above the 300 s that either tool gives a server to become ready."""

LEAVES_S = 5.0
"""How long what a dead tool started may take to notice it; an idle vLLM needs 2 s."""

LOOK_EVERY_S = 0.5

SAID = re.compile(
    r"^(?:[\w-]+: failed after|error: |Affected|[\w.]*(?:Error|Interrupt)\b).*", re.MULTILINE
)
"""What a tool says of how it ended: our sentences, and the last lines of tracebacks."""


class Seen(Record):
    """What one job came to; times in seconds of CLOCK_MONOTONIC."""

    tool: str
    fault: str | None
    exit_code: int | None
    """Negative: the signal that ended it; `None`: it did not end in time."""

    started_s: float
    struck_s: float | None
    """`None`: a fault that is there from the beginning, or none."""

    ended_s: float
    said: tuple[str, ...]
    has_traceback: bool
    left: tuple[str, ...]
    """Its processes that are there `LEAVES_S` after its end."""

    left_after_reap: tuple[str, ...]
    """The same after `vllm-arms reap`, which only knows our own."""

    shared_memory_left: int
    """Segments in /dev/shm that were not there before."""

    answered: int
    """Measured requests that its own servers answered with 200."""

    kept: Kept

    @property
    def took_s(self) -> float:
        """From the fault, or from the beginning where there is no moment of it, to the end."""
        return self.ended_s - (self.started_s if self.struck_s is None else self.struck_s)


@dataclass(frozen=True, slots=True)
class Play:
    """What is left of a job once its folder is gone."""

    seen: Seen
    events: list[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    job: Job
    work: Work
    process: subprocess.Popen[bytes]
    household: Household
    started_s: float

    @property
    def events(self) -> list[Event]:
        """Of the servers so far."""
        with suppress(FileNotFoundError):
            return read_events(self.work.stopwatch.read_text("utf-8"))
        return []


def played(tool: str, arms: Sequence[str], fault: Fault | None = None) -> Play:
    """Do the job in a folder of its own, and leave no process behind."""
    fault = fault or Fault("")
    with tempfile.TemporaryDirectory(prefix="vllm-arms-peer-") as folder, ExitStack() as company:
        work = work_in(Path(folder), arms, references=fault.references, bad_flags=fault.bad_flags)
        port = free_port()
        job = our_job(work) if tool == OURS else peer_job(work, port)
        if fault.port_taken and tool != OURS:
            company.enter_context(stranger(work, port))
        segments = _segments()
        running = company.enter_context(_started(job, work))
        if fault.port_taken and tool == OURS:
            # It never takes a port that is served, so this one is taken once it was chosen.
            company.enter_context(stranger(work, _chosen_port(running)))
        struck_s = _followed(running, fault)
        ended_s = time.monotonic()
        return Play(_seen(running, fault, struck_s, ended_s, segments), running.events)


@contextmanager
def _started(job: Job, work: Work) -> Iterator[_Running]:
    with (
        (work.folder / "told.txt").open("wb") as output,
        subprocess.Popen(
            job.argv, env=job.environment, cwd=PROJECT, stdout=output, stderr=output
        ) as process,
    ):
        household = Household(process.pid)
        started_s = time.monotonic()
        try:
            yield _Running(
                job=job, work=work, process=process, household=household, started_s=started_s
            )
        finally:
            process.kill()  # where it has not ended by itself
            household.end()


def _chosen_port(running: _Running) -> int:
    while running.process.poll() is None:
        running.household.look()
        port = running.household.port()
        if port is not None:
            return port
    raise AssertionError("no server was started")


def _followed(running: _Running, fault: Fault) -> float | None:
    """Look on until the job has ended, and act in its middle; returns when that was."""
    struck_s, looked_s = None, 0.0
    while running.process.poll() is None and time.monotonic() - running.started_s < JOB_LIMIT_S:
        if time.monotonic() - looked_s > LOOK_EVERY_S:
            running.household.look()
            looked_s = time.monotonic()
        if fault.act is not None and struck_s is None and _answered(running.events) >= MIDDLE:
            running.household.look()
            fault.act(running.process, running.household)
            struck_s = time.monotonic()
        time.sleep(0.01)
    return struck_s


def _seen(
    running: _Running, fault: Fault, struck_s: float | None, ended_s: float, segments: set[str]
) -> Seen:
    left = _left(running.household)
    if running.job.tool == OURS:
        reap = [*COMMAND, "reap", "--project", str(running.work.folder)]
        subprocess.run(reap, capture_output=True, check=False)
    told = (running.work.folder / "told.txt").read_text("utf-8", "replace")
    return Seen(
        tool=running.job.tool,
        fault=fault.name or None,
        exit_code=running.process.returncode,
        started_s=running.started_s,
        struck_s=struck_s,
        ended_s=ended_s,
        said=tuple(dict.fromkeys(SAID.findall(told))),
        has_traceback="Traceback (most recent call last)" in told,
        left=left,
        left_after_reap=running.household.names(),
        shared_memory_left=len(_segments() - segments),
        answered=_answered(running.events),
        kept=kept_by(running.job),
    )


def _left(household: Household) -> tuple[str, ...]:
    until_s = time.monotonic() + LEAVES_S
    while (names := household.names()) and time.monotonic() < until_s:
        time.sleep(0.1)
    return names


def _answered(events: Sequence[Event]) -> int:
    return sum(event.status == 200 for event in measured(events))


def _segments() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("psm_*")}  # noqa: S108 - where they are
