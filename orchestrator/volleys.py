"""Requests that were sent at once: the gates that such a cell must pass to be evidence.

Numbers in parentheses are rules of `docs/verdicts.md`. The server's counters are read before and
after a volley, so they are said of all its requests together and of none alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.model.metrics import MetricsReading
from orchestrator.model.plan import ArmPlan, CellPlan
from orchestrator.model.verdict import GateFinding
from orchestrator.reconciling import Measured, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredVolley:
    """Requests that were under way together, all answered."""

    measured: tuple[Measured, ...]
    delta: MetricsReading
    """Counters after the last of them minus those before the first."""

    running_before: int | None
    """Requests running or waiting when they were sent."""


def volley_findings(
    cell: CellPlan,
    volleys: Sequence[MeasuredVolley],
    arm: ArmPlan,
    *,
    expected_prompt: dict[str, int],
) -> tuple[GateFinding, ...]:
    """Every gate of one cell with `concurrency`.

    Args:
        cell: As planned.
        volleys: Those that were answered in full, in order.
        arm: The start it belongs to.
        expected_prompt: Length in tokens of each planned prompt, by its key.
    """
    planned = len(cell.probes) // cell.concurrency
    problems: list[Problem] = []
    if len(volleys) < planned:
        problems.append((4, "cell", f"{len(volleys)} of {planned} volleys were answered in full"))
    for number, volley in enumerate(volleys, start=1):
        told = f"volley {number}"
        problems += _counted(told, volley)
        for entry in volley.measured:
            problems += _of_one(entry, expected_prompt[entry.probe.prompt], arm)
    return tuple(
        GateFinding.model_validate(
            {"rule": rule, "scope": scope, "cell": cell.id, "summary": summary}
        )
        for rule, scope, summary in problems
    )


def _counted(told: str, volley: MeasuredVolley) -> Iterator[Problem]:
    sent, delta = len(volley.measured), volley.delta
    if volley.running_before:
        yield 13, "cell", f"{told}: {volley.running_before} other requests were running or waiting"
    if delta.preemptions is None:
        yield 13, "cell", f"{told}: the preemption counter could not be read"
    elif delta.preemptions > 0:
        yield 13, "later", f"{told}: {delta.preemptions:g} preemptions"
    if delta.requests_finished not in (None, sent):
        finished = f"{delta.requests_finished:g}"
        yield 13, "cell", f"{told}: the server finished {finished} requests, not {sent}"


def _of_one(entry: Measured, planned_tokens: int, arm: ArmPlan) -> Iterator[Problem]:
    name, answer = entry.probe.id, entry.observation
    if answer.prompt_tokens != planned_tokens:
        counted = f"the server counted {answer.prompt_tokens} prompt tokens"
        yield 12, "cell", f"{name}: {counted}, {planned_tokens} planned"
    if answer.cached_tokens:
        cached = f"{answer.cached_tokens} tokens came from the cache"
        yield 3, "start", f"{name} is alone under its salt, yet {cached}"
    elif answer.cached_tokens is None and arm.prefix_caching == "on":
        yield 6, "cell", f"{name}: the answer does not say its cached tokens"
