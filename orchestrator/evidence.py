"""What is on disk of a start → evidence: decoded, digested, reconciled. Pure.

`run` and `analyze` both come through here, so a run is judged again from its raw bytes alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.accounting import host_findings
from orchestrator.comparing import Repeat
from orchestrator.decoding import decode
from orchestrator.digest import digests
from orchestrator.errors import ProbeError
from orchestrator.intending.rows import defining_property_findings
from orchestrator.judging.measured import ArmEvidence, CellEvidence
from orchestrator.metrics import delta, read_metrics
from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import Exchange
from orchestrator.model.host import HostAccount, MemorySample
from orchestrator.model.intent import IntentRow
from orchestrator.model.metrics import MetricsReading
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from orchestrator.model.serverlog import LogScan
from orchestrator.model.verdict import GateFinding, ProbeResult
from orchestrator.plateau import Served, plateaus
from orchestrator.reconciling import Measured, cell_findings, log_gates, start_findings
from orchestrator.throughput import cold_results
from orchestrator.volleys import MeasuredVolley, volley_findings


def arm_evidence(
    plan: Plan,
    arm: ArmPlan,
    *,
    outcome: Outcome,
    facts: EngineFacts | None,
    exchanges: Iterable[tuple[Exchange, str]],
    intent: tuple[IntentRow, ...],
    memory: Sequence[MemorySample],
    host: HostAccount | None,
    log: LogScan,
) -> ArmEvidence:
    """Turn one start's exchanges into evidence.

    Args:
        plan: The run's plan.
        arm: The start's part of it.
        outcome: How the start ended.
        facts: What the ready server said about itself; `None` when it never became ready.
        exchanges: In the order in which they were sent, each with the server's counters after it.
        intent: What was asked for, beside what the server said of it.
        memory: Samples of the machine's and the server's memory.
        host: What the start did to the machine; `None` when that was not saved.
        log: What the server's log says.
    """
    sent = list(exchanges)
    answered, problems = _read(plan, arm, [e for e in sent if e[0].times.probe.role != "cold"])
    lengths = _prompt_lengths(plan, answered)
    findings: tuple[GateFinding, ...] = ()
    if facts is not None:
        measured = {probe.id for cell in arm.cells for probe in cell.probes}
        ours = [answer for name, answer in answered.items() if name in measured]
        total = delta(ours[0].before, ours[-1].after) if ours else None
        findings = (
            *start_findings(arm, facts, total),
            *defining_property_findings(intent),
            *log_gates(log),
        )
    findings += host_findings(host)
    return ArmEvidence(
        plan=arm,
        outcome=outcome,
        cells=tuple(_cell(arm, cell, answered, problems, lengths) for cell in arm.cells),
        findings=findings,
        intent=intent,
        memory=plateaus(memory, _served(sent, lengths)),
        log_findings=log.findings,
        log_lines=log.lines,
        preemptions=_whole(read_metrics(sent[-1][1]).preemptions) if sent else None,
        cold=cold_results(arm, sent),
    )


def _served(sent: Sequence[tuple[Exchange, str]], lengths: Mapping[str, int]) -> list[Served]:
    """Everything that was sent and whose prompt's length is known."""
    times = [exchange.times for exchange, _ in sent]
    return [
        Served(prompt_tokens=lengths[entry.probe.prompt], started_s=entry.started_s)
        for entry in times
        if entry.probe.prompt in lengths
    ]


@dataclass(frozen=True, slots=True)
class _Answer:
    measured: Measured
    before: MetricsReading
    after: MetricsReading
    ended_s: float


def _read(
    plan: Plan, arm: ArmPlan, exchanges: Iterable[tuple[Exchange, str]]
) -> tuple[dict[str, _Answer], dict[str, str]]:
    """By probe id: every answer that can be decoded, and why another one cannot."""
    answered: dict[str, _Answer] = {}
    problems: dict[str, str] = {}
    before = MetricsReading()
    in_company = {p.id for cell in arm.cells if cell.concurrency > 1 for p in cell.probes}
    predicted = {
        probe.id: request.cached_tokens
        for cell in arm.cells
        if cell.prediction is not None
        for probe, request in zip(cell.probes, cell.prediction.requests, strict=True)
    }
    for exchange, counters in exchanges:
        after = read_metrics(counters)
        times = exchange.times
        if times.error is not None:
            problems[times.probe.id] = times.error
            before = after
            continue
        try:
            observation = decode(exchange.response, top_logprobs=plan.top_logprobs)
        except ProbeError as error:
            problems[times.probe.id] = str(error)
        else:
            answered[times.probe.id] = _Answer(
                Measured(
                    probe=times.probe,
                    observation=observation,
                    # What the counters say of a volley is said of no single request of it.
                    delta=MetricsReading()
                    if times.probe.id in in_company
                    else delta(before, after),
                    running_before=_busy(before),
                    predicted_cached_tokens=predicted.get(times.probe.id),
                    latency_s=times.latency_s,
                    started_s=times.started_s,
                ),
                before,
                after,
                times.started_s + times.latency_s,
            )
        before = after
    return answered, problems


def _busy(reading: MetricsReading) -> int | None:
    running, waiting = reading.requests_running, reading.requests_waiting
    return None if running is None or waiting is None else int(running + waiting)


def _prompt_lengths(plan: Plan, answered: Mapping[str, _Answer]) -> dict[str, int]:
    """In tokens, by key: as planned; of a chat, as its first answer counts it."""
    spans = () if plan.throughput is None else plan.throughput.spans
    lengths = {key: len(plan.prompt_ids(key)) for key in (*plan.prompts, *spans)}
    for answer in answered.values():
        measured = answer.measured
        lengths.setdefault(measured.probe.prompt, measured.observation.prompt_tokens)
    return lengths


def _cell(
    arm: ArmPlan,
    cell: CellPlan,
    answered: dict[str, _Answer],
    problems: dict[str, str],
    lengths: dict[str, int],
) -> CellEvidence:
    entries = [answered[probe.id] for probe in cell.probes if probe.id in answered]
    measured = [entry.measured for entry in entries]
    volleys = _volleys(cell, answered)
    findings = [
        GateFinding(rule=9, scope="cell", cell=cell.id, summary=f"{probe.id}: {problems[probe.id]}")
        for probe in cell.probes
        if probe.id in problems
    ]
    return CellEvidence(
        plan=cell,
        repeats=tuple(_repeat(m) for m in measured if m.probe.role == "b"),
        probes=tuple(_results(entries)),
        findings=(
            *findings,
            *(
                cell_findings(cell, measured, arm, expected_prompt=lengths)
                if cell.concurrency == 1
                else volley_findings(cell, volleys, arm, expected_prompt=lengths)
            ),
        ),
        steps=tuple(
            _whole(counted.delta.iteration_tokens_count)
            for counted in (measured if cell.concurrency == 1 else volleys)
        ),
    )


def _volleys(cell: CellPlan, answered: Mapping[str, _Answer]) -> list[MeasuredVolley]:
    """The volleys of a cell with `concurrency` that were answered in full."""
    if cell.concurrency == 1:
        return []
    found = []
    for first in range(0, len(cell.probes), cell.concurrency):
        ids = [probe.id for probe in cell.probes[first : first + cell.concurrency]]
        entries = [answered[name] for name in ids if name in answered]
        if len(entries) == len(ids):
            found.append(
                MeasuredVolley(
                    measured=tuple(entry.measured for entry in entries),
                    delta=delta(entries[0].before, entries[-1].after),
                    running_before=_busy(entries[0].before),
                )
            )
    return found


def _repeat(measured: Measured) -> Repeat:
    return Repeat(
        probe=measured.probe.id,
        observation=measured.observation,
        cached_tokens=measured.observation.cached_tokens,
        accepted_tokens=_whole(measured.delta.accepted_draft_tokens),
    )


def _results(entries: Sequence[_Answer]) -> Iterable[ProbeResult]:
    ended_s: float | None = None
    for entry in entries:
        measured, answer = entry.measured, entry.measured.observation
        yield ProbeResult(
            probe=measured.probe.id,
            role=_role(measured.probe),
            repeat=measured.probe.repeat,
            digests=digests(answer),
            text=answer.text,
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            predicted_cached_tokens=measured.predicted_cached_tokens,
            hit_tokens_delta=_whole(measured.delta.prefix_cache_hits_tokens),
            preemptions_delta=_whole(measured.delta.preemptions),
            draft_tokens_delta=_whole(measured.delta.draft_tokens),
            accepted_tokens_delta=_whole(measured.delta.accepted_draft_tokens),
            not_argmax=answer.not_argmax,
            prefill_s=measured.delta.prefill_time_s,
            first_token_s=measured.delta.time_to_first_token_s,
            latency_s=measured.latency_s,
            gap_s=None
            if ended_s is None or measured.started_s < ended_s
            else measured.started_s - ended_s,
        )
        ended_s = entry.ended_s


def _role(probe: ProbePlan) -> Literal["prime", "a", "b"]:
    if probe.role in ("ready", "warm-up", "cold"):
        raise AssertionError(probe)  # no cell has one
    return probe.role  # type: ignore[return-value]  # what is left, by the line above


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
