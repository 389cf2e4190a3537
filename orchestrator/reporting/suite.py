"""A suite as rows: one an arm, one an item that moved, one a pair of arms."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.model.plan import Plan
from orchestrator.model.score import ItemResult, SuiteComparison
from orchestrator.model.suite import SuiteArm
from orchestrator.model.verdict import ArmVerdict, CellVerdict, Difference, RunVerdict

_NAMED = 12
"""Items that a line names before it only counts the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteArmRow:
    """One arm, as text."""

    arm: str
    order: str
    documents: str
    items: str
    digests_moved: str
    texts_equal: str
    """Items whose runs all gave one text."""

    majority: str
    """Items with a text that more than half of the runs gave."""

    fields_moved: str
    score: str
    """Fields right in the runs, of all; or that scores are withheld, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedItemRow:
    """One item whose digests or texts moved, as text."""

    arm: str
    item: str
    runs: str
    """Letters of numerically equal answers, run by run."""

    reference: str
    cached: str
    first_token: str
    """Counted from 0: the first generated token whose candidates differ, and by how much."""

    texts: str
    fields: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """Two arms of one suite, as text."""

    left: str
    right: str
    items: str
    digests: str
    texts: str
    grades: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSection:
    """What a report says of a suite."""

    arms: tuple[SuiteArmRow, ...]
    moved: tuple[MovedItemRow, ...]
    pairs: tuple[PairRow, ...]


def suite_section(plan: Plan, verdict: RunVerdict) -> SuiteSection | None:
    """`None` where the run is no suite's."""
    if plan.suite is None:
        return None
    asked = {arm.name: arm for arm in plan.suite.arms}
    total = len(plan.suite.items)
    return SuiteSection(
        arms=tuple(_arm(arm, asked[arm.arm], total) for arm in verdict.arms),
        moved=tuple(
            _moved(arm.arm, cell, item)
            for arm in verdict.arms
            for cell, item in _beside_their_cells(arm)
            if item.digests_moved or len(set(item.texts)) > 1
        ),
        pairs=tuple(_pair(pair) for pair in verdict.suite),
    )


def _beside_their_cells(arm: ArmVerdict) -> list[tuple[CellVerdict, ItemResult]]:
    cells = {cell.document: cell for cell in arm.cells}
    return [(cells[item.item], item) for item in arm.items]


def _arm(arm: ArmVerdict, asked: SuiteArm, total: int) -> SuiteArmRow:
    items = arm.items
    known = [item for item in items if item.digests_moved is not None]
    return SuiteArmRow(
        arm=arm.arm,
        order=asked.order,
        documents=asked.documents,
        items=f"{len(items)} of {total}",
        digests_moved=f"{sum(bool(item.digests_moved) for item in known)} of {len(known)}",
        texts_equal=str(sum(len(set(item.texts)) == 1 for item in items)),
        majority=str(sum(item.majority is not None for item in items)),
        fields_moved=str(sum(bool(item.fields_moved) for item in items)),
        score=_score(items),
    )


def _score(items: Sequence[ItemResult]) -> str:
    if not items:
        return "–"
    if any(item.scores is None for item in items):
        return "random weights: agreement only"
    grades = Counter(
        grade for item in items for score in item.scores or () for grade in score.grades
    )
    counted = ", ".join(f"{grades[g]} {g}" for g in ("right", "wrong", "missing", "unreadable"))
    return f"{counted} of {sum(grades.values())}"


def _moved(arm: str, cell: CellVerdict, item: ItemResult) -> MovedItemRow:
    seen = cell.pattern
    cached = ["unknown" if p.cached_tokens is None else str(p.cached_tokens) for p in cell.probes]
    return MovedItemRow(
        arm=arm,
        item=item.item,
        runs="–" if seen is None else seen.variants,
        reference="–"
        if seen is None
        else f"{seen.reference_before or 'none'}, {seen.reference_after or 'none'}",
        cached=", ".join(cached),
        first_token="–" if seen is None else _first_token(seen.difference),
        texts=item.texts,
        fields=", ".join(item.fields_moved) or "none",
    )


def _first_token(difference: Difference | None) -> str:
    if difference is None:
        return "–"
    token, movements = difference.first_token, difference.movements
    if token >= len(movements):
        return str(token)
    return f"{token}, Δ {movements[token].max_delta:.4g}"


def _pair(pair: SuiteComparison) -> PairRow:
    apart = len(pair.references_differ)
    digests = (
        f"not comparable: references of {apart} of {pair.items} items differ"
        if pair.digests_differ is None
        else _named(pair.digests_differ)
    )
    grades = "withheld" if pair.grades_differ is None else _named(pair.grades_differ)
    return PairRow(
        left=pair.left,
        right=pair.right,
        items=str(pair.items),
        digests=digests,
        texts=_named(pair.texts_differ),
        grades=grades,
    )


def _named(items: Sequence[str]) -> str:
    if not items:
        return "none"
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return f"{len(items)}: {', '.join(items[:_NAMED])}{more}"
