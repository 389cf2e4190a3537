"""The whole comparison: refused, or word, sentence and exit code."""

from collections.abc import Iterator, Mapping, Sequence

from orchestrator.baselines.changes import cell_changes, digest_change, may_compare_digests
from orchestrator.baselines.comparability import differences, same_question
from orchestrator.model.comparison import (
    CellChange,
    Comparison,
    ComparisonResult,
    FieldDifference,
    JudgedRun,
)
from orchestrator.model.patch import SHAM
from orchestrator.model.verdict import ArmVerdict, CellVerdict

EXIT_CODES: Mapping[ComparisonResult, int] = {
    "unchanged": 0,
    "changed": 0,
    "regressed": 1,
    "not comparable": 2,
    "inconclusive": 3,
    "failed": 4,
}

_FIELDS_NAMED = 3


def compare_runs(run: JudgedRun, baseline: JudgedRun) -> Comparison:
    """Set a run beside a baseline.

    Refused (`not comparable`) when a field that matters differs; the fields are named. Else a
    definite change for the worse outranks a failed run, that an inconclusive one, and that any
    other change. For the worse is a stable cell that now diverges, or a repeat that was served
    fewer cached tokens. A cell that is inconclusive in either run cannot be said to be equal.
    """
    differing, unknown = differences(run, baseline)
    changes = () if differing else tuple(_changes(run, baseline))
    fixed = _stopped_diverging(run, baseline)
    cells = [] if differing else _pairs(run, baseline)
    result = _result(run, differing, changes)
    return Comparison(
        run=run.name,
        baseline=baseline.name,
        run_engine=run.verdict.engine,
        baseline_engine=baseline.verdict.engine,
        result=result,
        exit_code=EXIT_CODES[result],
        sentence=_sentence(run, baseline, result, differing, changes, fixed, len(cells)),
        differing=differing,
        unknown=unknown,
        perhaps_fixed=fixed,
        cells=len(cells),
        changes=changes,
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
    run: JudgedRun, differing: Sequence[FieldDifference], changes: Sequence[CellChange]
) -> ComparisonResult:
    if differing:
        return "not comparable"
    effects = {change.effect for change in changes}
    if "worse" in effects:
        return "regressed"
    if run.verdict.result == "failed":
        return "failed"
    unsure = any(arm.verdict == "inconclusive" for arm in run.verdict.arms)
    if "cannot say" in effects or unsure:
        return "inconclusive"
    return "changed" if "other" in effects else "unchanged"


def _sentence(
    run: JudgedRun,
    baseline: JudgedRun,
    result: ComparisonResult,
    differing: Sequence[FieldDifference],
    changes: Sequence[CellChange],
    fixed: Sequence[str],
    cells: int,
) -> str:
    told = {
        "unchanged": f"verdicts and cached tokens of {cells} cells are as in the baseline",
        "not comparable": _differing(differing),
        "failed": run.verdict.sentence,
    }.get(result) or _counted(changes, result, cells)
    parts = [f"{result.capitalize()}: {told.rstrip('.')}."]
    moved = [change.run for change in changes if change.what == "prefill time"]
    if moved:
        slower = sum(text.endswith("slower") for text in moved)
        parts.append(
            f"Prefill time is beyond the noise between repeats in {len(moved)} of {cells} cells,"
            f" slower in {slower}."
        )
    if fixed:
        parts.append(_perhaps_fixed(run, baseline, fixed))
    return " ".join(parts)


def _differing(differing: Sequence[FieldDifference]) -> str:
    names = [entry.field for entry in differing]
    more = len(names) - _FIELDS_NAMED
    return ", ".join(names[:_FIELDS_NAMED]) + (
        f" and {more} more differ" if more > 0 else " differ"
    )


_DECISIVE = {"regressed": "worse", "inconclusive": "cannot say", "changed": "other"}


def _counted(changes: Sequence[CellChange], result: ComparisonResult, cells: int) -> str:
    listed = [change for change in changes if change.effect == _DECISIVE[result]]
    if not listed:
        return f"{cells} cells compared, and not all of them were conclusive"
    first = listed[0]
    kinds = list(dict.fromkeys(change.what for change in listed))
    counts = ", ".join(f"{sum(c.what == kind for c in listed)} × {kind}" for kind in kinds)
    return (
        f"{counts}; first: {first.arm}, {first.cell}: {first.what} {first.baseline} → {first.run}"
    )


def _perhaps_fixed(run: JudgedRun, baseline: JudgedRun, fixed: Sequence[str]) -> str:
    """The words for a control that lost its effect, with both versions."""
    here = {arm.arm: arm for arm in run.verdict.arms}
    there = {arm.arm: arm for arm in baseline.verdict.arms}
    told = "; ".join(
        f"{name} diverged in {_of(there[name])} on {baseline.verdict.engine}"
        f" and in {_of(here[name])} on {run.verdict.engine}"
        for name in fixed
    )
    same = run.plan.engine_identity == baseline.plan.engine_identity
    doubt = ", though the engine is the same: something else changed" if same else ""
    return f"Changed: perhaps fixed upstream: {told}{doubt}."


def _of(arm: ArmVerdict) -> str:
    return f"{arm.diverged} of {len(arm.cells)} cells"
