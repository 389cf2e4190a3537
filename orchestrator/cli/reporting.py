"""Reports of a stored run: read, judged anew, written to standard output."""

import shlex
from pathlib import Path

from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.app import ReportFormat
from orchestrator.cli.progress import terminal
from orchestrator.cli.resuming import arms_made
from orchestrator.exhibiting import exhibits
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import RunVerdict
from orchestrator.reporting.html import html
from orchestrator.reporting.junit import junit
from orchestrator.reporting.markdown import markdown
from orchestrator.runner import judge_run


def print_report(run: Path, form: ReportFormat) -> None:
    """The run's report in one format; a page's links work from the run's folder.

    Raises:
        RunFolderError: It is not the folder of a run, or a file of it cannot be read.
    """
    store = RunStore.open(run)
    plan = store.read("plan.json", Plan)
    verdict = judge_run(plan, store)
    terminal().out(_report(plan, verdict, store, form), end="", highlight=False)


def _report(plan: Plan, verdict: RunVerdict, store: RunStore, form: ReportFormat) -> str:
    match form:
        case ReportFormat.MARKDOWN:
            command = shlex.join(store.start().command)
            return markdown(plan, verdict, command=command, made=arms_made(plan, store))
        case ReportFormat.HTML:
            return page(plan, verdict, store)
        case ReportFormat.JUNIT:
            return junit(verdict, {arm.name: store.outcome(arm.name) for arm in plan.arms})
        case ReportFormat.COMMENT:
            raise AssertionError(form)  # `cli/sharing.py` prints it, with what goes along


def page(plan: Plan, verdict: RunVerdict, store: RunStore) -> str:
    """`report.html` of a judged run."""
    return html(
        plan,
        verdict,
        exhibits(plan, verdict, store),
        run=store.root.resolve().name,
        made=arms_made(plan, store),
    )
