"""What a comparison came to, in words. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from orchestrator.model.comparison import (
    CellChange,
    ColdSpeed,
    ComparisonResult,
    FieldDifference,
    JudgedRun,
)
from orchestrator.model.stacks import Faster
from orchestrator.model.verdict import ArmVerdict

_FIELDS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found before it is told; the fields are `Comparison`'s."""

    result: ComparisonResult
    differing: tuple[FieldDifference, ...]
    unknown: tuple[FieldDifference, ...]
    perhaps_fixed: tuple[str, ...]
    cells: int
    not_compared: tuple[str, ...]
    changes: tuple[CellChange, ...]
    cold: tuple[ColdSpeed, ...]


def sentence_of(run: JudgedRun, baseline: JudgedRun, found: Found) -> str:
    """The result with its reason, then whatever else must be known to read it rightly."""
    cells = f"{found.cells} cells"
    told = {
        "unchanged": f"verdicts and cached tokens of {cells} are as in the baseline",
        "not comparable": _differing(found.differing),
        "failed": run.verdict.sentence,
    }.get(found.result) or _counted(found)
    parts = [f"{found.result.capitalize()}: {told.rstrip('.')}."]
    if found.not_compared:
        parts.append(
            f"{len(found.not_compared)} planned cells were not compared, since a run has no verdict"
            f" on them; first: {found.not_compared[0]}."
        )
    if not found.differing:
        parts.extend(_unsure(run, "this run"))
        parts.extend(_unsure(baseline, "the baseline"))
    if not found.differing and baseline.verdict.result == "failed":
        parts.append(f"The baseline is no standard: {baseline.verdict.sentence}")
    moved = [change.run for change in found.changes if change.what == "prefill time"]
    if moved:
        slower = sum(text.endswith("slower") for text in moved)
        parts.append(
            f"Prefill time is beyond the noise between repeats in {len(moved)} of {cells},"
            f" slower in {slower}."
        )
    if found.cold:
        words = [speed.ratio.word for speed in found.cold]
        counts = ", ".join(
            f"{word} in {words.count(word)}" for word in get_args(Faster) if word in words
        )
        parts.append(f"Cold requests, of {len(words)} stacks and lengths: {counts}.")
    if found.unknown:
        names = ", ".join(entry.field for entry in found.unknown)
        parts.append(f"Not recorded by both, so not held against each other: {names}.")
    if found.perhaps_fixed:
        parts.append(_perhaps_fixed(run, baseline, found.perhaps_fixed))
    return " ".join(parts)


def _unsure(run: JudgedRun, which: str) -> list[str]:
    arms = unsure_arms(run)
    return [f"Inconclusive in {which}: {', '.join(arms)}."] if arms else []


def unsure_arms(run: JudgedRun) -> list[str]:
    """Names of the arms that say nothing."""
    return [arm.arm for arm in run.verdict.arms if arm.verdict == "inconclusive"]


def _differing(differing: Sequence[FieldDifference]) -> str:
    names = [entry.field for entry in differing]
    more = len(names) - _FIELDS_NAMED
    return ", ".join(names[:_FIELDS_NAMED]) + (
        f" and {more} more differ" if more > 0 else " differ"
    )


_DECISIVE = {"regressed": "worse", "inconclusive": "cannot say", "changed": "other"}


def _counted(found: Found) -> str:
    listed = [change for change in found.changes if change.effect == _DECISIVE[found.result]]
    if not listed:
        return f"{found.cells} cells compared, and not all that was planned was conclusive"
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
