"""The columns of an experiment side by side: speed, memory, how each start went. Pure.

**Pairs.** Every start was sent the same cold requests, so a column's request is paired with the
base's of the same start number and repeat, and a ratio is of their times to the first token.

**When "faster" is said.** All of this, else what is missing is said instead:

- the interval of the median ratio (`statistics.py`) lies wholly on one side of 1. It covers chance
  among requests, and nothing that holds for a whole start;
- with several starts a column, the median ratio lies on that side for *every* start of the one
  against every start of the other. What drifts with time is on both sides of such a comparison, in
  an order and its reverse;
- and the two columns differ by more than the starts of either differ among themselves (the drift).

Two starts a column give no interval over starts (without any difference the second condition holds
by chance in 2 of 6 orders of four starts): what is said holds for these starts.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import median

from orchestrator.model.outcome import Failed, Outcome
from orchestrator.model.plan import ArmPlan, Plan
from orchestrator.model.stacks import (
    ColdResult,
    Column,
    Faster,
    LengthRow,
    Ratio,
    Speed,
    StackComparison,
    StartLine,
)
from orchestrator.model.verdict import ArmVerdict
from orchestrator.statistics import CONFIDENCE, median_interval, summary

Times = Mapping[int, float]
"""Of one start at one length: repeat to seconds until the first token."""


def compare_stacks(
    plan: Plan,
    results: Mapping[str, Sequence[ColdResult]],
    lines: Mapping[str, StartLine],
) -> StackComparison | None:
    """Set the columns of a run side by side; `None` when nothing was asked of speed.

    Args:
        plan: The run's plan.
        results: The cold requests of each start, by its name.
        lines: How each start went, likewise.
    """
    if plan.throughput is None:
        return None
    columns: dict[str, list[ArmPlan]] = {}
    for arm in plan.arms:
        columns.setdefault(arm.column, []).append(arm)
    base = plan.control or plan.arms[0].column
    measured = {
        name: [[r for r in results[arm.name] if r.repeat > 0] for arm in starts]
        for name, starts in columns.items()
    }
    lengths = [run.prompt_tokens for run in plan.arms[0].cold]
    return StackComparison(
        base=base,
        order=tuple(arm.name for arm in plan.arms),
        repeats=plan.throughput.repeats,
        columns=tuple(
            _column(plan, name, starts, [r for start in measured[name] for r in start], lines)
            for name, starts in columns.items()
        ),
        rows=tuple(_row(length, measured, base) for length in lengths),
    )


def start_line(
    arm: ArmVerdict, outcome: Outcome, *, log_lines: int, preemptions: int | None
) -> StartLine:
    """How a start went.

    Args:
        arm: As judged.
        outcome: How it ended.
        log_lines: Of the server's log.
        preemptions: The server's counter after the last request; `None` when it was not read.
    """
    severities = [finding.severity for finding in arm.log_findings]
    failed = outcome.error if isinstance(outcome, Failed) else None
    return StartLine(
        arm=arm.arm,
        outcome=failed or "completed",
        log_lines=log_lines,
        preemptions=preemptions,
        crashed="fatal" in severities or (failed or "").startswith("ServerDiedError"),
        errors=severities.count("error"),
        diverged=arm.diverged,
        cells=len(arm.cells),
        memory=arm.memory,
    )


def _column(
    plan: Plan,
    name: str,
    starts: Sequence[ArmPlan],
    results: Sequence[ColdResult],
    lines: Mapping[str, StartLine],
) -> Column:
    counted = [result for result in results if result.problem is None]
    speeds = [r.decode_tokens_per_s for r in counted if r.decode_tokens_per_s is not None]
    return Column(
        name=name,
        profile=starts[0].profile or plan.profile,
        vllm_version=starts[0].declared.vllm_version,
        patch=starts[0].patch,
        starts=tuple(lines[arm.name] for arm in starts),
        decode_tokens_per_s=summary(speeds),
        draft_tokens=_total([result.draft_tokens for result in counted]),
        accepted_tokens=_total([result.accepted_tokens for result in counted]),
    )


def _total(counts: Sequence[int | None]) -> int | None:
    """Of all of them; unknown where one is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _row(
    length: int, measured: Mapping[str, Sequence[Sequence[ColdResult]]], base: str
) -> LengthRow:
    at_length = {
        name: [[r for r in start if r.prompt_tokens == length] for start in starts]
        for name, starts in measured.items()
    }
    base_times = [first_token_times(start) for start in at_length[base]]
    return LengthRow(
        prompt_tokens=length,
        speeds=tuple(
            _speed(length, name, starts, None if name == base else base_times)
            for name, starts in at_length.items()
        ),
    )


def _speed(
    length: int,
    column: str,
    starts: Sequence[Sequence[ColdResult]],
    base_times: Sequence[Times] | None,
) -> Speed:
    times = [first_token_times(start) for start in starts]
    results = [result for start in starts for result in start]
    first = summary([seconds for start in times for seconds in start.values()])
    prefill = [r.prefill_s for r in results if r.prefill_s is not None]
    return Speed(
        column=column,
        first_token_s=first,
        prefill_s=summary(prefill),
        tokens_per_s=None if first is None else length / first.median,
        excluded=tuple(f"{r.probe}: {r.problem}" for r in results if r.problem is not None),
        drift=_drift(times),
        ratio=None if base_times is None else speed_ratio(times, base_times),
    )


def first_token_times(start: Sequence[ColdResult]) -> dict[int, float]:
    """By repeat, of the requests that are measurements."""
    return {r.repeat: r.first_token_s for r in start if r.first_token_s is not None}


def _median_ratio(slow: Times, fast: Times) -> float | None:
    """Of times, paired by repeat: how many times as fast the second one is."""
    pairs = [slow[repeat] / fast[repeat] for repeat in slow if repeat in fast]
    return median(pairs) if pairs else None


def _drift(times: Sequence[Times]) -> float | None:
    """How many times as fast the last start is as the first; `None` with one start."""
    return _median_ratio(times[0], times[-1]) if len(times) > 1 else None


def speed_ratio(times: Sequence[Times], base_times: Sequence[Times]) -> Ratio:
    """How many times as fast one is as the other, and whether that may be called faster.

    Args:
        times: Of each start in turn.
        base_times: The same of what it is set against, of as many starts.
    """
    pairs = [
        base[repeat] / ours[repeat]
        for ours, base in zip(times, base_times, strict=True)
        for repeat in ours
        if repeat in base
    ]
    combined = [_median_ratio(base, ours) for ours, base in product(times, base_times)]
    by_starts = tuple(ratio for ratio in combined if ratio is not None)
    interval = median_interval(pairs)
    drifts = [drift for drift in (_drift(times), _drift(base_times)) if drift is not None]
    word: Faster
    if interval is None:
        word = "cannot say"
        reason = f"{len(pairs)} pairs are too few for an interval at {CONFIDENCE:.0%}"
    elif interval.low <= 1 <= interval.high:
        word, reason = "no difference shown", "the interval contains 1"
    elif len(by_starts) < len(combined) or not _one_side(by_starts):
        word, reason = "cannot say", "the starts do not agree on which is faster"
    elif any(_distance(drift) >= _distance(median(pairs)) for drift in drifts):
        word, reason = "cannot say", "the starts of one stack differ as much among themselves"
    else:
        word = "faster" if interval.low > 1 else "slower"
        reason = f"{len(pairs)} pairs, and all {len(by_starts)} pairs of starts agree"
    return Ratio(
        median=median(pairs) if pairs else None,
        interval=interval,
        by_starts=by_starts,
        word=word,
        reason=reason,
    )


def _distance(ratio: float) -> float:
    """From 1, the same for a ratio and its inverse."""
    return abs(math.log(ratio))


def _one_side(ratios: Sequence[float]) -> bool:
    return all(ratio > 1 for ratio in ratios) or all(ratio < 1 for ratio in ratios)
