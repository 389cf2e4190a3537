"""A suite's items against its arms: whether an item's runs agree, arm by arm."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.model.plan import Plan
from orchestrator.model.score import ItemResult
from orchestrator.reporting.grid import ArmGrid, GridRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmMark:
    """What one item came to in one arm."""

    row: GridRow
    texts_equal: bool | None
    """Over all runs; `None` where they were not all answered. Reported, never evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAgreement:
    """One item in every arm."""

    item: str
    document: str
    marks: tuple[ArmMark | None, ...]
    """One an arm, in order; `None` where it was not asked."""


def agreements(plan: Plan, grids: Sequence[ArmGrid]) -> list[ItemAgreement]:
    """Every item of the suite, in its order; none where the run is no suite's."""
    items = () if plan.suite is None else plan.suite.items
    rows = [{row.cell.document: row for row in part.rows} for part in grids]
    results = [{result.item: result for result in part.arm.items} for part in grids]
    return [
        ItemAgreement(
            item=item.id,
            document=item.document,
            marks=tuple(
                _mark(by_item.get(item.id), told.get(item.id))
                for by_item, told in zip(rows, results, strict=True)
            ),
        )
        for item in items
    ]


def _mark(row: GridRow | None, result: ItemResult | None) -> ArmMark | None:
    if row is None:
        return None
    return ArmMark(row=row, texts_equal=None if result is None else len(set(result.texts)) == 1)
