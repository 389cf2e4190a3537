"""The whole comparison: refused, or word, sentence and exit code."""

from collections.abc import Iterator, Mapping, Sequence

from orchestrator.baselines.changes import cell_changes, digest_change, may_compare_digests
from orchestrator.baselines.comparability import differences, same_question
from orchestrator.baselines.speeds import cold_speeds
from orchestrator.baselines.wording import Found, sentence_of, unsure_arms
from orchestrator.model.comparison import (
    CellChange,
    Comparison,
    ComparisonResult,
    FieldDifference,
    JudgedRun,
)
from orchestrator.model.patch import SHAM
from orchestrator.model.verdict import CellVerdict

EXIT_CODES: Mapping[ComparisonResult, int] = {
    "unchanged": 0,
    "changed": 0,
    "regressed": 1,
    "not comparable": 2,
    "inconclusive": 3,
    "failed": 4,
}


def compare_runs(run: JudgedRun, baseline: JudgedRun) -> Comparison:
    """Set a run beside a baseline.

    Refused (`not comparable`) when a field that matters differs; the fields are named. Else a
    definite change for the worse outranks a failed run, that an inconclusive one, and that any
    other change. For the worse is a stable cell that now diverges, or a repeat that was served
    fewer cached tokens. A cell that is inconclusive in either run, or that only one of them
    measured, cannot be said to be equal.
    """
    differing, unknown = differences(run, baseline)
    changes = () if differing else tuple(_changes(run, baseline))
    cells = [] if differing else _pairs(run, baseline)
    cold = () if differing else tuple(cold_speeds(run, baseline))
    missing = () if differing else tuple(_missing(run, cells))
    found = Found(
        result=_result(run, baseline, differing, changes, missing),
        differing=differing,
        unknown=unknown,
        perhaps_fixed=_stopped_diverging(run, baseline),
        cells=len(cells),
        not_compared=missing,
        changes=changes,
        cold=cold,
    )
    return Comparison(
        run=run.name,
        baseline=baseline.name,
        run_engine=run.verdict.engine,
        baseline_engine=baseline.verdict.engine,
        result=found.result,
        exit_code=EXIT_CODES[found.result],
        sentence=sentence_of(run, baseline, found),
        differing=differing,
        unknown=unknown,
        perhaps_fixed=found.perhaps_fixed,
        cells=found.cells,
        not_compared=missing,
        changes=changes,
        cold=cold,
        digests_compared=sum(may_compare_digests(run, baseline, ours) for ours, _ in cells),
    )


def _pairs(run: JudgedRun, baseline: JudgedRun) -> list[tuple[CellVerdict, CellVerdict]]:
    there = {(cell.arm, cell.cell): cell for arm in baseline.verdict.arms for cell in arm.cells}
    return [
        (cell, there[cell.arm, cell.cell])
        for arm in run.verdict.arms
        for cell in arm.cells
        if (cell.arm, cell.cell) in there
    ]


def _missing(run: JudgedRun, pairs: Sequence[tuple[CellVerdict, CellVerdict]]) -> Iterator[str]:
    """The measured cells of the plan, which is both runs', of which one run has no verdict."""
    compared = {(ours.arm, ours.cell) for ours, _ in pairs}
    for arm in run.plan.arms:
        for cell in arm.cells:
            if cell.place == "measured" and (arm.name, cell.id) not in compared:
                yield f"{arm.name}, {cell.id}"


def _changes(run: JudgedRun, baseline: JudgedRun) -> Iterator[CellChange]:
    for ours, theirs in _pairs(run, baseline):
        yield from cell_changes(ours, theirs)
        if may_compare_digests(run, baseline, ours):
            moved = digest_change(ours, theirs)
            if moved is not None:
                yield moved


def _stopped_diverging(run: JudgedRun, baseline: JudgedRun) -> tuple[str, ...]:
    """Controls that are stable now; also on another release (`same_question`)."""
    if not same_question(run, baseline):
        return ()
    now = {arm.arm: arm for arm in run.verdict.arms}
    return tuple(
        then.arm
        for then in baseline.verdict.arms
        if then.verdict == "diverged"
        and then.patch in (None, SHAM)
        and then.arm in now
        and now[then.arm].verdict == "stable"
    )


def _result(
    run: JudgedRun,
    baseline: JudgedRun,
    differing: Sequence[FieldDifference],
    changes: Sequence[CellChange],
    missing: Sequence[str],
) -> ComparisonResult:
    if differing:
        return "not comparable"
    effects = {change.effect for change in changes}
    if "worse" in effects:
        return "regressed"
    if run.verdict.result == "failed":
        return "failed"
    unsure = unsure_arms(run) or unsure_arms(baseline) or baseline.verdict.result == "failed"
    if "cannot say" in effects or missing or unsure:
        return "inconclusive"
    return "changed" if "other" in effects else "unchanged"
