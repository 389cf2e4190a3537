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
    """Cells that were predicted to go alike, and are drawn alike."""

    arms: tuple[str, ...]
    """Those that have such cells, in the plan's order."""

    a_tokens: int | None
    eligible: str
    cells: int
    chart: Markup
    text: str
    """The same in characters, with every writer in words."""


def origin_pictures(plan: Plan) -> list[OriginPicture]:
    """Every distinct prediction, once; cells without a prediction have no picture.

    Arms differ in what does not move a chunk more often than in what does, and a picture is most
    of the page's bytes and of the time it takes.
    """
    alike: dict[_Sight, list[str]] = {}
    for arm in plan.arms:
        for cell in arm.cells:
            if cell.place == "measured" and cell.prediction is not None:
                alike.setdefault(_sight(plan, arm, cell, cell.prediction), []).append(arm.name)
    return [
        OriginPicture(
            arms=tuple(dict.fromkeys(arms)),
            a_tokens=sight.a_tokens,
            eligible=sight.eligible,
            cells=len(arms),
            chart=chunks_chart(sight.requests, plan.block_size_tokens),
            text=sight.text,
        )
        for sight, arms in alike.items()
    ]


@dataclass(frozen=True, slots=True)
class _Sight:
    """All that a reader sees of a cell's prediction."""

    a_tokens: int | None
    eligible: str
    requests: tuple[DrawnRequest, ...]
    text: str


def _sight(plan: Plan, arm: ArmPlan, cell: CellPlan, prediction: CellPrediction) -> _Sight:
    return _Sight(
        a_tokens=cell.a_tokens,
        eligible=prediction.eligible,
        requests=tuple(_drawn(arm, cell)),
        text="\n".join(_described(plan, cell, prediction)),
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
