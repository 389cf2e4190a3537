"""A judged run and what is on disk of it → the exhibits of a whole report. Pure.

The verdict names which answers differ, and in which generated token first; here those answers are
decoded once more, and their candidates set side by side.
"""

from collections.abc import Iterator
from typing import Protocol

from orchestrator.comparing import rounding_of_shifts
from orchestrator.decoding import decode
from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import Exchange
from orchestrator.model.exhibits import ArmExhibit, Compared, Contrast, Exhibits, Standing
from orchestrator.model.host import MemorySample, RunEnd, RunStart
from orchestrator.model.observation import FLOOR, Observation, Position
from orchestrator.model.outcome import Outcome
from orchestrator.model.patch import Overlay
from orchestrator.model.plan import LaunchPlan, Plan
from orchestrator.model.verdict import ArmVerdict, Difference, RunVerdict


class KeptRun(Protocol):
    """A run that is on disk, finished or not."""

    def start(self) -> RunStart:
        """When, by which command, and where it began."""

    def end(self) -> RunEnd | None:
        """How it ended; `None` when it never did."""

    def outcome(self, arm: str, /) -> Outcome | None:
        """How an arm ended; `None` when it never did."""

    def launch(self, arm: str, /) -> LaunchPlan | None:
        """How its server was launched; `None` when the arm was not reached."""

    def facts(self, arm: str, /) -> EngineFacts | None:
        """`None` when its server never became ready."""

    def overlay(self, arm: str, /) -> Overlay | None:
        """The patched copy that an arm ran on; `None` when it ran on none."""

    def log_file(self, arm: str, /) -> str | None:
        """Name of the server's saved log in the arm's folder; `None` when there is none."""

    def memory(self, arm: str, /) -> tuple[MemorySample, ...]:
        """Memory samples, in the order in which they were taken."""

    def exchanges(self, arm: str, /) -> Iterator[tuple[Exchange, str]]:
        """In the order in which they were sent."""


def exhibits(plan: Plan, verdict: RunVerdict, kept: KeptRun) -> Exhibits:
    """Everything that a whole report shows beside the verdict.

    Args:
        plan: The run's plan.
        verdict: Of this very run: its differences name the answers that are decoded here.
        kept: Its files.

    Raises:
        RunFolderError: A file of the run is missing or cannot be read.
    """
    return Exhibits(
        start=kept.start(),
        end=kept.end(),
        arms=tuple(_arm(plan, arm, kept) for arm in verdict.arms),
    )


def _arm(plan: Plan, verdict: ArmVerdict, kept: KeptRun) -> ArmExhibit:
    name = verdict.arm
    return ArmExhibit(
        arm=name,
        outcome=kept.outcome(name),
        launch=kept.launch(name),
        facts=kept.facts(name),
        overlay=kept.overlay(name),
        log_file=kept.log_file(name),
        memory=kept.memory(name),
        contrasts=_contrasts(plan, verdict, kept),
    )


def _contrasts(plan: Plan, verdict: ArmVerdict, kept: KeptRun) -> tuple[Contrast, ...]:
    differences = [
        (cell.cell, cell.pattern.difference)
        for cell in verdict.cells
        if cell.pattern is not None and cell.pattern.difference is not None
    ]
    wanted = {probe for _, seen in differences for probe in (seen.left, seen.right)}
    answers = {
        exchange.times.probe.id: decode(exchange.response, top_logprobs=plan.top_logprobs)
        for exchange, _ in (kept.exchanges(verdict.arm) if wanted else ())
        if exchange.times.probe.id in wanted
    }
    return tuple(
        _contrast(cell, seen, answers[seen.left], answers[seen.right])
        for cell, seen in differences
        if seen.first_token < len(seen.movements)
    )


def _contrast(cell: str, seen: Difference, left: Observation, right: Observation) -> Contrast:
    here, there = left.positions[seen.first_token], right.positions[seen.first_token]
    return Contrast(
        cell=cell,
        left=seen.left,
        right=seen.right,
        token=seen.first_token,
        left_chosen=here.chosen,
        right_chosen=there.chosen,
        rows=compared(here, there),
    )


def compared(left: Position, right: Position) -> tuple[Compared, ...]:
    """Every candidate of two top-k lists: in the left one's order, then the right one's others.

    One that a schema forbids stands at the floor: how far it moved is not known.
    """
    here, there = _standings(left), _standings(right)
    return tuple(
        _compared(token, here.get(token), there.get(token), left, right)
        for token in dict.fromkeys([*here, *there])
    )


def _standings(position: Position) -> dict[int, Standing]:
    return {
        candidate.token_id: Standing(rank=rank, logprob=candidate.logprob)
        for rank, candidate in enumerate(position.candidates, start=1)
    }


def _compared(
    token: int, here: Standing | None, there: Standing | None, left: Position, right: Position
) -> Compared:
    if here is None or there is None or FLOOR in (here.logprob, there.logprob):
        return Compared(
            token_id=token, left=here, right=there, delta=None, relative_delta=None, moved=None
        )
    before, after = here.logprob - left.argmax.logprob, there.logprob - right.argmax.logprob
    return Compared(
        token_id=token,
        left=here,
        right=there,
        delta=there.logprob - here.logprob,
        relative_delta=after - before,
        moved=abs(after - before) > rounding_of_shifts(left, right),
    )
