"""Cold prefill by length: the speed of each stack, and its ratio to the base with its interval."""

from collections.abc import Iterator

import altair as alt
from markupsafe import Markup

from orchestrator.model.stacks import LengthRow, StackComparison
from orchestrator.reporting.charts.drawing import ACCENT, INK, SOFT, Drawing, chart_of, svg

_GAP_PX, _STACK_PX, _HEIGHT_PX = 30, 20, 220
"""Of a length: between it and the next one, and of each stack in it."""
_COLOURS = [ACCENT, "var(--diverged-ink)", "var(--stable-ink)", "var(--inconclusive-ink)"]
"""After the fourth stack they come again; the shape tells them apart."""

Rows = list[dict[str, str | int | float]]


def speeds_chart(comparison: StackComparison) -> Markup | None:
    """Prompt tokens a second by length; `None` when nothing was measured."""
    rows: Rows = [row for length in comparison.rows for row in _speeds(length)]
    if not rows:
        return None
    drawn = alt.layer(
        _spread(rows, comparison, "prompt tokens a second", from_zero=True),
        _middle(rows, comparison),
    )
    label = "Prompt tokens a second by length of a cold prompt, a mark a stack"
    return svg(_sized(drawn, comparison), label)


def ratios_chart(comparison: StackComparison) -> Markup | None:
    """Speeds over the base's, with their intervals; `None` where there is no interval at all."""
    rows: Rows = [row for length in comparison.rows for row in _ratios(length)]
    if not rows:
        return None
    base = chart_of([{"ratio": 1}]).mark_rule(color=INK, strokeDash=[4, 3]).encode(y="ratio:Q")
    title = f"speed ÷ that of {comparison.base}"
    starts = (
        chart_of([row for length in comparison.rows for row in _by_starts(length)])
        .mark_tick(color=SOFT, thickness=2, size=14, orient="horizontal")
        .encode(_length(), _stack(comparison), alt.Y("ratio:Q", scale=alt.Scale(zero=False)))
    )
    drawn = alt.layer(
        base, starts, _spread(rows, comparison, title, from_zero=False), _middle(rows, comparison)
    )
    label = f"Ratio of speeds against {comparison.base} by length, with intervals"
    return svg(_sized(drawn, comparison), label)


def _speeds(length: LengthRow) -> Iterator[dict[str, str | int | float]]:
    for speed in length.speeds:
        if speed.first_token_s is not None:
            yield {
                "tokens": length.prompt_tokens,
                "stack": speed.column,
                "middle": length.prompt_tokens / speed.first_token_s.median,
                "low": length.prompt_tokens / speed.first_token_s.greatest,
                "high": length.prompt_tokens / speed.first_token_s.least,
            }


def _ratios(length: LengthRow) -> Iterator[dict[str, str | int | float]]:
    for speed in length.speeds:
        ratio = speed.ratio
        if ratio is not None and ratio.median is not None and ratio.interval is not None:
            yield {
                "tokens": length.prompt_tokens,
                "stack": speed.column,
                "middle": ratio.median,
                "low": ratio.interval.low,
                "high": ratio.interval.high,
            }


def _by_starts(length: LengthRow) -> Iterator[dict[str, str | int | float]]:
    """The same for each pair of starts: what an interval over requests does not cover."""
    for speed in length.speeds:
        for value in () if speed.ratio is None else speed.ratio.by_starts:
            yield {"tokens": length.prompt_tokens, "stack": speed.column, "ratio": value}


def _length() -> alt.X:
    return alt.X("tokens:O", title="prompt tokens", axis=alt.Axis(labelAngle=0))


def _stack(comparison: StackComparison) -> alt.XOffset:
    return alt.XOffset("stack:N", sort=[column.name for column in comparison.columns])


def _spread(rows: Rows, comparison: StackComparison, title: str, *, from_zero: bool) -> alt.Chart:
    chart: alt.Chart = (
        chart_of(rows)
        .mark_rule(color=INK)
        .encode(
            _length(),
            _stack(comparison),
            alt.Y("low:Q", title=title, scale=alt.Scale(zero=from_zero)),
            y2="high:Q",
        )
    )
    return chart


def _middle(rows: Rows, comparison: StackComparison) -> alt.Chart:
    names = [column.name for column in comparison.columns]
    colours = [_COLOURS[number % len(_COLOURS)] for number in range(len(names))]
    chart: alt.Chart = (
        chart_of(rows)
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            _length(),
            _stack(comparison),
            y="middle:Q",
            color=alt.Color("stack:N", title=None, scale=alt.Scale(domain=names, range=colours)),
            shape=alt.Shape("stack:N", title=None, scale=alt.Scale(domain=names)),
        )
    )
    return chart


def _sized(drawn: Drawing, comparison: StackComparison) -> Drawing:
    width_px = len(comparison.rows) * (_GAP_PX + _STACK_PX * len(comparison.columns))
    sized: Drawing = drawn.properties(width=width_px, height=_HEIGHT_PX)
    return sized
