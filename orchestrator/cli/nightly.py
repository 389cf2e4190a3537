"""`vllm-arms nightly`: the entries of a config in turn, each held to its baseline."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from orchestrator.adapters.nightlies import only_nightly, save_nightly
from orchestrator.adapters.runs_folder import read_runs, remove_run, report_of
from orchestrator.baselines.comparison import compare_runs
from orchestrator.cli.comparing import judged_run
from orchestrator.cli.listing import refresh_index, run_name
from orchestrator.cli.nightly_config import Checked, checked_config
from orchestrator.cli.planning import Wanted
from orchestrator.cli.progress import ConsoleProgress, terminal
from orchestrator.cli.running import Begun, begin_run, carry_out
from orchestrator.cli.signals import interruptible
from orchestrator.errors import HostError, InterruptedRunError, OrchestratorError
from orchestrator.model.nightly import EntryResult, Nightly, NightlyEntry, StartResult, Word
from orchestrator.nightly.retention import superfluous
from orchestrator.nightly.words import exit_code, sentence_of, word_of
from orchestrator.reporting.nightly import nightly_line
from orchestrator.reporting.pages import nightly_page


@dataclass(frozen=True, slots=True, kw_only=True)
class _Night:
    """What stays the same from the first entry to the last."""

    project: Path
    name: str
    checked: Checked
    progress: ConsoleProgress
    hurry: Event


def run_nightly(project: Path, config_file: Path) -> int:
    """Run every entry, compare, remove old runs, leave a page; print one line.

    Progress goes to standard error, so that standard output is the line alone.

    Raises:
        DefinitionError: The config or what it names is wrong; nothing was started.
        HostError: Another nightly is going on, or the disk does not take the page.
        InterruptedRunError: What was measured until then is on the page.
    """
    checked = checked_config(project, config_file)
    started_at = datetime.now(UTC)
    with only_nightly(project / "runs"), interruptible() as hurry:
        night = _Night(
            project=project,
            name=started_at.strftime("%Y-%m-%dT%H-%M-%SZ"),
            checked=checked,
            progress=ConsoleProgress(terminal(errors=True)),
            hurry=hurry,
        )
        results, interruption = _results(night)
        words = [result.word for result in results]
        nightly = Nightly(
            name=night.name,
            started_at=started_at,
            ended_at=datetime.now(UTC),
            config=checked.config,
            results=tuple(results),
            removed=tuple(_remove_old(night)),
            exit_code=exit_code(words) if interruption is None else interruption.exit_code,
        )
        page = save_nightly(project / "runs", nightly, nightly_page(nightly))
        refresh_index(project)
    terminal().out(nightly_line(nightly, str(page.resolve())), highlight=False)
    if interruption is not None:
        raise interruption
    return nightly.exit_code


def _results(night: _Night) -> tuple[list[EntryResult], InterruptedRunError | None]:
    """Every entry in turn; after an interruption, or a failure that ends the night, none starts."""
    results = []
    interruption: InterruptedRunError | None = None
    stopped: str | None = None
    for entry in night.checked.config.entries:
        starts: list[StartResult] = []
        while len(starts) < entry.starts:
            if stopped is None:
                try:
                    starts.append(_start(night, entry, len(starts) + 1))
                except InterruptedRunError as error:
                    interruption, stopped = error, str(error)
                else:
                    stopped = _reason_to_stop(night, entry, starts[-1])
            else:
                starts.append(_without_verdict(None, "not finished", stopped))
        results.append(EntryResult(entry=entry, starts=tuple(starts)))
    return results, interruption


def _reason_to_stop(night: _Night, entry: NightlyEntry, start: StartResult) -> str | None:
    failed = start.word == "infrastructure failure"
    if not failed or night.checked.config.after_failure == "go on":
        return None
    return f"{entry.title} failed, and after_failure is stop"


def _start(night: _Night, entry: NightlyEntry, number: int) -> StartResult:
    """One run of an entry, compared with its baseline."""
    night.progress.line(f"{entry.title}, {number} of {entry.starts}")
    wanted = Wanted(
        experiment=entry.experiment,
        profile=entry.profile,
        selection=entry.selection,
        arms=entry.arms,
    )
    begun: Begun | None = None
    try:
        begun = begin_run(
            night.project, wanted, night.progress, command=wanted.command(), nightly=night.name
        )
        verdict = carry_out(begun, night.progress, night.hurry)
    except OrchestratorError as error:
        night.progress.line(f"{entry.title}: infrastructure failure: {error}")
        return _without_verdict(_name(night, begun), "infrastructure failure", str(error))
    baseline = night.checked.baselines[entry.baseline]
    comparison = compare_runs(judged_run(begun.store.root), baseline)
    word = word_of(verdict, baseline.verdict, comparison)
    night.progress.line(f"{entry.title}: {word}")
    return StartResult(
        run=_name(night, begun),
        report=report_of(begun.store),
        word=word,
        sentence=sentence_of(word, verdict, baseline.verdict, comparison),
        comparison=comparison,
    )


def _without_verdict(run: str | None, word: Word, sentence: str) -> StartResult:
    return StartResult(run=run, report=None, word=word, sentence=sentence, comparison=None)


def _name(night: _Night, begun: Begun | None) -> str | None:
    return None if begun is None else run_name(night.project, begun.store.root)


def _remove_old(night: _Night) -> list[str]:
    """Names of the runs that are gone; one that cannot be removed takes nothing from the night."""
    config, runs = night.checked.config, night.project / "runs"
    if config.keep_runs is None:
        return []
    old = superfluous(
        read_runs(runs).runs,
        keep=config.keep_runs,
        baselines={run_name(night.project, night.project / e.baseline) for e in config.entries},
        tonight=night.name,
    )
    removed = []
    try:
        for run in old:
            remove_run(runs, run.name)
            removed.append(run.name)
    except HostError as error:
        night.progress.line(f"old runs stay: {error}")
    return removed
