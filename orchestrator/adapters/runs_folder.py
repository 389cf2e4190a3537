"""`runs/` as a whole: what is in it, `runs/latest`, `runs/index.html`."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pydantic import ConfigDict

from orchestrator.adapters.ownership import alive
from orchestrator.adapters.run_store import RunStore
from orchestrator.errors import HostError, RunFolderError
from orchestrator.listing import LATEST, state_of
from orchestrator.model.plan import Selection
from orchestrator.model.record import Record
from orchestrator.model.run_entry import ArmEntry, Listing, RunEntry, UnreadableRun
from orchestrator.model.verdict import Result, Word

INDEX = "index.html"
NIGHTLIES = "nightly"
"""Folder of the nightlies' own pages, beside those of the experiments."""

_REPORTS = ("report.html", "report.md")


class _Part(Record):
    """The fields that a list shows of a stored record; the rest of it is not looked at."""

    model_config = ConfigDict(extra="ignore")


class _PlanPart(_Part):
    experiment: str
    profile: str
    engine: str
    selection: Selection


class _ArmPart(_Part):
    arm: str
    verdict: Word


class _VerdictPart(_Part):
    result: Result
    arms: tuple[_ArmPart, ...]


def read_runs(runs: Path) -> Listing:
    """Every run in the folder, and every folder in it that is none, with the reason."""
    entries: list[RunEntry] = []
    unreadable: list[UnreadableRun] = []
    for folder in _run_folders(runs):
        name = folder.relative_to(runs).as_posix()
        try:
            entries.append(read_entry(folder, name))
        except (RunFolderError, OSError) as error:
            unreadable.append(UnreadableRun(name=name, reason=str(error)))
    return Listing(runs=tuple(entries), unreadable=tuple(unreadable))


def _run_folders(runs: Path) -> Iterator[Path]:
    """`EXPERIMENT/TIME-HASH`, and runs that somebody has put beside the experiments."""
    for folder in _folders(runs):
        if RunStore(folder).has("plan.json"):
            yield folder
        elif folder.name != NIGHTLIES:
            yield from _folders(folder)


def _folders(folder: Path) -> list[Path]:
    """Links are left out: `latest` is the same run once more. So is what is being removed."""
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    )


def read_entry(folder: Path, name: str) -> RunEntry:
    """One run, in a few words.

    Raises:
        RunFolderError: It is not the folder of a run, or one of its files is broken.
    """
    store = RunStore.open(folder)
    plan = store.read("plan.json", _PlanPart)
    start = store.start()
    end = store.end()
    judged = store.read("verdicts.json", _VerdictPart) if store.has("verdicts.json") else None
    resumed = store.resumption()
    return RunEntry(
        name=name,
        experiment=plan.experiment,
        profile=plan.profile,
        engine=plan.engine,
        selection=plan.selection,
        started_at=start.started_at,
        state=state_of(end, alive(start.owner)),
        result=None if judged is None else judged.result,
        exit_code=None if end is None else end.exit_code,
        reason=None if end is None else end.reason,
        arms=() if judged is None else tuple(
            ArmEntry(arm=arm.arm, verdict=arm.verdict) for arm in judged.arms
        ),
        resumed=None if resumed is None else resumed.of,
        nightly=start.nightly,
        report=report_of(store),
    )  # fmt: skip


def report_of(store: RunStore) -> str | None:
    """The file of a run's report, the one that is easier to read first; `None`: it has none."""
    return next((report for report in _REPORTS if store.has(report)), None)


def point_latest(runs: Path, run: Path) -> None:
    """Let `runs/latest` name this run; there is no moment without it.

    Raises:
        HostError: The link cannot be made; names what is in its way.
    """
    link = runs / LATEST
    fresh = runs / f".{LATEST}.{os.getpid()}"
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(run.relative_to(runs))
        fresh.replace(link)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise HostError(f"{link} cannot be made a link to the newest run: {error}") from error


def write_index(runs: Path, page: str) -> None:
    """Put a new page in the place of the old one, whole.

    Raises:
        HostError: The disk does not take it; the old page stays.
    """
    partial = runs / f".{INDEX}.{os.getpid()}"
    try:
        partial.write_text(page, encoding="utf-8")
        partial.replace(runs / INDEX)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise HostError(f"cannot write {runs / INDEX}: {error}") from error


def remove_run(runs: Path, name: str) -> None:
    """Remove a run, and whatever an earlier removal that was killed has left.

    It is out of the list at once: a half-removed run is never one.

    Raises:
        HostError: It cannot be removed.
    """
    folder = runs / name
    try:
        folder.rename(folder.with_name(f"{_DOOMED}{folder.name}"))
        for doomed in folder.parent.glob(f"{_DOOMED}*"):
            shutil.rmtree(doomed)
    except OSError as error:
        raise HostError(f"{folder} cannot be removed: {error}") from error


_DOOMED = ".removed-"
