"""Arms and the whole run: counts, expectations, one sentence, the exit code."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import get_args

from orchestrator.judging.cells import attribute, judge_cells
from orchestrator.judging.items import compare_suites, item_results
from orchestrator.judging.limits import not_covered
from orchestrator.judging.measured import ArmEvidence
from orchestrator.model.experiment import Expectation
from orchestrator.model.outcome import Failed
from orchestrator.model.plan import Plan
from orchestrator.model.resumption import Resumption
from orchestrator.model.score import ItemResult
from orchestrator.model.stacks import StackComparison
from orchestrator.model.verdict import (
    ArmVerdict,
    CellVerdict,
    GateFinding,
    Result,
    RunVerdict,
    Word,
)
from orchestrator.stacks import compare_stacks, start_line


def judge(plan: Plan, arms: Sequence[ArmEvidence], *, resumption: Resumption | None) -> RunVerdict:
    """Judge a whole run.

    Args:
        plan: What was meant to happen.
        arms: What happened, one entry for each arm of the plan, in its order.
        resumption: Which arms were kept of an earlier run; `None` when none was.
    """
    judged = {arm.plan.name: judge_cells(arm) for arm in arms}
    verdicts = []
    for arm in arms:
        cells, findings = judged[arm.plan.name]
        caching_off = [
            cell
            for other in arms
            if other.plan.prefix_caching == "off" and other.plan.profile == arm.plan.profile
            for cell in judged[other.plan.name][0]
            if cell.concurrency == 1
        ]
        attributed = [attribute(cell, arm, caching_off) for cell in cells]
        elsewhere = {
            (cell.document, cell.a_tokens)
            for name, (others, _) in judged.items()
            for cell in others
            if name != arm.plan.name and cell.verdict == "diverged"
        }
        expected = plan.expectations.get(arm.plan.name)
        items = item_results(plan, arm, attributed)
        verdicts.append(_judge_arm(arm, attributed, items, findings, expected, elsewhere))
    failed = [arm.plan.name for arm in arms if isinstance(arm.outcome, Failed)]
    result, exit_code = _result(plan, verdicts, failed)
    return RunVerdict(
        experiment=plan.experiment,
        profile=plan.profile,
        engine=plan.engine,
        purpose=plan.purpose,
        result=result,
        exit_code=exit_code,
        sentence=_sentence(result, verdicts, failed),
        arms=tuple(verdicts),
        removal=None,
        stacks=_stacks(plan, arms, verdicts),
        suite=()
        if plan.suite is None
        else tuple(compare_suites(*pair) for pair in combinations(verdicts, 2)),
        not_covered=not_covered(plan, verdicts, resumption),
    )


def _stacks(
    plan: Plan, arms: Sequence[ArmEvidence], verdicts: Sequence[ArmVerdict]
) -> StackComparison | None:
    lines = {
        arm.plan.name: start_line(
            verdict, arm.outcome, log_lines=arm.log_lines, preemptions=arm.preemptions
        )
        for arm, verdict in zip(arms, verdicts, strict=True)
    }
    return compare_stacks(plan, {arm.plan.name: arm.cold for arm in arms}, lines)


def _judge_arm(
    arm: ArmEvidence,
    cells: Sequence[CellVerdict],
    items: tuple[ItemResult, ...],
    findings: tuple[GateFinding, ...],
    expected: Expectation | None,
    elsewhere: set[tuple[str, int | None]],
) -> ArmVerdict:
    count = {word: sum(c.verdict == word for c in cells) for word in _WORDS}
    verdict, reason = _arm_word(arm, cells, count, elsewhere)
    return ArmVerdict(
        arm=arm.plan.name,
        cell=arm.plan.cell,
        prefix_caching=arm.plan.prefix_caching,
        speculation=arm.plan.speculation,
        patch=arm.plan.patch,
        verdict=verdict,
        reason=reason,
        stable=count["stable"],
        diverged=count["diverged"],
        inconclusive=count["inconclusive"],
        batch_equal=count["batch-equal"],
        batch_dependent=count["batch-dependent"],
        cells=tuple(cells),
        items=items,
        findings=findings,
        intent=arm.intent,
        memory=arm.memory,
        log_findings=arm.log_findings,
        expected=expected,
        as_expected=_as_expected(expected, verdict, count["diverged"], len(cells)),
    )


_WORDS: tuple[Word, ...] = get_args(Word)


def _arm_word(
    arm: ArmEvidence,
    cells: Sequence[CellVerdict],
    count: Mapping[Word, int],
    elsewhere: set[tuple[str, int | None]],
) -> tuple[Word, str]:
    if count["inconclusive"] or not cells:
        reason = next((c.reason for c in cells if c.verdict == "inconclusive"), "no cell")
        return "inconclusive", reason
    if count["batch-dependent"]:
        dependent = f"{count['batch-dependent']} of {len(cells)} cells"
        return "batch-dependent", f"answers depend on the company in {dependent}"
    if count["batch-equal"]:
        return "batch-equal", f"no dependence on the company seen in {len(cells)} cells"
    if count["diverged"]:
        return "diverged", f"{count['diverged']} of {len(cells)} cells diverged"
    other = sum((c.document, c.a_tokens) in elsewhere for c in cells)
    measured = "items" if arm.plan.cell == "suite" else "documents × lengths"
    return "stable", f"not seen in {len(cells)} {measured} ({other} diverged in another arm)"


def _as_expected(
    expected: Expectation | None, verdict: Word, diverged: int, cells: int
) -> bool | None:
    if expected is None or verdict == "inconclusive":
        return None
    if expected == "mostly-diverged":
        return 2 * diverged > cells
    return verdict == expected


def _result(plan: Plan, arms: Sequence[ArmVerdict], failed: Sequence[str]) -> tuple[Result, int]:
    """A definite bad answer outranks a failed arm, and that outranks an inconclusive one."""
    if plan.purpose == "reproduce" and any(arm.as_expected is False for arm in arms):
        return "not as expected", 1
    if plan.purpose == "check" and any(arm.verdict == "diverged" for arm in arms):
        return "affected", 1
    if plan.purpose == "check" and any(arm.verdict == "batch-dependent" for arm in arms):
        return "batch-dependent", 1
    if failed:
        return "failed", 4
    if any(arm.verdict == "inconclusive" for arm in arms):
        return "inconclusive", 3
    return ("as expected", 0) if plan.purpose == "reproduce" else ("not seen", 0)


def _sentence(result: Result, arms: Sequence[ArmVerdict], failed: Sequence[str]) -> str:
    told = ", ".join(f"{arm.arm}: {arm.verdict} ({_counts(arm)})" for arm in arms)
    if result == "failed":
        return f"Failed: {' and '.join(failed)} did not complete. {told}."
    if result == "inconclusive":
        first = next(arm for arm in arms if arm.verdict == "inconclusive")
        return f"Inconclusive: {first.arm}: {first.reason}. {told}."
    return f"{result.capitalize()}. {told}."


def _counts(arm: ArmVerdict) -> str:
    total = len(arm.cells)
    named: Mapping[Word, int] = {
        "stable": arm.stable, "diverged": arm.diverged, "inconclusive": arm.inconclusive,
        "batch-equal": arm.batch_equal, "batch-dependent": arm.batch_dependent,
    }  # fmt: skip
    return f"{named[arm.verdict]} of {total} cells"
