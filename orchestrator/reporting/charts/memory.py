"""Memory of the machine and of each arm's server, from the server's start to its end."""

from collections.abc import Iterator, Sequence

import altair as alt
from markupsafe import Markup

from orchestrator.model.exhibits import ArmExhibit
from orchestrator.model.host import MemorySample
from orchestrator.reporting.charts.drawing import ACCENT, chart_of, svg

_WIDTH_PX, _HEIGHT_PX = 230, 60
_MOST_POINTS = 150
"""Of one line: more than its pixels can show apart; every n-th sample is drawn beyond that."""

_SERIES = ("available on the machine", "resident, the server")


def memory_chart(arms: Sequence[ArmExhibit]) -> Markup | None:
    """A panel an arm; `None` when nothing was sampled."""
    rows = [row for arm in arms for row in _rows(arm)]
    if not rows:
        return None
    # Each once: the renderer nests an expression by every entry, down to its stack's end.
    series = list(dict.fromkeys(str(row["series"]) for row in rows))
    panels = (
        chart_of(rows)
        .mark_line(strokeWidth=2, color=ACCENT)
        .encode(
            x=alt.X("at_s:Q", title="seconds from the server's start"),
            y=alt.Y("gib:Q", title="GiB", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=3)),
        )
        .properties(width=_WIDTH_PX, height=_HEIGHT_PX)
        .facet(
            row=alt.Row("arm:N", title=None, sort=[arm.arm for arm in arms]),
            column=alt.Column("series:N", title=None, sort=series),
            spacing=14,
        )
        .resolve_scale(y="independent")
    )
    return svg(panels, f"Memory over time in {len(arms)} arms, a panel an arm and kind of memory")


def _rows(arm: ArmExhibit) -> Iterator[dict[str, str | float]]:
    every = -(-len(arm.memory) // _MOST_POINTS)
    for sample in arm.memory[:: every or 1]:
        for series, value in _values(sample):
            yield {
                "arm": arm.arm,
                "at_s": sample.at_s - arm.memory[0].at_s,
                "series": series,
                "gib": value / 2**30,
            }


def _values(sample: MemorySample) -> Iterator[tuple[str, int]]:
    """What was read, by name."""
    yield _SERIES[0], sample.memory_available_bytes
    if sample.server_resident_bytes is not None:
        yield _SERIES[1], sample.server_resident_bytes
    for device, used in enumerate(sample.gpu_used_bytes or ()):
        if used is not None:
            yield f"used on GPU {device}", used
