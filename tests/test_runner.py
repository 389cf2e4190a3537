"""The order of things, with a fake server and a fake store of the real signatures."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from orchestrator.errors import (
    HostError,
    InterruptedRunError,
    OrchestratorError,
    ProbeError,
    ServerNotReadyError,
)
from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import Exchange, ExchangeTimes
from orchestrator.model.outcome import Completed, Failed, Outcome
from orchestrator.model.plan import ArmPlan, Plan, ProbePlan
from orchestrator.runner import execute
from tests.answers import body
from tests.definitions import experiment, plan


class FakeWorld:
    """Servers, store and progress in one, writing down what happens in order."""

    def __init__(self, failures: dict[str, OrchestratorError] | None = None) -> None:
        self.events: list[str] = []
        self.outcomes: dict[str, Outcome] = {}
        self.bodies: list[bytes] = []
        self._failures = failures or {}
        self._finished = 0

    @contextmanager
    def start_server(
        self, arm: ArmPlan, ready_body: bytes, on_wait: Callable[[float, str], None]
    ) -> Iterator[tuple["FakeWorld", EngineFacts]]:
        """A server that lives until the block ends."""
        self.events.append(f"start {arm.name}")
        on_wait(0.0, "loading")
        self.bodies.append(ready_body)
        self._finished = 1
        try:
            self._fail(f"start {arm.name}")
            yield self, facts()
        finally:
            self.events.append(f"stop {arm.name}")

    def ask(self, probe: ProbePlan, request: bytes) -> Exchange:
        """Answers at once."""
        self._fail(probe.id)
        self.events.append(f"ask {probe.id}")
        self.bodies.append(request)
        self._finished += 1
        times = ExchangeTimes(
            probe=probe,
            path="/",
            started_at=datetime(2026, 9, 14, tzinfo=UTC),
            started_s=0.0,
            latency_s=0.0,
            status=200,
            error=None,
        )
        return Exchange(times=times, request=request, response=body())

    def ask_at_once(self, volley: Sequence[tuple[ProbePlan, bytes]]) -> tuple[Exchange, ...]:
        """Answers all at once."""
        self.events.append(f"volley of {len(volley)}")
        return tuple(self.ask(probe, request) for probe, request in volley)

    def page(self, path: str) -> str | None:
        """Has metrics, and no server_info."""
        return "page" if path == "/metrics" else None

    def counters(self, *, finished: int | None) -> str:
        """Says how many requests are finished."""
        self.events.append(f"counters {finished}")
        return f"vllm:request_success_total {self._finished}\n"

    def rest(self, *, until_s: float) -> None:
        """Writes it down."""
        self.events.append(f"rest until {until_s:g}")

    def save_facts(self, arm: str, _: EngineFacts) -> None:
        """Writes it down."""
        self.events.append(f"facts {arm}")

    def save_page(self, arm: str, name: str, _: str) -> None:
        """Writes it down."""
        self.events.append(f"page {arm} {name}")

    def save_counters(self, _: str, probe: str, __: str) -> None:
        """Writes it down."""
        self.events.append(f"save {probe}")

    def save_outcome(self, arm: str, outcome: Outcome) -> None:
        """Writes it down."""
        self.events.append(f"outcome {arm}")
        self.outcomes[arm] = outcome

    def arm_started(self, arm: str, number: int, total: int) -> None:
        """Nobody looks."""

    def waiting(self, waited_s: float, last_line: str) -> None:
        """Nobody looks."""

    def asked(self, cell: str, done: int, total: int) -> None:
        """Nobody looks."""

    def arm_ended(self, arm: str, outcome: Outcome) -> None:
        """Nobody looks."""

    def _fail(self, where: str) -> None:
        if where in self._failures:
            raise self._failures[where]


def facts() -> EngineFacts:
    """Of a server that says nothing but what it must."""
    return EngineFacts(
        vllm_version="0.0.0",
        served_model_name="model",
        model_root=None,
        block_size_tokens=None,
        prefix_caching=None,
        mamba_cache_mode=None,
        kv_cache_tokens=None,
        port=1,
        isolation="session",
        ready_after_s=0.0,
    )


def small() -> Plan:
    """One document, two arms, as few probes as there can be."""
    asked = experiment(documents=["one"], repeats=2, reference_cells=False)
    return plan(asked, arms=["clean", "contaminated"])


def run(world: FakeWorld, made: Plan | None = None) -> FakeWorld:
    """Execute in the fake world."""
    execute(made or small(), start_server=world.start_server, store=world, progress=world)
    return world


def test_an_arm_goes_from_start_to_stop_in_one_order() -> None:
    """Facts and pages first, counters after every probe, the outcome when the server is gone."""
    events = run(FakeWorld()).events

    assert events[: events.index("outcome clean") + 1] == [
        "start clean", "facts clean", "page clean metrics-ready.txt",
        "counters None", "save 000-ready",
        "ask 001-warm-up", "counters 2", "save 001-warm-up",
        "ask 002-warm-up", "counters 3", "save 002-warm-up",
        "ask 003-b1", "counters 4", "save 003-b1",
        "ask 004-b2", "counters 5", "save 004-b2",
        "page clean metrics-end.txt", "stop clean", "outcome clean",
    ]  # fmt: skip


def test_cold_requests_come_last_and_each_length_is_held_for_its_memory() -> None:
    """After the cells, which they could evict; the exchanges of this world begin at 0 s."""
    asked = experiment(
        documents=["one"], repeats=2, reference_cells=False,
        throughput={"lengths": ["20", "40"], "documents": ["one"], "repeats": 2, "hold_s": 15.0},
    )  # fmt: skip
    events = run(FakeWorld(), plan(asked, arms=["clean"])).events
    sent = [event for event in events if event.startswith(("ask", "rest"))]

    assert sent == [
        "ask 001-warm-up", "ask 002-warm-up", "ask 003-b1", "ask 004-b2",
        "ask 005-cold20-0", "ask 006-cold20-1", "ask 007-cold20-2", "rest until 15",
        "ask 008-cold40-0", "ask 009-cold40-1", "ask 010-cold40-2", "rest until 15",
    ]  # fmt: skip
    assert "save 010-cold40-2" in events


def test_each_arm_has_its_own_server_lifetime() -> None:
    """An arm's server stops before the next one starts."""
    lifetimes = [event for event in run(FakeWorld()).events if event.startswith(("start", "stop"))]

    assert lifetimes == ["start clean", "stop clean", "start contaminated", "stop contaminated"]


@pytest.mark.parametrize(
    ("where", "error", "stage"),
    [
        ("start clean", ServerNotReadyError("slow"), "start"),
        ("001-warm-up", ProbeError("HTTP 500"), "warm-up"),
        ("004-b2", ProbeError("HTTP 500"), "probe"),
    ],
)
def test_a_failed_arm_is_recorded_with_its_stage_and_the_next_one_runs(
    where: str, error: OrchestratorError, stage: str
) -> None:
    """Its server is stopped, its outcome kept."""
    world = run(FakeWorld({where: error}), small().model_copy(deep=True))
    outcome = world.outcomes["clean"]

    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.error) == (stage, f"{type(error).__name__}: {error}")
    assert "stop clean" in world.events
    assert "outcome contaminated" in world.events


def test_the_arm_after_a_failed_one_completes() -> None:
    """A failure in one arm is no reason against another."""
    world = run(FakeWorld({"start clean": ServerNotReadyError("slow")}))

    assert isinstance(world.outcomes["contaminated"], Completed)


@pytest.mark.parametrize("error", [HostError("disk full"), InterruptedRunError("SIGINT")])
def test_what_is_no_arms_fault_ends_the_run_with_the_server_stopped(
    error: BaseException,
) -> None:
    """A full disk or a signal: the next arm is not started."""
    world = FakeWorld({"004-b2": error})

    with pytest.raises(type(error)):
        run(world)

    assert world.events[-1] == "stop clean"


def test_every_request_is_greedy_and_carries_its_cells_salt() -> None:
    """What is sent is decided by the plan alone."""
    made = small()
    world = run(FakeWorld(), made)

    assert len(world.bodies) == 2 * 3 + 2 + 3
    assert all(b'"temperature":0' in sent and b'"logprobs":4' in sent for sent in world.bodies)
    for cell in made.arms[0].cells:
        assert sum(cell.salt.encode() in sent for sent in world.bodies) == len(cell.probes)
    assert b'"max_tokens":1,' in world.bodies[0]


def test_a_volley_goes_out_at_once_and_its_counters_are_read_when_all_are_counted() -> None:
    """Four requests, one reading, filed under each of the four."""
    asked = experiment(
        documents=["one"], warm_up=False, repeats=2, reference_cells=False,
        arms=[{"name": "company", "cell": "reference", "concurrency": 4}], expectations={},
    )  # fmt: skip
    world = FakeWorld()

    execute(plan(asked), start_server=world.start_server, store=world, progress=world)

    first = world.events.index("volley of 4")
    ids = [event.removeprefix("ask ") for event in world.events[first + 1 : first + 5]]
    assert world.events.count("volley of 4") == 2
    assert world.events[first + 5] == "counters 5"  # the readiness probe, and these four
    assert world.events[first + 6 : first + 10] == [f"save {name}" for name in ids]
    assert len({json.loads(body)["cache_salt"] for body in world.bodies[1:]}) == 8
