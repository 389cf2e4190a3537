"""`report.html`: one file that opens from disk, in light and dark, without script or network."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.model.exhibits import ArmExhibit, Contrast, Exhibits
from orchestrator.model.plan import Plan
from orchestrator.model.resumption import KeptArm
from orchestrator.model.verdict import CellVerdict, RunVerdict, Word
from orchestrator.pricing import advice, prices
from orchestrator.reporting.agreement import agreements
from orchestrator.reporting.charts.drawing import VARIANT_COLOURS
from orchestrator.reporting.charts.lengths import lengths_chart, remainders_chart
from orchestrator.reporting.charts.memory import memory_chart
from orchestrator.reporting.charts.movement import movement_chart
from orchestrator.reporting.charts.stacks import ratios_chart, speeds_chart
from orchestrator.reporting.charts.times import prefill_chart
from orchestrator.reporting.company import company_rows
from orchestrator.reporting.figures import (
    ABSENT,
    PRICES,
    later_ratio,
    launch_command,
    milliseconds,
    ratio,
)
from orchestrator.reporting.grid import ArmGrid, grid
from orchestrator.reporting.origins import origin_pictures
from orchestrator.reporting.scan import SIGN, Scan, scans
from orchestrator.reporting.stacks import stacks_section
from orchestrator.reporting.suite import suite_section

_TEMPLATES = Environment(
    loader=PackageLoader("orchestrator.reporting", "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=True,  # everything but the charts, which escape their own texts
)
_TEMPLATES.filters |= {
    "ms": milliseconds,
    "ratio": ratio,
    "later_ratio": later_ratio,
    "signed": lambda value: ABSENT if value is None else f"{value:+.4g}",
}

SIGN_OF: dict[Word, str] = {
    "stable": "=", "diverged": "≠", "inconclusive": "?",
    "batch-equal": "=", "batch-dependent": "≠",
}  # fmt: skip
"""A verdict in one character: colour is never the only signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedCell:
    """A cell with a difference, and the candidates of the first token that differs."""

    cell: CellVerdict
    contrast: Contrast | None
    """`None` when one answer is the other's beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedArm:
    """One arm's cells that have a difference; at least one."""

    arm: str
    chart: Markup
    cells: tuple[MovedCell, ...]

    @property
    def opened(self) -> MovedCell:
        """The one to show unfolded: where most candidates moved at the first token that differs."""
        return max(self.cells, key=_moved_at_first)


def _moved_at_first(moved: MovedCell) -> int:
    rows = () if moved.contrast is None else moved.contrast.rows
    return sum(row.moved is True for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnScan:
    """One arm's outcome by the length of A."""

    scan: Scan
    lengths: Markup
    remainders: Markup | None


def html(
    plan: Plan,
    verdict: RunVerdict,
    exhibits: Exhibits,
    *,
    run: str,
    made: Sequence[KeptArm] = (),
) -> str:
    """The whole report of a run.

    Args:
        plan: What was meant to happen.
        verdict: What was concluded.
        exhibits: What the run left behind beside it.
        run: Name of its folder.
        made: Of a resumed run: when and by which run each arm was made.

    Returns:
        One page. Its only links lead to parts of itself and to files of the run's folder, so it
        belongs there.
    """
    priced = () if plan.control is None else prices(verdict, plan.control)
    grids = _grids(plan, verdict)
    return _TEMPLATES.get_template("report.html.j2").render(
        plan=plan,
        run=run,
        made=made,
        verdict=verdict,
        exhibits=exhibits,
        sign_of=SIGN_OF,
        colours=VARIANT_COLOURS,
        grids=grids,
        columns=_columns(grids),
        stacks=None if verdict.stacks is None else stacks_section(verdict.stacks),
        speeds_chart=None if verdict.stacks is None else speeds_chart(verdict.stacks),
        ratios_chart=None if verdict.stacks is None else ratios_chart(verdict.stacks),
        suite=suite_section(plan, verdict),
        agreements=agreements(plan, grids),
        companies=company_rows(verdict),
        reasons=list(dict.fromkeys(cell.reason for arm in verdict.arms for cell in arm.cells)),
        scans=[_drawn_scan(scan, plan.block_size_tokens) for scan in scans(plan, verdict)],
        scan_signs=SIGN,
        prices=priced if verdict.stacks is None else (),  # one kind of ratio in a report
        price_words=PRICES,
        advice=advice(priced) if priced else None,
        moved=[moved for moved in map(_moved, grids, exhibits.arms) if moved is not None],
        origins=origin_pictures(plan),
        prefill=prefill_chart(verdict),
        memory=memory_chart(exhibits.arms),
        logs={arm.arm: arm.log_file for arm in exhibits.arms},
        command=shlex.join(exhibits.start.command),
        launches=[(arm.arm, _launch(plan, arm)) for arm in exhibits.arms],
    )


def _grids(plan: Plan, verdict: RunVerdict) -> list[ArmGrid]:
    commands = {arm.name: arm.launch.argv for arm in plan.arms}
    usual = commands[plan.control or plan.arms[0].name]
    return [grid(arm, commands[arm.arm], usual) for arm in verdict.arms]


def _columns(grids: list[ArmGrid]) -> int:
    """Repeats of the longest row."""
    return max((len(row.repeats) for part in grids for row in part.rows), default=0)


def _drawn_scan(scan: Scan, block_tokens: int) -> DrawnScan:
    return DrawnScan(
        scan=scan, lengths=lengths_chart(scan, block_tokens), remainders=remainders_chart(scan)
    )


def _moved(part: ArmGrid, exhibit: ArmExhibit) -> MovedArm | None:
    judged = [row.cell for row in part.rows]
    cells = [c for c in judged if c.pattern is not None and c.pattern.difference is not None]
    if not cells:
        return None
    contrasts = {contrast.cell: contrast for contrast in exhibit.contrasts}
    return MovedArm(
        arm=exhibit.arm,
        chart=movement_chart(cells),
        cells=tuple(MovedCell(cell=cell, contrast=contrasts.get(cell.cell)) for cell in cells),
    )


def _launch(plan: Plan, exhibit: ArmExhibit) -> str:
    """As really used, or as planned where the arm was not reached."""
    planned = next(arm.launch for arm in plan.arms if arm.name == exhibit.arm)
    used = exhibit.launch or planned
    return launch_command(used.environment, used.argv)
