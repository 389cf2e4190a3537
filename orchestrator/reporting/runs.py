"""Runs on a terminal: many in a table, or one by itself."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from orchestrator.model.resumption import Resumption
from orchestrator.model.run_entry import RunEntry, UnreadableRun

STYLES = {
    "as expected": "green", "not seen": "green", "not as expected": "bold red",
    "affected": "bold red", "batch-dependent": "bold red", "inconclusive": "yellow",
}  # fmt: skip
"""Of a run's word; every other one says that it did not get as far as a verdict."""

_NO_VERDICT = "magenta"


def runs_table(runs: Iterable[RunEntry], unreadable: Sequence[UnreadableRun]) -> Table:
    """One row a run, in the order given; unreadable folders last."""
    result = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    for heading in ("run", "profile", "result", "arms"):
        result.add_column(heading, overflow="fold")
    for run in runs:
        result.add_row(
            Text(run.name),
            Text(run.profile),
            Text(run.word, style=STYLES.get(run.word, _NO_VERDICT)),
            Text(_arms(run)),
        )
    for folder in unreadable:
        result.add_row(
            Text(folder.name), "", Text("unreadable", style=_NO_VERDICT), Text(folder.reason)
        )
    return result


def _arms(run: RunEntry) -> str:
    """Its arms' verdicts; of a run without any, why."""
    if run.arms:
        return ", ".join(f"{arm.arm}: {arm.verdict}" for arm in run.arms)
    return run.reason or "–"


def run_lines(run: RunEntry, resumption: Resumption | None) -> list[str]:
    """What a run is and what it came to, line by line."""
    lines = [
        f"run: {run.name}",
        f"{run.experiment} on {run.profile} ({run.selection}); server: {run.engine}",
        f"started {run.started_at:%Y-%m-%d %H:%M:%S} UTC; {run.state}"
        + ("" if run.exit_code is None else f", exit code {run.exit_code}"),
    ]
    if run.nightly is not None:
        lines.append(f"made by nightly {run.nightly}")
    if resumption is not None:
        lines.append(f"resumed {resumption.of}")
        lines += [
            f"  {arm.arm}: kept, made {arm.made_at:%Y-%m-%d %H:%M:%S} UTC in {arm.run}"
            for arm in resumption.kept
        ]
    if run.reason is not None:
        lines.append(run.reason)
    return lines
