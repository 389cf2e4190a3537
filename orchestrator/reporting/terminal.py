"""The table on a terminal."""

from rich import box
from rich.table import Table
from rich.text import Text

from orchestrator.model.verdict import RunVerdict, Word
from orchestrator.reporting.rows import COLUMNS, rows

_STYLES: dict[Word, str] = {
    "stable": "green", "diverged": "bold red", "inconclusive": "yellow",
    "batch-equal": "green", "batch-dependent": "bold magenta",
}  # fmt: skip

_MAY_BE_SHORTENED = ("document", "verdict")
"""Where a terminal is too narrow; what is left of these still tells one from another."""


def table(verdict: RunVerdict) -> Table:
    """One row a measured cell; a line between arms."""
    told = rows(verdict)
    result = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    for key, heading in COLUMNS.items():
        widest = max((len(getattr(row, key)) for row in told), default=0)
        result.add_column(
            heading,
            overflow="ellipsis",
            no_wrap=True,
            min_width=None if key in _MAY_BE_SHORTENED else max(widest, len(heading)),
        )
    previous = None
    for row in told:
        if previous not in (None, row.arm):
            result.add_section()
        previous = row.arm
        style = _STYLES[row.word]
        # Text, not markup: a document's name is data.
        result.add_row(
            *(Text(getattr(row, key), style=style if key == "verdict" else "") for key in COLUMNS)
        )
    return result
