"""The order of things: arms, servers, cells, saves, judgement. No I/O of its own.

Each arm is one `with` block around one server. What an arm received is on disk before anything
looks at it; the judgement reads it back from there, and `analyze` takes the same way.
"""

import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import structlog

from orchestrator.errors import ArmError
from orchestrator.evidence import arm_evidence
from orchestrator.intending.rows import intent_rows
from orchestrator.judging.measured import ArmEvidence
from orchestrator.judging.runs import judge
from orchestrator.metrics import read_cache_config, read_metrics
from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import Exchange
from orchestrator.model.host import HostAccount, MemorySample
from orchestrator.model.outcome import Completed, Failed, Outcome, Stage
from orchestrator.model.patch import SHAM, Overlay, Removal
from orchestrator.model.plan import ArmPlan, ColdRun, Plan, ProbePlan
from orchestrator.model.resumption import Resumption
from orchestrator.model.verdict import ArmVerdict, RunVerdict
from orchestrator.patching.removal import OverlaidArm, judge_removal
from orchestrator.patching.reported import loaded_modules, marked_engine_cores
from orchestrator.requesting import request_body
from orchestrator.serverlog.scan import scan

log = structlog.get_logger()

SERVER_INFO, METRICS_AT_THE_END = "server-info.json", "metrics-end.txt"
PAGES = {SERVER_INFO: "/server_info?config_format=json", "metrics-ready.txt": "/metrics"}
"""Saved as they are when the server is ready; a server that does not give one leaves no file."""


class Server(Protocol):
    """A ready server."""

    def ask(self, probe: ProbePlan, body: bytes, /) -> Exchange:
        """Put one request, once; its bytes are kept before this returns or raises."""

    def ask_at_once(self, volley: Sequence[tuple[ProbePlan, bytes]], /) -> tuple[Exchange, ...]:
        """Put several at once, each once; otherwise the same."""

    def page(self, path: str, /) -> str | None:
        """A page as text."""

    def counters(self, *, finished: int | None) -> str:
        """The metrics lines that count, once `finished` requests are counted."""

    def rest(self, *, until_s: float) -> None:
        """Send nothing until then, on the clock of the exchanges, or until the server ends."""


class StartServer(Protocol):
    """Starts an arm's server; the end of the block stops it."""

    def __call__(
        self, arm: ArmPlan, ready_body: bytes, on_wait: Callable[[float, str], None], /
    ) -> AbstractContextManager[tuple[Server, EngineFacts]]:
        """Start, and wait until it is ready."""


class Store(Protocol):
    """Where an arm's files go."""

    def save_facts(self, arm: str, facts: EngineFacts, /) -> None:
        """Once, when the server is ready."""

    def save_page(self, arm: str, name: str, text: str, /) -> None:
        """A page of the server, as it is."""

    def save_counters(self, arm: str, probe: str, lines: str, /) -> None:
        """After every probe."""

    def save_outcome(self, arm: str, outcome: Outcome, /) -> None:
        """Once, when the server is gone."""


class Progress(Protocol):
    """What a person sees meanwhile."""

    def arm_started(self, arm: str, number: int, total: int, /) -> None:
        """Its server is being started."""

    def waiting(self, waited_s: float, last_line: str, /) -> None:
        """Its server is not ready yet."""

    def asked(self, cell: str, done: int, total: int, /) -> None:
        """One more probe was answered."""

    def arm_ended(self, arm: str, outcome: Outcome, /) -> None:
        """Its server is gone."""


def execute(
    plan: Plan,
    *,
    start_server: StartServer,
    store: Store,
    progress: Progress,
    kept: Collection[str] = (),
) -> None:
    """Run every arm of the plan, one after the other; a failed arm does not stop the next.

    Args:
        plan: What is meant to happen.
        start_server: How an arm's server is started.
        store: Where what it received goes.
        progress: Told how it goes on.
        kept: Arms that an earlier run has finished, and that are in the store already.

    Raises:
        HostError: The machine is at fault, so that the next arm cannot do better.
        InterruptedRunError: Everything is torn down and saved.
    """
    for number, arm in enumerate(plan.arms, start=1):
        if arm.name in kept:
            continue
        with structlog.contextvars.bound_contextvars(arm=arm.name):
            progress.arm_started(arm.name, number, len(plan.arms))
            outcome = _execute_arm(plan, arm, start_server, store, progress)
            store.save_outcome(arm.name, outcome)
            log.info("arm.finished", outcome=outcome.kind)
            progress.arm_ended(arm.name, outcome)


def _execute_arm(
    plan: Plan, arm: ArmPlan, start_server: StartServer, store: Store, progress: Progress
) -> Outcome:
    stage: Stage = "start"
    ready_body = request_body(plan, arm, arm.ready_probe)
    try:
        with start_server(arm, ready_body, progress.waiting) as (server, facts):
            store.save_facts(arm.name, facts)
            for name, path in PAGES.items():
                page = server.page(path)
                if page is not None:
                    store.save_page(arm.name, name, page)
            sequence = _Sequence(plan, arm, server, store, progress)
            sequence.count_ready()
            stage = "warm-up"
            for probe in arm.warm_up:
                sequence.ask(probe)
            stage = "probe"
            for cell, volley in arm.volleys:
                sequence.ask_at_once(cell, volley)
            for run in arm.cold:
                sequence.ask_cold(run)
            stage = "stop"
            page = server.page("/metrics")
            if page is not None:
                store.save_page(arm.name, METRICS_AT_THE_END, page)
    except ArmError as error:
        log.warning("arm.failed", stage=stage, error=str(error))
        return Failed(stage=stage, error=f"{type(error).__name__}: {error}")
    return Completed()


class _Sequence:
    """The requests of one start, volley after volley, with the counters between them."""

    def __init__(
        self, plan: Plan, arm: ArmPlan, server: Server, store: Store, progress: Progress
    ) -> None:
        self._progress = progress
        self._done = 0
        self._total = sum(len(cell.probes) for cell in arm.cells)
        self._total += sum(len(run.probes) for run in arm.cold)
        self._plan = plan
        self._arm = arm
        self._server = server
        self._store = store
        self._finished: int | None = None

    def count_ready(self) -> None:
        """Read the counters that the readiness probe left behind."""
        self._count((self._arm.ready_probe,), sent=None)

    def ask(self, probe: ProbePlan) -> Exchange:
        """Send one request, and read the counters once it is counted."""
        exchange = self._server.ask(probe, request_body(self._plan, self._arm, probe))
        self._count((probe,), sent=1)
        return exchange

    def ask_cold(self, run: ColdRun) -> None:
        """Send the requests of a length, and leave its memory as it is for as long as planned."""
        exchanges = []
        for probe in run.probes:
            exchanges.append(self.ask(probe))
            self._told(f"cold, {run.prompt_tokens} tokens", 1)
        if self._plan.throughput is not None:
            hold_s = self._plan.throughput.hold_s
            self._server.rest(until_s=exchanges[0].times.started_s + hold_s)

    def ask_at_once(self, cell: str, volley: Sequence[ProbePlan]) -> None:
        """Send a cell's next requests; what the counters then say is of all of them together."""
        if len(volley) == 1:
            self.ask(volley[0])
        else:
            bodies = [(probe, request_body(self._plan, self._arm, probe)) for probe in volley]
            self._server.ask_at_once(bodies)
            self._count(volley, sent=len(volley))
        self._told(cell, len(volley))

    def _told(self, where: str, answered: int) -> None:
        self._done += answered
        self._progress.asked(where, self._done, self._total)

    def _count(self, volley: Sequence[ProbePlan], *, sent: int | None) -> None:
        known = None if sent is None or self._finished is None else self._finished + sent
        lines = self._server.counters(finished=known)
        for probe in volley:
            self._store.save_counters(self._arm.name, probe.id, lines)
        seen = read_metrics(lines).requests_finished
        self._finished = None if seen is None else int(seen)


class StoredRun(Protocol):
    """A run that is on disk."""

    def outcome(self, arm: str, /) -> Outcome | None:
        """How an arm ended; `None` when it never did."""

    def facts(self, arm: str, /) -> EngineFacts | None:
        """`None` when its server never became ready."""

    def exchanges(self, arm: str, /) -> Iterator[tuple[Exchange, str]]:
        """In the order in which they were sent, each with the counters after it."""

    def overlay(self, arm: str, /) -> Overlay | None:
        """The patched copy that an arm ran on; `None` when it ran on none."""

    def log(self, arm: str, /) -> bytes:
        """The server's whole log; empty when there is none."""

    def log_blocks(self, arm: str, /) -> Iterator[bytes]:
        """The same, a block at a time."""

    def page(self, arm: str, name: str, /) -> str | None:
        """A page of the server that was saved; `None` when it was not."""

    def memory(self, arm: str, /) -> tuple[MemorySample, ...]:
        """Memory samples, in the order in which they were taken."""

    def resumption(self) -> Resumption | None:
        """What was kept of an earlier run; `None` when the run was not resumed."""

    def host(self, arm: str, /) -> HostAccount | None:
        """What it did to the machine; `None` when that was not saved."""


def judge_run(plan: Plan, stored: StoredRun) -> RunVerdict:
    """Judge a run from what is on disk.

    An arm without an outcome was never finished (the run was interrupted, or killed): it counts
    as failed, so that what it lacks is never taken for equality.

    Raises:
        RunFolderError: A part of an exchange is missing or cannot be read.
    """
    return judge_evidence(plan, stored_evidence(plan, stored), stored)


def stored_evidence(plan: Plan, stored: StoredRun) -> list[ArmEvidence]:
    """Every arm's evidence from what is on disk, in the order of the plan.

    Raises:
        RunFolderError: A part of an exchange is missing or cannot be read.
    """
    with _uncollected():
        return [_stored_evidence(plan, arm, stored) for arm in plan.arms]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the search for cycles: there are none, and it grows faster than the run.

    Decoded answers are millions of objects that all stay until the run is judged, and each full
    collection walks all that were made until then (decision 0017).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def judge_evidence(plan: Plan, evidence: Sequence[ArmEvidence], stored: StoredRun) -> RunVerdict:
    """Judge a run whose evidence was read already; `stored` tells what a patch loaded."""
    verdict = judge(plan, evidence, resumption=stored.resumption())
    removal = _removal(plan, verdict, stored)
    return verdict if removal is None else _with_removal(verdict, removal)


def _removal(plan: Plan, verdict: RunVerdict, stored: StoredRun) -> Removal | None:
    """Rule 7, for the first patched arm that is no sham."""
    arms = {arm.arm: arm for arm in verdict.arms}
    overlaid = [(arm.patch, _overlaid(arms[arm.name], stored)) for arm in plan.arms if arm.patch]
    patched = next((arm for patch, arm in overlaid if patch != SHAM and arm is not None), None)
    if patched is None:
        return None
    sham = next((arm for patch, arm in overlaid if patch == SHAM), None)
    control = None if plan.control is None else arms.get(plan.control)
    return judge_removal(control, patched, sham)


def _overlaid(verdict: ArmVerdict, stored: StoredRun) -> OverlaidArm | None:
    overlay = stored.overlay(verdict.arm)
    if overlay is None:
        return None
    log = stored.log(verdict.arm)
    return OverlaidArm(
        verdict=verdict,
        overlay=overlay,
        loaded=loaded_modules(log),
        marked=marked_engine_cores(log, overlay.provenance.marker),
    )


def _with_removal(verdict: RunVerdict, removal: Removal) -> RunVerdict:
    values = {name: getattr(verdict, name) for name in RunVerdict.model_fields}
    sentence = f"{verdict.sentence} {removal.sentence}"
    return RunVerdict(**(values | {"removal": removal, "sentence": sentence}))


def _stored_evidence(plan: Plan, arm: ArmPlan, stored: StoredRun) -> ArmEvidence:
    log_scan = scan(stored.log_blocks(arm.name))
    unfinished = Failed(stage="start", error="the run ended before this arm did")
    return arm_evidence(
        plan,
        arm,
        outcome=stored.outcome(arm.name) or unfinished,
        facts=stored.facts(arm.name),
        exchanges=stored.exchanges(arm.name),
        intent=intent_rows(
            arm,
            log=log_scan,
            cache=read_cache_config(stored.page(arm.name, METRICS_AT_THE_END) or ""),
            server_info=stored.page(arm.name, SERVER_INFO),
        ),
        memory=stored.memory(arm.name),
        host=stored.host(arm.name),
        log=log_scan,
    )
