"""A nightly: what is run in it, and what came of each part."""

from datetime import datetime
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from orchestrator.model.comparison import Comparison
from orchestrator.model.plan import Selection
from orchestrator.model.profile import Name
from orchestrator.model.record import Record

Word = Literal[
    "regressed", "infrastructure failure", "inconclusive", "not comparable",
    "changed: perhaps fixed upstream", "changed", "unchanged", "not finished",
]  # fmt: skip

GRAVITY: tuple[Word, ...] = get_args(Word)
"""The words, the gravest first."""


class NightlyEntry(Record):
    """One experiment on one profile, held to one earlier run."""

    experiment: Name
    profile: Name | None = None
    """`None` where the experiment's arms name their own."""

    baseline: str = Field(min_length=1)
    """Folder of a run, absolute or from the project's folder on."""

    selection: Selection = "plain"
    arms: tuple[Name, ...] = ()
    """Only these; all when empty."""

    starts: int = Field(default=1, ge=1, le=100)
    """How many runs, each arm of each on a fresh start."""

    @property
    def title(self) -> str:
        """As it is told in a line."""
        return self.experiment if self.profile is None else f"{self.experiment} on {self.profile}"


class NightlyConfig(Record):
    """`nightly.toml`."""

    entries: tuple[NightlyEntry, ...] = Field(min_length=1)
    """Run in this order, one at a time."""

    after_failure: Literal["go on", "stop"] = "go on"
    """When an entry could not be measured: the machine that failed it may fail the others."""

    keep_runs: int | None = Field(default=None, ge=1)
    """How many of a nightly's runs of an experiment on a profile stay, the newest. Absent: all.
    A baseline always stays, and so does every run that was made by hand."""

    @model_validator(mode="after")
    def _no_entry_twice(self) -> Self:
        titles = [(entry.title, entry.selection, entry.arms) for entry in self.entries]
        for number, title in enumerate(titles):
            if title in titles[:number]:
                raise ValueError(f"entries.{number}: stands twice; `starts` says how often")
        return self


class StartResult(Record):
    """One run of an entry."""

    run: str | None
    """`EXPERIMENT/TIME-HASH`; `None`: it did not get as far as a folder."""

    report: str | None
    """Its report's file in that folder; `None`: there is none."""

    word: Word
    sentence: str
    comparison: Comparison | None
    """With the baseline; `None` when there is no verdict to compare."""


class EntryResult(Record):
    """All runs of an entry."""

    entry: NightlyEntry
    starts: tuple[StartResult, ...]

    @property
    def word(self) -> Word:
        """The gravest of its runs."""
        return min((start.word for start in self.starts), key=GRAVITY.index)


class Nightly(Record):
    """A whole nightly (`nightly.json`)."""

    format: Literal[1] = 1
    name: str
    """The UTC time of its start; also its folder's name."""

    started_at: datetime
    ended_at: datetime
    config: NightlyConfig
    results: tuple[EntryResult, ...]
    """One an entry, in the order of the config."""

    removed: tuple[str, ...]
    """Old runs that it removed, by name."""

    exit_code: int
