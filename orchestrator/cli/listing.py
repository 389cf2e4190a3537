"""`vllm-arms list` and `show`, and the index page."""

from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from orchestrator.adapters.nightlies import nightly_names
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.runs_folder import read_entry, read_runs, write_index
from orchestrator.cli.progress import terminal
from orchestrator.errors import DefinitionError
from orchestrator.listing import Filter, named, selected
from orchestrator.model.verdict import RunVerdict
from orchestrator.reporting.pages import index_page
from orchestrator.reporting.runs import run_lines, runs_table
from orchestrator.reporting.terminal import table


def print_list(project: Path, wanted: Filter, *, as_json: bool) -> None:
    """The runs that pass the filter, newest first, and every folder that is unreadable."""
    listing = read_runs(project / "runs")
    runs = selected(listing.runs, wanted)
    console = terminal()
    if as_json:
        for entry in (*runs, *listing.unreadable):
            console.out(entry.model_dump_json(), highlight=False)
    elif runs or listing.unreadable:
        console.print(runs_table(runs, listing.unreadable))
    else:
        console.print(f"no such run in {project / 'runs'}", highlight=False)


def moment(text: str) -> datetime:
    """A date, or a date and time; UTC where it names no zone.

    Raises:
        DefinitionError: It is neither.
    """
    try:
        told = datetime.fromisoformat(text)
    except ValueError as error:
        raise DefinitionError(
            f"--since {text}", "is no date such as 2026-11-30 or 2026-11-30T18:00"
        ) from error
    return told if told.tzinfo is not None else told.replace(tzinfo=UTC)


def find_run(project: Path, text: str) -> Path:
    """The folder of the run that a command's RUN names.

    A run's folder, also a trimmed one; `latest`; a run's name or a beginning that only it has.

    Raises:
        DefinitionError: No run, or more than one, is named so.
        RunFolderError: It is a folder, and not a run's.
    """
    folder, runs = Path(text), project / "runs"
    if RunStore(folder).has("plan.json"):
        return folder
    try:
        return runs / named(read_runs(runs).runs, text).name
    except DefinitionError:
        if folder.is_dir():
            RunStore.open(folder)  # says why it is none
        raise


def run_name(project: Path, run: Path) -> str:
    """A run's name below `runs/`; of a run elsewhere its path."""
    runs, folder = (project / "runs").resolve(), run.resolve()
    return str(folder.relative_to(runs) if folder.is_relative_to(runs) else folder)


def print_run(project: Path, text: str) -> None:
    """What a run is, what it came to, and where its report is."""
    folder = find_run(project, text)
    run = read_entry(folder, run_name(project, folder))
    store = RunStore.open(folder)
    console = terminal()
    for line in run_lines(run, store.resumption()):
        console.print(Text(line), soft_wrap=True)
    if store.has("verdicts.json"):
        console.print(table(store.read("verdicts.json", RunVerdict)))
    if run.report is not None:
        console.print(Text(f"report: {folder / run.report}"), soft_wrap=True)


def refresh_index(project: Path) -> None:
    """Make `runs/index.html` anew from what is stored.

    Raises:
        HostError: It cannot be written.
    """
    runs = project / "runs"
    page = index_page(read_runs(runs), nightly_names(runs), made_at=datetime.now(UTC))
    write_index(runs, page)
