"""Prefill times of B, by the server's own histogram: a line an arm and kind of repeat."""

from statistics import median

import altair as alt
from markupsafe import Markup

from orchestrator.model.verdict import ArmVerdict, RunVerdict
from orchestrator.reporting.charts.drawing import ACCENT, INK, chart_of, svg

_WIDTH_PX = 420
_KINDS = {"first": "first repeat", "later": "later repeats"}


def prefill_chart(verdict: RunVerdict) -> Markup | None:
    """Median, least and most of each arm's prefill times; `None` when none was measured."""
    rows = [row for arm in verdict.arms for row in _rows(arm)]
    if not rows:
        return None
    base = chart_of(rows).encode(
        y=alt.Y("arm:N", title=None, sort=None),
        yOffset=alt.YOffset("kind:N", sort=list(_KINDS.values())),
    )
    spread = base.mark_rule(color=INK).encode(
        x=alt.X("least:Q", title="prefill of B, ms", scale=alt.Scale(zero=True)), x2="most:Q"
    )
    middle = base.mark_point(filled=True, size=80, color=ACCENT, opacity=1).encode(
        x="median:Q",
        shape=alt.Shape(
            "kind:N",
            title="median of",
            scale=alt.Scale(domain=list(_KINDS.values()), range=["triangle-up", "circle"]),
        ),
    )
    return svg(
        alt.layer(spread, middle).properties(width=_WIDTH_PX, height=alt.Step(16)),
        "Prefill times of B in each arm; the price table has the medians",
    )


def _rows(arm: ArmVerdict) -> list[dict[str, str | float]]:
    repeats = [probe for cell in arm.cells for probe in cell.probes if probe.role == "b"]
    by_kind = {
        "first": [p.prefill_s for p in repeats if p.repeat == 1],
        "later": [p.prefill_s for p in repeats if p.repeat != 1],
    }
    rows: list[dict[str, str | float]] = []
    for kind, values in by_kind.items():
        known_ms = [1000 * value for value in values if value is not None]
        if known_ms and len(known_ms) == len(values):
            rows.append({
                "arm": arm.arm,
                "kind": _KINDS[kind],
                "median": median(known_ms),
                "least": min(known_ms),
                "most": max(known_ms),
            })  # fmt: skip
    return rows
