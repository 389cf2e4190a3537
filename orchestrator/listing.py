"""Which runs, and in which order: filters, names, histories. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import get_args

from orchestrator.errors import DefinitionError
from orchestrator.model.host import RunEnd
from orchestrator.model.ownership import Alive
from orchestrator.model.run_entry import RunEntry, State
from orchestrator.model.verdict import Result

LATEST = "latest"
"""Names the newest run."""

WORDS = tuple(dict.fromkeys((*get_args(Result), *get_args(State))))
"""Everything that a run can come to."""


def state_of(end: RunEnd | None, owner: Alive) -> State:
    """How a run ended, or that it goes on; an owner nobody can judge is not taken for dead."""
    if end is not None:
        return end.how
    match owner:
        case "alive":
            return "running"
        case "dead":
            return "killed"
        case "unknown":
            return "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a listed run must be; `None`: anything."""

    experiment: str | None = None
    profile: str | None = None
    word: str | None = None
    since: datetime | None = None

    def __post_init__(self) -> None:
        if self.word is not None and self.word not in WORDS:
            raise DefinitionError(
                f"--result {self.word}", f"no run comes to that; there are {', '.join(WORDS)}"
            )


def selected(runs: Iterable[RunEntry], wanted: Filter) -> list[RunEntry]:
    """The runs that pass the filter, newest first."""
    return sorted(
        (
            run
            for run in runs
            if wanted.experiment in (None, run.experiment)
            and wanted.profile in (None, run.profile)
            and wanted.word in (None, run.word)
            and (wanted.since is None or run.started_at >= wanted.since)
        ),
        key=lambda run: run.started_at,
        reverse=True,
    )


def named(runs: Sequence[RunEntry], text: str) -> RunEntry:
    """The one run that `text` names: `latest`, its name, or a beginning of it.

    The name counts with and without its experiment.

    Raises:
        DefinitionError: None or several are named so.
    """
    if text == LATEST and runs:
        return max(runs, key=lambda run: run.started_at)
    exact = [run for run in runs if text in (run.name, _time_and_hash(run))]
    found = exact or [
        run for run in runs if run.name.startswith(text) or _time_and_hash(run).startswith(text)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise DefinitionError(f"RUN {text}", "there is no such run; see `vllm-arms list`")
    some = ", ".join(run.name for run in found[:_TOLD])
    raise DefinitionError(f"RUN {text}", f"{len(found)} runs begin so: {some}")


_TOLD = 4
"""Candidates in an error message: enough to see how to go on typing."""


def _time_and_hash(run: RunEntry) -> str:
    return run.name.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All runs of one experiment on one profile, oldest first."""

    experiment: str
    profile: str
    runs: tuple[RunEntry, ...]

    @property
    def changed(self) -> frozenset[str]:
        """Names of the runs whose arms' verdicts are others than in the judged run before."""
        judged = [run for run in self.runs if run.arms]
        return frozenset(
            later.name for earlier, later in pairwise(judged) if _differs(earlier, later)
        )


def _differs(earlier: RunEntry, later: RunEntry) -> bool:
    """Over the arms that both have: a run of fewer arms is not another verdict."""
    before = {arm.arm: arm.verdict for arm in earlier.arms}
    return any(before.get(arm.arm, arm.verdict) != arm.verdict for arm in later.arms)


def histories(runs: Iterable[RunEntry]) -> list[History]:
    """By experiment and profile, in their alphabetical order."""
    groups: dict[tuple[str, str], list[RunEntry]] = {}
    for run in sorted(runs, key=lambda run: run.started_at):
        groups.setdefault((run.experiment, run.profile), []).append(run)
    return [
        History(experiment=experiment, profile=profile, runs=tuple(members))
        for (experiment, profile), members in sorted(groups.items())
    ]
