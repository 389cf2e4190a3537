"""The outcome by the length of A, and by the length of its last chunk."""

from collections import Counter
from collections.abc import Iterator

import altair as alt
from markupsafe import Markup

from orchestrator.reporting.charts.drawing import INK, LINE, chart_of, svg
from orchestrator.reporting.prediction import MODULI
from orchestrator.reporting.scan import SIGN, Scan, Shape

_COLUMN_PX, _ROW_PX = 34, 24
_SHAPES: tuple[Shape, ...] = tuple(SIGN)
_FILLS = ["var(--stable)", "var(--diverged)", "var(--v2)", "var(--v3)", "var(--inconclusive)"]

Rows = list[dict[str, str | int]]


def lengths_chart(scan: Scan, block_tokens: int) -> Markup:
    """A column a length of A, a row a document; a thick line where the outcome flips."""
    names = {row.a_tokens: _column(row.a_tokens, block_tokens) for row in scan.rows}
    cells: Rows = [
        {"a": names[row.a_tokens], "document": document, "shape": shape, "sign": SIGN[shape]}
        for row in scan.rows
        for document, shape in zip(scan.documents, row.shapes, strict=True)
        if shape is not None
    ]
    flips: Rows = [{"a": names[flip.above]} for flip in scan.flips]
    x = alt.X(
        "a:N",
        sort=list(names.values()),
        title="length of A in tokens, as whole blocks and a rest",
        axis=alt.Axis(labelAngle=-90),
    )
    fills = chart_of(cells).mark_rect(stroke=LINE).encode(x, _row(), _fill())
    signs = (
        chart_of(cells).mark_text(fontSize=13, fontWeight="bold", color=INK)
        .encode(x, _row(), text="sign:N")
    )  # fmt: skip
    # A band's own left edge, so that the line stands between two lengths.
    edges = (
        chart_of(flips).mark_rule(color=INK, strokeWidth=3)
        .encode(alt.X("a:N", sort=list(names.values()), bandPosition=0))
    )  # fmt: skip
    drawn = alt.layer(fills, signs, *([edges] if flips else [])).properties(
        width=alt.Step(_COLUMN_PX), height=alt.Step(_ROW_PX)
    )
    told = ", ".join(str(flip.above) for flip in scan.flips) or "nowhere"
    return svg(drawn, f"Outcome of {scan.arm} by length of A and document; flips at {told}")


def remainders_chart(scan: Scan) -> Markup | None:
    """The outcome by the remainders of the last chunk's length; `None` without a prediction.

    A tile or a size class of a kernel decides only if, in its row, no remainder has two outcomes.
    """
    cells = list(_remainders(scan))
    if not cells:
        return None
    order = [str(modulus) for modulus in MODULI]
    base = chart_of(cells).encode(
        x=alt.X("rest:O", title="remainder of the length of A's last chunk",
                axis=alt.Axis(labelAngle=0)),
        y=alt.Y("modulus:O", sort=order, title="modulo"),
    )  # fmt: skip
    drawn = alt.layer(
        base.mark_rect(stroke=LINE).encode(_fill()),
        base.mark_text(fontSize=12, fontWeight="bold", color=INK).encode(text="sign:N"),
    ).properties(width=alt.Step(28), height=alt.Step(_ROW_PX))
    return svg(drawn, f"Outcome of {scan.arm} by the remainder of A's last chunk")


def _remainders(scan: Scan) -> Iterator[dict[str, str | int]]:
    """One mark a modulus and remainder: the outcome, or `mixed` where there are several."""
    for modulus in MODULI:
        by_rest: dict[int, Counter[Shape]] = {}
        for row in scan.rows:
            if row.last_chunk_tokens is not None:
                seen = Counter(shape for shape in row.shapes if shape is not None)
                by_rest.setdefault(row.last_chunk_tokens % modulus, Counter()).update(seen)
        for rest, shapes in by_rest.items():
            only = next(iter(shapes)) if len(shapes) == 1 else None
            yield {
                "modulus": str(modulus),
                "rest": rest,
                "shape": only or "mixed",
                "sign": SIGN[only] if only else "".join(SIGN[s] for s in _SHAPES if s in shapes),
            }


def _column(a_tokens: int, block_tokens: int) -> str:
    whole, rest = divmod(a_tokens, block_tokens)
    return f"{a_tokens} = {whole}·{block_tokens}" + (f"+{rest}" if rest else "")


def _row() -> alt.Y:
    return alt.Y("document:N", title=None)


def _fill() -> alt.Fill:
    return alt.Fill(
        "shape:N",
        scale=alt.Scale(domain=[*_SHAPES, "mixed"], range=[*_FILLS, "var(--paper)"]),
        legend=None,
    )
