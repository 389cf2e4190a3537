"""Answers against counters against prediction: the gates a cell must pass to be evidence.

Numbers in parentheses are rules of `docs/verdicts.md`. Nothing here looks at digests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestrator.model.engine import EngineFacts
from orchestrator.model.metrics import MetricsReading
from orchestrator.model.observation import Observation
from orchestrator.model.plan import ArmPlan, CellPlan, ProbePlan
from orchestrator.model.serverlog import LogScan
from orchestrator.model.verdict import GateFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A probe that was answered, with the server's counters around it."""

    probe: ProbePlan
    observation: Observation
    delta: MetricsReading
    """Counters after the request minus those after the request before it."""

    running_before: int | None
    """Requests running or waiting when this one was sent."""

    predicted_cached_tokens: int | None
    latency_s: float
    started_s: float


Problem = tuple[int, str, str]
"""Rule, scope, and what was found, with its numbers."""


def cell_findings(
    cell: CellPlan, measured: Sequence[Measured], arm: ArmPlan, *, expected_prompt: dict[str, int]
) -> tuple[GateFinding, ...]:
    """Every gate of one cell.

    Args:
        cell: As planned.
        measured: The probes that were answered, in order.
        arm: The start it belongs to.
        expected_prompt: Length in tokens of each planned prompt, by its key; of one that the
            server renders, as it was first answered.
    """

    def finding(rule: int, scope: str, summary: str) -> GateFinding:
        return GateFinding.model_validate(
            {"rule": rule, "scope": scope, "cell": cell.id, "summary": summary}
        )

    found: list[GateFinding] = []
    if len(measured) < len(cell.probes):
        text = f"{len(measured)} of {len(cell.probes)} probes were answered"
        found.append(finding(4, "cell", text))
    problems = [p for entry in measured for p in _probe_problems(entry, expected_prompt)]
    problems += _model_problems(measured, arm.declared.served_model_name)
    problems += prompt_problems(measured)
    if arm.prefix_caching == "on":
        problems += _hit_problems(cell, measured)
    if cell.kind == "suite":
        problems = [_of_the_start(problem) for problem in problems]
    return (*found, *(finding(*problem) for problem in problems))


def _of_the_start(problem: Problem) -> Problem:
    """The runs of a suite's items are interleaved: what is later than one, no cell can say."""
    rule, scope, text = problem
    return rule, "start" if scope == "later" else scope, text


def _model_problems(measured: Sequence[Measured], declared: str) -> list[Problem]:
    """An answer that names another model is another server's (13)."""
    return [
        (13, "cell", f"{m.probe.id}: the answer is of the model {m.observation.model!r}")
        for m in measured
        if m.observation.model not in (None, declared)
    ]


def prompt_problems(measured: Sequence[Measured]) -> list[Problem]:
    """A prompt that the server renders must have become the same token ids every time (12)."""
    ids = {m.observation.prompt_token_ids for m in measured} - {None}
    if len(ids) > 1:
        return [(12, "cell", f"the prompt was rendered to {len(ids)} different token sequences")]
    return []


def _probe_problems(entry: Measured, expected_prompt: dict[str, int]) -> list[Problem]:
    name, answer, delta = entry.probe.id, entry.observation, entry.delta
    problems: list[Problem] = []
    planned = expected_prompt[entry.probe.prompt]
    if answer.prompt_tokens != planned:
        text = f"{name}: the server counted {answer.prompt_tokens} prompt tokens, {planned} planned"
        problems.append((12, "cell", text))
    if entry.running_before:
        text = f"{name}: {entry.running_before} other requests were running or waiting"
        problems.append((13, "cell", text))
    if delta.preemptions is None:
        problems.append((13, "cell", f"{name}: the preemption counter could not be read"))
    elif delta.preemptions > 0:
        text = f"{name}: {delta.preemptions:g} preemptions during the request"
        problems.append((13, "later", text))
    if delta.requests_finished not in (None, 1):
        text = f"{name}: the server finished {delta.requests_finished:g} requests, not 1"
        problems.append((13, "cell", text))
    if answer.not_argmax:
        text = f"{name}: generated tokens {list(answer.not_argmax)} are not the most probable ones"
        problems.append((9, "remark", text))
    return problems + _hit_counter_problems(entry)


def _hit_counter_problems(entry: Measured) -> list[Problem]:
    """The answer's `cached_tokens` and the counter's delta must be one number (6)."""
    said, counted = entry.observation.cached_tokens, entry.delta.prefix_cache_hits_tokens
    if counted is None:
        return [(6, "cell", f"{entry.probe.id}: the hit counter could not be read")]
    if said is not None and counted != said:
        text = f"{entry.probe.id}: the answer says {said} cached tokens, the counter {counted:g}"
        return [(6, "cell", text)]
    return []


def _hit_problems(cell: CellPlan, measured: Sequence[Measured]) -> list[Problem]:
    problems: list[Problem] = []
    missing = [m.probe.id for m in measured if m.observation.cached_tokens is None]
    if missing:
        problems.append((6, "cell", f"{missing[0]}: the answer does not say its cached tokens"))
    warm = bool(measured) and (measured[0].observation.cached_tokens or 0) > 0
    if warm and not cell.shares_salt:
        first = measured[0]
        text = (
            f"{first.probe.id} is the first request under its salt, yet "
            f"{first.observation.cached_tokens} tokens came from the cache"
        )
        problems.append((3, "start", text))
    for entry in measured:
        said, predicted = entry.observation.cached_tokens, entry.predicted_cached_tokens
        if None not in (said, predicted) and said != predicted:
            text = f"{entry.probe.id}: {said} cached tokens, predicted {predicted}"
            problems.append((6, "cell", text))
    # The one request of a suite's reference is cold, and no repeat follows it.
    return problems + (_repeat_hit_problems(measured) if len(cell.probes) > 1 else [])


def _repeat_hit_problems(measured: Sequence[Measured]) -> list[Problem]:
    hits = [
        (m.probe.id, m.observation.cached_tokens)
        for m in measured
        if m.probe.role == "b" and m.observation.cached_tokens is not None
    ]
    problems: list[Problem] = []
    if not any(count > 0 for _, count in hits):
        problems.append((6, "cell", "no repeat was served from the cache: nothing was tested"))
    for (_, earlier), (name, later) in pairwise(hits):
        if later < earlier:
            text = f"{name}: cached tokens fell from {earlier} to {later}: blocks were evicted"
            problems.append((4, "cell", text))
            break
    return problems


def start_findings(
    arm: ArmPlan, facts: EngineFacts, total: MetricsReading | None
) -> tuple[GateFinding, ...]:
    """What holds for a whole start: no hit where caching is off, room in the cache.

    Args:
        arm: As planned.
        facts: What the ready server said about itself.
        total: Counters at the end minus those before the first cell; `None` when unread.
    """
    found: list[GateFinding] = []

    def void(rule: int, summary: str) -> None:
        found.append(GateFinding(rule=rule, scope="start", cell=None, summary=summary))

    if arm.prefix_caching == "off":
        hits = None if total is None else total.prefix_cache_hits_tokens
        if hits is None:
            void(6, "the hit counter could not be read, so nothing shows that caching was off")
        elif hits > 0:
            void(6, f"{hits:g} tokens came from a prefix cache that should be off")
    if facts.kv_cache_tokens is None:
        found.append(_remark(13, "the engine does not say how large its KV cache is"))
    return tuple(found)


def log_gates(log: LogScan) -> tuple[GateFinding, ...]:
    """What a server's log says against everything that was measured on its start (13).

    An error while it served, or a second start in one log; which cell it fell into cannot be said.
    """
    against = [
        finding
        for finding in log.findings
        if finding.name == "restarted"
        or (finding.phase == "serving" and finding.severity in ("error", "fatal"))
    ]
    return tuple(
        GateFinding(
            rule=13,
            scope="start",
            cell=None,
            summary=f"line {finding.line} of the server's log: {finding.summary}",
        )
        for finding in against
    )


def _remark(rule: int, summary: str) -> GateFinding:
    return GateFinding(rule=rule, scope="remark", cell=None, summary=summary)
