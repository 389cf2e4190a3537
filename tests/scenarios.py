"""Whole runs made by construction: every probe's answer and counters are chosen by the test.

`Scenario.judge()` takes the way of the product: exchanges → evidence → verdict.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import Exchange, ExchangeTimes
from orchestrator.model.host import HostAccount, MemorySample
from orchestrator.model.outcome import Completed, Failed, Outcome
from orchestrator.model.patch import Overlay
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from orchestrator.model.resumption import Resumption
from orchestrator.model.verdict import CellVerdict, RunVerdict
from orchestrator.runner import judge_run
from tests.answers import PLAIN, Pair, body, moved
from tests.definitions import plan as make_plan

Lists = Sequence[Sequence[Pair]]
CACHED = 16


@dataclass
class Reply:
    """What the server answers to one probe."""

    lists: Lists = PLAIN
    cached: int | None = 0
    hits: int | None = None
    """Delta of the hit counter; `cached` when not said."""

    preemptions: int = 0
    accepted: int = 0
    running: int = 0
    prompt_tokens: int | None = None
    chosen: Sequence[int] | None = None
    raw: bytes | None = None
    lost: bool = False
    """The probe was never sent."""

    error: str | None = None
    """No whole answer came."""

    finished: int = 1
    """Requests that the server counts as finished in between."""

    prefill_s: float | None = None
    """What the server's prefill histogram grew by; the page has none when not said."""

    steps: int = 1
    """Steps of the engine that the page counts in between."""

    lacks: str = ""
    """A counter that the page after this probe does not have."""


Script = Callable[[ArmPlan, CellPlan, ProbePlan], Reply]
Change = Callable[[Reply, ArmPlan, CellPlan, ProbePlan], None]


def plain(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
    """A server without the effect: cold once, then from the cache, always the same answer."""
    hit = arm.prefix_caching == "on" and probe.role == "b" and (probe.repeat or 0) > 1
    return Reply(lists=_of_document(cell.document), cached=CACHED if hit else 0)


def affected(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
    """A server with it: after A, every cached repeat of B differs from the reference."""
    reply = plain(arm, cell, probe)
    if cell.kind == "contaminated" and reply.cached:
        reply.lists = _of_document(cell.document, moved(0))
    return reply


def changed(script: Script, change: Change) -> Script:
    """A script with something else in some of its replies."""

    def played(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = script(arm, cell, probe)
        change(reply, arm, cell, probe)
        return reply

    return played


def _of_document(name: str, lists: Lists = PLAIN) -> Lists:
    """Another document gives other numbers."""
    shift = 0.0 if name == "one" else -0.5
    return [[(token, value + shift) for token, value in entries] for entries in lists]


@dataclass
class Scenario:
    """A run: a plan, and what its servers answered."""

    script: Script = affected
    plan: Plan = field(default_factory=make_plan)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    said: dict[str, dict[str, object]] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    cache_labels: dict[str, dict[str, str]] = field(default_factory=dict)
    overlays: dict[str, Overlay] = field(default_factory=dict)
    resumed: Resumption | None = None

    def judge(self) -> RunVerdict:
        """As `run` and `analyze` do."""
        return judge_run(self.plan, self)

    def cell(self, arm: str, document: str = "one", a: int | None = 31) -> CellVerdict:
        """One measured cell of the judged run."""
        verdicts = {entry.arm: entry for entry in self.judge().arms}
        wanted = a if arm != "clean" else None
        return next(
            cell
            for cell in verdicts[arm].cells
            if cell.document == document and cell.a_tokens == wanted
        )

    def outcome(self, arm: str) -> Outcome | None:
        """Completed, unless the test says otherwise."""
        return self.outcomes.get(arm, Completed())

    def _facts_of(self, arm: ArmPlan) -> EngineFacts:
        """What the plan declares, unless the test says otherwise."""
        values: dict[str, object] = {
            "vllm_version": "0.0.0",
            "served_model_name": "model",
            "model_root": None,
            "block_size_tokens": 16,
            "prefix_caching": arm.prefix_caching == "on",
            "mamba_cache_mode": "align",
            "kv_cache_tokens": 100_000,
            "port": 1,
            "isolation": "session",
            "ready_after_s": 1.0,
        }
        return EngineFacts.model_validate(values | self.said.get(arm.name, {}))

    def facts(self, arm: str) -> EngineFacts | None:
        """By name; none when the arm failed before it was ready."""
        outcome = self.outcome(arm)
        if isinstance(outcome, Failed) and outcome.stage in ("start", "wait"):
            return None
        return self._facts_of(next(entry for entry in self.plan.arms if entry.name == arm))

    def overlay(self, arm: str) -> Overlay | None:
        """None, unless the test says that the arm is patched."""
        return self.overlays.get(arm)

    def log(self, arm: str) -> bytes:
        """Nothing, unless the test says otherwise."""
        return self.logs.get(arm, b"")

    def log_blocks(self, arm: str) -> Iterator[bytes]:
        """The same in one block."""
        yield self.log(arm)

    def log_file(self, arm: str) -> str | None:
        """Where it would lie."""
        return "server.log" if self.logs.get(arm) else None

    def memory(self, arm: str) -> tuple[MemorySample, ...]:
        """Not sampled."""
        assert arm
        return ()

    def resumption(self) -> Resumption | None:
        """In one go, unless the test says otherwise."""
        return self.resumed

    def host(self, arm: str) -> HostAccount | None:
        """Not accounted for."""
        assert arm

    def page(self, arm: str, name: str) -> str | None:
        """The engine's own words on its cache; `cache_labels` says what else it says."""
        if name != "metrics-end.txt":
            return None
        planned = next(entry for entry in self.plan.arms if entry.name == arm)
        labels = {
            "block_size": "16",
            "enable_prefix_caching": str(planned.prefix_caching == "on"),
        } | self.cache_labels.get(arm, {})
        told = ",".join(f'{key}="{value}"' for key, value in labels.items())
        return f"vllm:cache_config_info{{{told}}} 1.0\n"

    def exchanges(self, arm: str) -> Iterator[tuple[Exchange, str]]:
        """Every probe of the arm, answered as the script says."""
        planned = next(entry for entry in self.plan.arms if entry.name == arm)
        counters = {"hits": 0, "preemptions": 0, "accepted": 0, "finished": 1, "steps": 1}
        prefill_s = 0.0
        zero = 'vllm:request_prefill_time_seconds_sum{engine="0"} 0.0\n'
        yield self._exchange(planned.ready_probe, Reply()), _page(counters, 0) + zero
        replies = sorted(
            (
                (probe, self.script(planned, cell, probe))
                for cell in planned.cells
                for probe in cell.probes
            ),
            key=lambda sent: int(sent[0].id.partition("-")[0]),
        )
        for number, (probe, reply) in enumerate(replies, start=1):
            following = replies[number][1].running if number < len(replies) else 0
            if reply.lost:
                continue
            hits = reply.hits if reply.hits is not None else reply.cached or 0
            counters["hits"] += hits
            counters["preemptions"] += reply.preemptions
            counters["accepted"] += reply.accepted
            counters["finished"] += reply.finished
            counters["steps"] += reply.steps
            page = _page(counters, following, lacks=reply.lacks)
            if reply.prefill_s is not None:
                prefill_s += reply.prefill_s
                page += f'vllm:request_prefill_time_seconds_sum{{engine="0"}} {prefill_s}\n'
            yield self._exchange(probe, reply), page

    def _exchange(self, probe: ProbePlan, reply: Reply) -> Exchange:
        answer = reply.raw or self.body_of(probe, reply)
        times = ExchangeTimes(
            probe=probe,
            path="/v1/completions",
            started_at=datetime(2026, 9, 14, tzinfo=UTC),
            started_s=1.0,
            latency_s=0.1,
            status=200,
            error=reply.error,
        )
        return Exchange(times=times, request=b"{}", response=answer)

    def body_of(self, probe: ProbePlan, reply: Reply) -> bytes:
        """The answer to a probe, in the shape of its endpoint."""
        planned = self.plan.prompts.get(probe.prompt)
        length = 100 if planned is None else len(planned.token_ids)
        return body(
            reply.lists,
            cached=reply.cached,
            prompt_tokens=reply.prompt_tokens or length,
            chosen=reply.chosen,
        )


def _page(counters: dict[str, int], running: int, *, lacks: str = "") -> str:
    names = {
        "hits": "vllm:prefix_cache_hits_total",
        "preemptions": "vllm:num_preemptions_total",
        "accepted": "vllm:spec_decode_num_accepted_tokens_total",
        "finished": "vllm:request_success_total",
        "steps": "vllm:iteration_tokens_total_count",
    }
    lines = [
        f'{names[key]}{{engine="0"}} {value}.0' for key, value in counters.items() if key != lacks
    ]
    lines.append(f'vllm:num_requests_running{{engine="0"}} {running}.0')
    lines.append('vllm:num_requests_waiting{engine="0"} 0.0')
    return "\n".join(lines) + "\n"
