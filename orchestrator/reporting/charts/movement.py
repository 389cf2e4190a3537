"""How far the candidates moved, token by token: a row a cell, a column a generated token."""

from collections.abc import Sequence
from typing import Literal

import altair as alt
from markupsafe import Markup

from orchestrator.model.verdict import CellVerdict
from orchestrator.reporting.charts.drawing import ACCENT, LINE, chart_of, svg

_STEP_PX, _WIDEST_PX = 17, 600
"""Of one column, and of one panel: a long answer gets narrower columns, not a wider page."""

_Measure = Literal["raw", "relative"]


def movement_chart(cells: Sequence[CellVerdict]) -> Markup:
    """Raw and relative Δ, side by side, the darker the larger.

    Args:
        cells: Of one arm, each with a difference. A row ends with the first token that was chosen
            differently: what follows it has another context.
    """
    rows = [row for cell in cells for row in _rows(cell)]
    panels = alt.hconcat(_panel(rows, "raw"), _panel(rows, "relative"), spacing=24)
    furthest = max((row["relative"] for row in rows), default=0.0)
    return svg(
        panels,
        f"Heat map: largest change of a candidate in each generated token of {len(cells)} cells; "
        f"the largest relative one is {furthest:.3g}",
    )


def _rows(cell: CellVerdict) -> list[dict[str, str | int | float]]:
    seen = None if cell.pattern is None else cell.pattern.difference
    name = cell.document if cell.a_tokens is None else f"{cell.document}, A {cell.a_tokens}"
    return [
        {
            "cell": name,
            "token": move.token,
            "raw": move.max_delta,
            "relative": move.max_relative_delta,
        }
        for move in (() if seen is None else seen.movements)
    ]


def _panel(rows: list[dict[str, str | int | float]], measure: _Measure) -> alt.Chart:
    largest = max((float(row[measure]) for row in rows), default=0.0)
    tokens = len({row["token"] for row in rows})
    step_px = min(_STEP_PX, _WIDEST_PX / tokens) if tokens else _STEP_PX
    axis = alt.Axis(title=None) if measure == "raw" else None
    panel: alt.Chart = (
        chart_of(rows)
        .mark_rect(fill=ACCENT, stroke=LINE)
        .encode(
            x=alt.X(
                "token:O", title="generated token", axis=alt.Axis(labelAngle=0, labelOverlap=True)
            ),
            y=alt.Y("cell:N", axis=axis, sort=None),
            fillOpacity=alt.FillOpacity(
                f"{measure}:Q",
                scale=alt.Scale(domain=[0, largest or 1], range=[0, 1]),
                legend=None,
            ),
        )
    )
    return panel.properties(
        title=f"{measure} Δ, darkest {largest:.3g}", width=alt.Step(step_px), height=alt.Step(15)
    )
