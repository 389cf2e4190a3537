"""The table on a terminal."""

from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from orchestrator.model.verdict import RunVerdict
from orchestrator.reporting.rows import COLUMNS, rows

_STYLES = {"stable": "green", "diverged": "bold red", "inconclusive": "yellow"}


def table(verdict: RunVerdict) -> Table:
    """One row a measured cell; a line between arms."""
    result = Table(title=verdict.experiment, title_justify="left", header_style="bold")
    for heading in COLUMNS.values():
        result.add_column(heading, overflow="fold")
    previous = None
    for row in rows(verdict):
        if previous not in (None, row.arm):
            result.add_section()
        previous = row.arm
        values = asdict(row)
        style = _STYLES[row.verdict.partition(":")[0]]
        # Text, not markup: a document's name is data.
        cells = [Text(values[key], style=style if key == "verdict" else "") for key in COLUMNS]
        result.add_row(*cells)
    return result
