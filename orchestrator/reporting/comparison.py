"""A comparison with a baseline, on a terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from orchestrator.model.comparison import CellChange, ColdSpeed, FieldDifference

_STYLES = {"worse": "bold red", "cannot say": "yellow", "other": "", "remark": "dim"}


def field_table(fields: Sequence[FieldDifference]) -> Table:
    """One row a field."""
    result = _table("field", "run", "baseline")
    for entry in fields:
        result.add_row(*map(Text, (entry.field, _known(entry.run), _known(entry.baseline))))
    return result


def change_table(changes: Sequence[CellChange]) -> Table:
    """One row a change."""
    result = _table("arm", "cell", "what", "baseline", "run", "effect")
    for change in changes:
        texts = (change.arm, change.cell, change.what, change.baseline, change.run, change.effect)
        result.add_row(*map(Text, texts), style=_STYLES[change.effect])
    return result


def speed_table(speeds: Sequence[ColdSpeed]) -> Table:
    """One row a column and length; the ratio is of speeds, so above 1 the run is faster."""
    result = _table("stack", "cold tokens", "speed over the baseline's", "interval", "", "why")
    for speed in speeds:
        ratio = speed.ratio
        between = ratio.interval
        texts = (
            speed.column,
            str(speed.prompt_tokens),
            "unknown" if ratio.median is None else f"{ratio.median:.3f}",
            "none" if between is None else f"{between.low:.3f} to {between.high:.3f}",
            ratio.word,
            ratio.reason,
        )
        result.add_row(*map(Text, texts))
    return result


def _table(*headings: str) -> Table:
    result = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    for heading in headings:
        result.add_column(heading, overflow="fold")
    return result


def _known(value: str | None) -> str:
    return "not recorded" if value is None else value
