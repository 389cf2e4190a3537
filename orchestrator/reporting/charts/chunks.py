"""How each request was to be split, what it saves, and what it restores from whom.

Drawn from the prediction, which the report sets beside the cached tokens that were measured.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import altair as alt
from markupsafe import Markup

from orchestrator.model.prediction import RequestPrediction, Writer
from orchestrator.reporting.charts.drawing import INK, LINE, SOFT, chart_of, svg, variant_colour

_WIDTH_PX, _ROW_PX = 440, 30

Author = Literal["B alone", "A", "B", "the document"]
_AUTHORS: tuple[Author, ...] = ("A", "B", "B alone", "the document")

Rows = list[dict[str, str | int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRequest:
    """One request, with the names of those whose parts it may restore."""

    name: str
    authors: tuple[Author, ...]
    """Of each request of its cell, by `Writer.request`."""

    author: Author
    prediction: RequestPrediction


def chunks_chart(requests: Sequence[DrawnRequest], block_tokens: int) -> Markup:
    """A line a request against the grid: chunks, restored blocks, saved and restored states."""
    order = [request.name for request in requests]
    grid = _grid(requests, block_tokens)
    y = alt.Y("request:N", sort=order, title=None)
    bars = [bar for request in requests for bar in _bars(request, block_tokens)]
    blocks = (
        chart_of([{"at": position} for position in grid])
        .mark_rule(color=SOFT, strokeDash=[2, 3])
        .encode(x="at:Q")
    )
    lengths = (
        chart_of(bars)
        .mark_text(fontSize=10, color=INK)
        .transform_calculate(middle="(datum.start + datum.end) / 2")
        .encode(x="middle:Q", y=y, text="label:N")
    )
    states = [state for request in requests for state in _states(request)]
    drawn = alt.layer(_parts(bars, grid, y), blocks, lengths, _marks(states, y)).properties(
        width=_WIDTH_PX, height=alt.Step(_ROW_PX)
    )
    return svg(drawn, f"Chunks of {', '.join(order)} against the grid of {block_tokens} tokens")


def _parts(bars: Rows, grid: Sequence[int], y: alt.Y) -> alt.Chart:
    """What each request computes, in full colour, and what it restores, pale."""
    shown = {bar["writer"] for bar in bars}
    colours = {
        author: variant_colour(number)
        for number, author in enumerate(_AUTHORS)
        if author in shown
    }  # fmt: skip
    ticks = alt.Axis(grid=False, values=list(grid), labelOverlap=True)
    drawn: alt.Chart = chart_of(bars).mark_bar(stroke=INK, strokeWidth=1).encode(
        alt.X("start:Q", title="tokens of the prompt", axis=ticks), y, x2="end:Q",
        fill=alt.Fill("writer:N", title="computed by",
            scale=alt.Scale(domain=list(colours), range=list(colours.values()))),
        fillOpacity=alt.FillOpacity("how:N", legend=None,
            scale=alt.Scale(domain=["computed", "restored"], range=[1, 0.35])),
    )  # fmt: skip
    return drawn


def _marks(states: Rows, y: alt.Y) -> alt.Chart:
    """Where a state is saved, and where one is restored."""
    shapes = alt.Scale(domain=["saved", "restored"], range=["diamond", "triangle-down"])
    drawn: alt.Chart = (
        chart_of(states)
        .mark_point(filled=True, size=90, opacity=1, color=INK, stroke=LINE, yOffset=-_ROW_PX / 2.6)
        .encode(x="at:Q", y=y, shape=alt.Shape("state:N", title="state", scale=shapes))
    )
    return drawn


def _grid(requests: Sequence[DrawnRequest], block_tokens: int) -> list[int]:
    longest = max(request.prediction.chunks[-1].end for request in requests)
    return list(range(0, longest + 1, block_tokens))


def _bars(request: DrawnRequest, block_tokens: int) -> Iterator[dict[str, str | int]]:
    for index, block in enumerate(request.prediction.restored_blocks):
        for writer in block:
            start, end = index * block_tokens, (index + 1) * block_tokens
            yield {
                "request": request.name, "how": "restored",
                "start": max(start, writer.start), "end": min(end, writer.end),
                "writer": request.authors[writer.request], "label": _label(request, writer),
            }  # fmt: skip
    for chunk in request.prediction.chunks:
        yield {
            "request": request.name, "how": "computed", "start": chunk.start, "end": chunk.end,
            "writer": request.author, "label": str(chunk.end - chunk.start),
        }  # fmt: skip


def _label(request: DrawnRequest, writer: Writer) -> str:
    return f"{request.authors[writer.request]} {writer.start}–{writer.end}"


def _states(request: DrawnRequest) -> Iterator[dict[str, str | int]]:
    if request.prediction.restored_state is not None:
        at = request.prediction.restored_state.end
        yield {"request": request.name, "at": at, "state": "restored"}
    for position in request.prediction.checkpoints:
        yield {"request": request.name, "at": position, "state": "saved"}
