"""What is told of a run where many are listed."""

from datetime import datetime
from typing import Literal

from orchestrator.model.plan import Selection
from orchestrator.model.record import Record
from orchestrator.model.verdict import Result, Word

State = Literal["finished", "interrupted", "failed", "killed", "running", "unknown"]
"""`killed`: it never said how it ended, and its owner is dead. `unknown`: it never said, and
whether its owner lives cannot be told from here."""


class ArmEntry(Record):
    """One arm's verdict."""

    arm: str
    verdict: Word


class RunEntry(Record):
    """One run, in a few words."""

    kind: Literal["run"] = "run"
    name: str
    """Its folder below `runs/`: `EXPERIMENT/TIME-HASH`."""

    experiment: str
    profile: str
    engine: str
    selection: Selection
    started_at: datetime
    state: State
    result: Result | None
    """`None`: it was never judged."""

    exit_code: int | None
    """`None`: it never said how it ended."""

    reason: str | None
    """The verdict in one sentence, or why the run ended without one."""

    arms: tuple[ArmEntry, ...]
    """Empty when the run was never judged."""

    resumed: str | None
    """The run whose finished arms it kept."""

    nightly: str | None
    """The nightly that made it; `None`: somebody ran it by hand."""

    report: str | None
    """The report's file in the run's folder."""

    @property
    def word(self) -> Result | State:
        """What it came to: its result, or why it has none."""
        return self.result if self.state == "finished" and self.result else self.state


class UnreadableRun(Record):
    """A folder in `runs/` that no run can be read from."""

    kind: Literal["unreadable"] = "unreadable"
    name: str
    reason: str


class Listing(Record):
    """Everything in a `runs/` folder, by name."""

    runs: tuple[RunEntry, ...]
    unreadable: tuple[UnreadableRun, ...]
