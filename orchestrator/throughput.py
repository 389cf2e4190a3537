"""Cold requests as they happened → times, or why a request is no measurement. Pure.

Two clocks time each: ours, from the first byte sent to the arrival of the first token, and the
server's own prefill histogram, of which one request's share is the difference of two readings. They
differ by what is neither scheduling nor computing: HTTP, reading the prompt, sending the token.
"""

from collections.abc import Sequence
from itertools import pairwise

from orchestrator.errors import ProbeError
from orchestrator.metrics import delta, read_metrics
from orchestrator.model.exchange import Exchange
from orchestrator.model.metrics import MetricsReading
from orchestrator.model.plan import ArmPlan, ProbePlan
from orchestrator.model.stacks import ColdResult
from orchestrator.streaming import StreamedAnswer, decode_stream


def cold_results(arm: ArmPlan, sent: Sequence[tuple[Exchange, str]]) -> tuple[ColdResult, ...]:
    """Every cold request that was planned, in order; one that was not sent says so.

    Args:
        arm: The start's plan.
        sent: All exchanges of the start in order, each with the server's counters after it.
    """
    happened = {
        exchange.times.probe.id: (exchange, before, after)
        for (_, before), (exchange, after) in pairwise(sent)
    }
    return tuple(
        _unmeasured(run.prompt_tokens, probe, "it was not sent")
        if probe.id not in happened
        else _result(run.prompt_tokens, probe, *happened[probe.id])
        for run in arm.cold
        for probe in run.probes
    )


def _result(
    tokens: int, probe: ProbePlan, exchange: Exchange, counters_before: str, counters_after: str
) -> ColdResult:
    if exchange.times.error is not None:
        return _unmeasured(tokens, probe, exchange.times.error)
    try:
        answer = decode_stream(exchange.response, exchange.times.arrivals)
    except ProbeError as error:
        return _unmeasured(tokens, probe, str(error))
    before = read_metrics(counters_before)
    added = delta(before, read_metrics(counters_after))
    problem = _problem(tokens, answer, before, added)
    if problem is not None:
        return _unmeasured(tokens, probe, problem)
    return ColdResult(
        probe=probe.id,
        prompt_tokens=tokens,
        repeat=probe.repeat or 0,
        problem=None,
        first_token_s=answer.first_token_s,
        prefill_s=added.prefill_time_s,
        decode_tokens_per_s=answer.decode_tokens_per_s,
        draft_tokens=_whole(added.draft_tokens),
        accepted_tokens=_whole(added.accepted_draft_tokens),
    )


def _unmeasured(tokens: int, probe: ProbePlan, problem: str) -> ColdResult:
    return ColdResult(
        probe=probe.id,
        prompt_tokens=tokens,
        repeat=probe.repeat or 0,
        problem=problem,
        first_token_s=None,
        prefill_s=None,
        decode_tokens_per_s=None,
        draft_tokens=None,
        accepted_tokens=None,
    )


def _problem(
    tokens: int, answer: StreamedAnswer, before: MetricsReading, added: MetricsReading
) -> str | None:
    """Why it is no cold request of this length on an idle server; the first reason that holds."""
    served = (answer.cached_tokens, added.prefix_cache_hits_tokens)
    problems = {
        f"the server counted {answer.prompt_tokens} prompt tokens, {tokens} planned": (
            answer.prompt_tokens != tokens
        ),
        "neither the answer nor a counter says whether it was served from a cache": (
            served == (None, None)
        ),
        f"it was not cold: cached tokens {served[0]} by the answer, {served[1]} by the counter": (
            any(served)
        ),
        "other requests were running or waiting": (
            bool(before.requests_running or before.requests_waiting)
        ),
        f"{added.preemptions} preemptions during the request": bool(added.preemptions),
        f"the server finished {added.requests_finished} requests, not 1": (
            added.requests_finished not in (None, 1)
        ),
    }
    return next((problem for problem, holds in problems.items() if holds), None)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
