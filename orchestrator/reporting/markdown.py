"""`report.md`."""

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.model.plan import Plan
from orchestrator.model.resumption import KeptArm
from orchestrator.model.verdict import ArmVerdict, RunVerdict
from orchestrator.pricing import advice, prices
from orchestrator.reporting.company import company_rows
from orchestrator.reporting.figures import PRICES, later_ratio, launch_command, milliseconds, ratio
from orchestrator.reporting.rows import differences, rows
from orchestrator.reporting.scan import SIGNS, scans
from orchestrator.reporting.stacks import stacks_section
from orchestrator.reporting.suite import suite_section

TEMPLATES = Environment(
    loader=PackageLoader("orchestrator.reporting", "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # noqa: S701 - Markdown; `cell` escapes what could end a table cell
)


def _cell(text: object) -> str:
    """Text inside a Markdown table: nothing in it may end the cell or the line, or be markup."""
    plain = " ".join(str(text).split())
    for character in "\\|`*_<>[]":
        plain = plain.replace(character, f"\\{character}")
    return plain


TEMPLATES.filters |= {"cell": _cell, "ms": milliseconds, "ratio": ratio, "later_ratio": later_ratio}


def markdown(plan: Plan, verdict: RunVerdict, *, command: str, made: Sequence[KeptArm] = ()) -> str:
    """The report of a run.

    Args:
        plan: What was meant to happen.
        verdict: What was concluded.
        command: The command line that makes such a run from nothing.
        made: Of a resumed run: when and by which run each arm was made.
    """
    priced = () if plan.control is None else prices(verdict, plan.control)
    return TEMPLATES.get_template("report.md.j2").render(
        plan=plan,
        verdict=verdict,
        rows=rows(verdict),
        suite=suite_section(plan, verdict),
        companies=company_rows(verdict),
        moved=differences(verdict),
        findings=[(arm.arm, finding) for arm in verdict.arms for finding in arm.findings],
        launches=[
            (arm.name, launch_command(arm.launch.environment, arm.launch.argv)) for arm in plan.arms
        ],
        command=command,
        made=made,
        eligible=_eligible(verdict.arms),
        scans=scans(plan, verdict),
        memory=_memory(verdict),
        signs=SIGNS,
        depth=2,
        stacks=None if verdict.stacks is None else stacks_section(verdict.stacks),
        prices=priced if verdict.stacks is None else (),  # one kind of ratio in a report
        price_words=PRICES,
        advice=advice(priced) if priced else None,
    )


def _memory(verdict: RunVerdict) -> list[str]:
    """One line an arm and series that says something; the others together."""
    said = [(arm.arm, series) for arm in verdict.arms for series in arm.memory]
    lines = [
        f"{arm}, {series.series}: {series.result}: {series.reason}"
        for arm, series in said
        if series.result != "cannot say"
    ]
    silent = [series.reason for _, series in said if series.result == "cannot say"]
    if silent:
        lines.append(f"{len(silent)} series cannot say; the first: {silent[0]}")
    return lines


def _eligible(arms: tuple[ArmVerdict, ...]) -> int | None:
    """How many cells; `None` when nothing was predicted."""
    said = [cell.eligible for arm in arms for cell in arm.cells if cell.eligible is not None]
    return said.count("eligible") if said else None
