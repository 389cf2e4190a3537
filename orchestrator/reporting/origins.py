"""Whose keys, values and states each request restores: one picture for each kind of cell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from orchestrator.model.prediction import CellPrediction
from orchestrator.reporting.charts.chunks import Author, DrawnRequest, chunks_chart
from orchestrator.reporting.prediction import describe


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginPicture:
    """Cells of one arm that were predicted to go alike."""

    arm: str
    a_tokens: int | None
    eligible: str
    cells: int
    chart: Markup
    text: str
    """The same in characters, with every writer in words."""


def origin_pictures(plan: Plan) -> list[OriginPicture]:
    """Every distinct prediction of every arm; cells without a prediction have no picture."""
    return [picture for arm in plan.arms for picture in _of_arm(plan, arm)]


def _of_arm(plan: Plan, arm: ArmPlan) -> Iterator[OriginPicture]:
    alike: dict[CellPrediction, list[CellPlan]] = {}
    for cell in arm.cells:
        if cell.place == "measured" and cell.prediction is not None:
            alike.setdefault(cell.prediction, []).append(cell)
    for prediction, cells in alike.items():
        first = cells[0]
        yield OriginPicture(
            arm=arm.name,
            a_tokens=first.a_tokens,
            eligible=prediction.eligible,
            cells=len(cells),
            chart=chunks_chart(list(_drawn(arm, first)), plan.block_size_tokens),
            text="\n".join(_described(plan, first, prediction)),
        )


def _drawn(arm: ArmPlan, cell: CellPlan) -> Iterator[DrawnRequest]:
    """B's reference, where there is one, above the cell's own requests."""
    reference = next(
        (c for c in arm.cells if c.place == "before" and c.document == cell.document), None
    )
    if reference is not None and cell.kind != "reference":
        yield from _requests(reference, alone=True)
    yield from _requests(cell, alone=cell.kind == "reference")


def _requests(cell: CellPlan, *, alone: bool) -> Iterator[DrawnRequest]:
    if cell.prediction is None:
        return
    authors = tuple(_author(probe, alone=alone) for probe in cell.probes)
    seen: dict[str, int] = {}
    previous = None
    for index, request in enumerate(cell.prediction.requests):
        author = authors[index]
        seen[author] = seen.get(author, 0) + 1
        # A repeat that does what the one before it did adds no line: it would only add height.
        if (author, request) == previous:
            continue
        previous = (author, request)
        yield DrawnRequest(
            name=f"{author} {seen[author]}" if author in ("B", "B alone") else author,
            authors=authors,
            author=author,
            prediction=request,
        )


def _author(probe: ProbePlan, *, alone: bool) -> Author:
    match probe.role:
        case "a":
            return "A"
        case "prime":
            return "the document"
        case _:
            return "B alone" if alone else "B"


def _described(plan: Plan, cell: CellPlan, prediction: CellPrediction) -> Sequence[str]:
    lengths = [len(plan.prompts[probe.prompt].token_ids) for probe in cell.probes]
    names = [
        _author(probe, alone=False) if probe.repeat is None else f"B#{probe.repeat}"
        for probe in cell.probes
    ]
    return list(describe(prediction, lengths, names, block_tokens=plan.block_size_tokens))
