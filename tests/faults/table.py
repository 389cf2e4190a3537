"""Which faults there are, where each can happen, and what a run may end with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.faults import actions
from tests.faults.actions import Struck

Runtime = Literal["process", "docker"]
RUNTIMES: tuple[Runtime, ...] = ("process", "docker")

LIFE = ("create", "start", "wait", "warm-up", "probe", "stop", "remove", "report")
REQUESTS = ("wait", "warm-up", "probe")

AS_MEASURED = frozenset({0, 1, 3})
"""The fault touches nothing that is evidence: any verdict may come of it, and the run is whole."""

INCONCLUSIVE, BROKEN, INTERRUPTED, KILLED = (frozenset({code}) for code in (3, 4, 130, -9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong."""

    name: str
    what: str
    stages: tuple[str, ...]
    runtimes: tuple[Runtime, ...] = RUNTIMES

    server: str = ""
    """Entry of MINIATURE_FAULTS; `@` and the stage's request are added when it has stages of
    requests."""

    act: Callable[[Struck], None] | None = None
    """What is done from outside when the stage is reached."""

    ends: frozenset[int]
    """Exit codes that are right, when it happens to evidence."""

    ends_otherwise: frozenset[int] | None = None
    """The same, when it happens to a request that is none (readiness, warm-up)."""

    needs: Literal["nothing", "small disk", "own mount", "own clock"] = "nothing"
    fast: tuple[str, ...] = ()
    """Stages that `make test` tries too, with a process."""

    def stages_on(self, runtime: Runtime) -> tuple[str, ...]:
        """Where it is put."""
        return tuple(s for s in self.stages if (s, runtime) != ("remove", "process"))

    def right(self, stage: str) -> frozenset[int]:
        """Exit codes that are right at this stage."""
        if stage == "wait" and self.ends_otherwise is not None and self.server:
            return self.ends_otherwise | BROKEN  # what answers readiness so is not ready
        if stage == "warm-up" and self.ends_otherwise is not None:
            return self.ends_otherwise
        return self.ends


def _answer(name: str, what: str, *, server: str = "", fast: tuple[str, ...] = ()) -> Fault:
    """An answer that is no evidence: nothing is claimed where it is a probe's."""
    return Fault(
        name=name, what=what, stages=REQUESTS, server=server or name, fast=fast,
        ends=INCONCLUSIVE | BROKEN, ends_otherwise=AS_MEASURED | BROKEN,
    )  # fmt: skip


def _request(name: str, what: str, *, server: str = "", fast: tuple[str, ...] = ()) -> Fault:
    """No answer: the arm fails, wherever it happens."""
    return Fault(
        name=name, what=what, stages=REQUESTS, server=server or name, fast=fast, ends=BROKEN,
    )  # fmt: skip


FAULTS = (
    Fault(
        name="SIGINT", what="Ctrl-C", stages=LIFE, act=actions.interrupt, ends=INTERRUPTED,
        fast=("wait", "probe"),
    ),
    Fault(
        name="SIGTERM", what="the system asks to end", stages=LIFE, act=actions.terminate,
        ends=INTERRUPTED, fast=("start", "stop"),
    ),
    Fault(
        name="SIGKILL", what="the orchestrator is killed", stages=LIFE, act=actions.kill,
        ends=KILLED, fast=("probe",),
    ),
    Fault(
        name="crash at start", what="traceback and exit code 1 while starting",
        stages=("wait",), server="crash-at-start", ends=BROKEN, fast=("wait",),
    ),
    Fault(
        name="log flood", what="1 GB of log, in lines of a kibibyte, while starting",
        stages=("wait",), server="log-flood=1000000", ends=AS_MEASURED,
    ),
    Fault(
        name="orphan", what="a child that keeps the port and ignores SIGTERM", stages=("stop",),
        server="orphan", ends=AS_MEASURED,
    ),
    _request("exit", "exit code 0 in the middle of a request", server="exit-0", fast=("probe",)),
    _request("engine dies", "500, then /health 503, then exit code 0", server="engine-dies"),
    _request("hang", "the engine never computes again", fast=("probe",)),
    _request("freeze", "the whole process stops (SIGSTOP)"),
    _request("500", "an error", server="status=500"),
    _request("429", "an error", server="status=429", fast=("probe",)),
    _request("redirect", "307 to another path"),
    _request("reset", "the connection is closed in the middle of the body", server="cut-off"),
    _request("huge body", "100 MiB of blanks follow the answer", server="huge=100"),
    Fault(
        name="slow drip", what="the answer comes in ten pieces within 2 s", stages=REQUESTS,
        server="drip=0.2", ends=AS_MEASURED,
    ),
    _answer("truncated JSON", "the body ends in the middle", server="truncated-json"),
    _answer("HTML", "a page with status 200", server="html", fast=("probe",)),
    _answer("wrong JSON", "JSON of another shape", server="wrong-json"),
    _answer("wrong model", "the answer names another model", server="wrong-model"),
    _answer("NaN", "the first candidate is NaN", server="nan", fast=("probe",)),
    _answer("-9999", "the last candidate is vLLM's floor", server="floor"),
    _answer("short list", "one candidate less", server="short-list"),
    _answer("preemption", "the request is preempted", server="preempt"),
    _answer("eviction", "the cache is emptied before the request", server="evict"),
    _answer("cached null", "cached_tokens is null", server="cached-null", fast=("probe",)),
    _answer("cached absent", "no details of the prompt's tokens", server="cached-absent"),
    _answer("cached negative", "cached_tokens is -32", server="cached-negative"),
    _answer("cached too large", "cached_tokens is the prompt's length", server="cached-too-large"),
    Fault(
        name="port stolen", what="a stranger listens on the server's port before it does",
        stages=("start",), runtimes=("process",), act=actions.steal_port, ends=BROKEN,
        fast=("start",),
    ),
    Fault(
        name="disk full", what="a tmpfs of 64 MiB is filled to the last byte",
        stages=("create", "wait", "warm-up", "probe", "stop", "report"), act=actions.fill_disk,
        needs="small disk", ends=BROKEN,
    ),
    Fault(
        name="folder removed", what="rm -r of the run's folder",
        stages=("wait", "warm-up", "probe", "stop", "report"), act=actions.remove_folder,
        ends=BROKEN,
    ),
    Fault(
        name="folder read-only", what="the run's folder is remounted read-only",
        stages=("wait", "warm-up", "probe", "stop", "report"), act=actions.make_read_only,
        needs="own mount", ends=BROKEN,
    ),
    Fault(
        name="clock set back", what="the orchestrator's wall clock goes back by an hour",
        stages=("start", "wait", "warm-up", "probe", "stop", "report"), act=actions.set_clock_back,
        needs="own clock", ends=AS_MEASURED,
    ),
    Fault(
        name="engine restart", what="dockerd is killed (SIGKILL) and started again",
        stages=("wait", "probe"), runtimes=("docker",), act=actions.restart_engine, ends=BROKEN,
    ),
    Fault(
        # Every answer and counter is on disk by then. Whether the arm counts as failed hangs on
        # whether the engine is back in time for its log, its inspection and its removal.
        name="engine restart", what="dockerd is killed (SIGKILL) and started again",
        stages=("stop",), runtimes=("docker",), act=actions.restart_engine,
        ends=AS_MEASURED | BROKEN,
    ),
)  # fmt: skip

CANNOT_EXIST = (
    ("remove", "process", "every fault", "a process is gone when it has ended; nothing is removed"),
    (
        "log save",
        "both",
        "every fault",
        (
            "no stage of its own: the log streams to its file from the first byte on, and what is "
            "still written when the server has ended is hit by `stop` and `remove`"
        ),
    ),
    ("create", "both", "faults of the server", "there is no server yet"),
    ("start, stop, remove, report", "both", "faults of an answer", "no request is under way"),
    ("report", "both", "faults of the server", "the server is gone"),
    (
        "start",
        "docker",
        "port stolen",
        (
            "the engine binds the port before the server's first instruction; one taken earlier is "
            "refused with its name (`tests/test_docker_server.py`)"
        ),
    ),
    ("every stage", "process", "engine restart", "there is no engine"),
    (
        "create, start, remove",
        "both",
        "folder removed, folder read-only",
        (
            "as `wait` or `report`: nothing but the server's log is written between them, and that "
            "is open already"
        ),
    ),
    (
        "probe",
        "both",
        "empty stop entry",
        (
            "only chat answers have one, and the experiment asks for completions; decoding it is "
            "tested apart (`tests/miniature/test_faults.py`)"
        ),
    ),
)
"""Stage, runtime, fault, and why the combination is not in the table."""
