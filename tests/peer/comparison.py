"""What a whole comparison found, as it is written to JSON."""

from collections.abc import Sequence
from statistics import median

from orchestrator.model.record import Record
from tests.peer.jobs import OURS
from tests.peer.playing import Seen
from tests.peer.timeline import Stretches

UNDER_WAY = 1
"""Answers that a server may have given and a killed tool not read."""


class Timed(Record):
    """One job without a fault."""

    seen: Seen
    before_s: float
    """From the call of the tool to the start of its first server."""

    servers: tuple[Stretches, ...]


class Comparison(Record):
    """Both tools on the same work."""

    day: str
    machine: str
    load: tuple[float, float]
    """Processes that were ready to run, before and after: the mean of a minute."""

    versions: dict[str, str]
    same_requests: bool
    """Whether the servers of all jobs saw the same measured requests, in the same order."""

    timed: tuple[Timed, ...]
    faults: tuple[Seen, ...]

    def timed_of(self, tool: str) -> list[Timed]:
        """Its jobs, in the order of the rounds."""
        return [timed for timed in self.timed if timed.seen.tool == tool]

    def fault_of(self, tool: str, fault: str) -> Seen:
        """What one tool made of one fault."""
        return next(seen for seen in self.faults if (seen.tool, seen.fault) == (tool, fault))

    def shortcomings(self) -> list[str]:
        """What we promise under each fault and did not keep, in words."""
        return [short for seen in self.faults if seen.tool == OURS for short in _short(seen)]


def spread(values: Sequence[float | None]) -> str:
    """The median, with the least and the most where they differ by what is shown.

    Raises:
        ValueError: A job did not come to it; jobs without a fault always do.
    """
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        raise ValueError(f"missing among {values}")
    texts = [f"{value:.1f}" for value in (median(known), min(known), max(known))]
    return texts[0] if texts[1] == texts[2] else f"{texts[0]} ({texts[1]} to {texts[2]})"


def _short(seen: Seen) -> list[str]:
    short = []
    if seen.exit_code in {0, None}:
        short.append(f"{seen.fault}: exit code {seen.exit_code}")
    if seen.left_after_reap:
        short.append(f"{seen.fault}: {', '.join(seen.left_after_reap)} left")
    if seen.kept.answers < seen.answered - UNDER_WAY:
        short.append(f"{seen.fault}: {seen.answered} answered, {seen.kept.answers} kept")
    return short
