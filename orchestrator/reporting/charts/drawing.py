"""How every chart becomes SVG that can stand in a page.

Colours are the page's own CSS variables, so that light and dark need one drawing. Marks carry no
labels of their own: the whole picture has one, and the page says the same in a table or in words.
"""

from collections.abc import Mapping, Sequence

import altair as alt
import vl_convert
from markupsafe import Markup, escape

INK, LINE, ACCENT, SOFT = "currentColor", "var(--line)", "var(--accent)", "var(--soft)"

_FONT = "Arial"
"""The renderer measures with its metrics; the page asks for it, or for one of the same widths."""

_PADDING = {"left": 24, "right": 8, "top": 4, "bottom": 12}
"""Pixels that a reader's wider font may need."""

VARIANT_COLOURS = 8
"""Letters beyond the eighth take the colours again; the letter itself is always shown."""

Drawing = alt.Chart | alt.LayerChart | alt.HConcatChart | alt.VConcatChart | alt.FacetChart


def chart_of(rows: Sequence[Mapping[str, str | int | float]]) -> alt.Chart:
    """A chart of these rows, not drawn yet."""
    return alt.Chart(alt.InlineData(values=[dict(row) for row in rows]))


def variant_colour(number: int) -> str:
    """The page's colour of the variant with this number, from 0."""
    return f"var(--v{number % VARIANT_COLOURS})"


def svg(drawing: Drawing, label: str) -> Markup:
    """Draw a chart.

    Args:
        drawing: Its data are values: no address is ever followed.
        label: What the picture shows, in one sentence, for those who do not see it.

    Returns:
        One `svg` element. Every text in it is escaped by the renderer.
    """
    styled = (
        drawing.configure(background="transparent", aria=False, padding=_PADDING, font=_FONT)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=INK, titleColor=INK, domainColor=SOFT, tickColor=SOFT, gridColor=LINE,
            labelFontSize=11, titleFontSize=12, titleFontWeight="normal", labelLimit=260,
            titlePadding=10,
        )
        .configure_legend(
            labelColor=INK, titleColor=INK, labelFontSize=11, titleFontSize=12,
            titleFontWeight="normal", orient="top",
        )
        .configure_title(color=INK, fontSize=12, fontWeight="normal", anchor="start")
        .configure_header(labelColor=INK, titleColor=INK, labelFontSize=12)
    )  # fmt: skip
    drawn = vl_convert.vegalite_to_svg(styled.to_json(validate=True))
    return Markup(  # noqa: S704 - the renderer's own SVG, and a label that is escaped here
        drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
    )
