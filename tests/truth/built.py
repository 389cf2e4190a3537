"""Runs that are built answer by answer, and what is true of them because it was put in.

A `Case` says what is true of every measured cell: that B's answers are all **equal** to each other
and to the reference, that some **differ**, or that there is **no evidence**. It may say more: what
the difference is, whose it is, why there is no evidence, and what follows for the run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from orchestrator.model.verdict import CellVerdict, RunVerdict, Word
from tests.scenarios import Scenario

Answers = Literal["equal", "differ", "no evidence"]

JUDGED: Mapping[Answers, Word] = {
    "equal": "stable",
    "differ": "diverged",
    "no evidence": "inconclusive",
}
"""What a judge that is right says of each."""

Place = tuple[str, str]
"""Arm and document."""


@dataclass(frozen=True, kw_only=True)
class Detail:
    """What else is true of one cell; `None` where the case says nothing about it."""

    attribution: str | None = None
    repeats: str | None = None
    timing: str | None = None
    moved: int | None = None
    """Candidates of the first differing token whose distance to the most probable one moved."""

    common_shift: bool | None = None
    because: str | None = None
    """A part of the reason."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run and the truth about it."""

    family: str
    name: str
    run: Scenario
    cells: Mapping[Place, Answers]
    """Every measured cell."""

    details: Mapping[Place, Detail] = field(default_factory=dict)
    exit_code: int | None = None
    removed: bool | None = None
    remark: str | None = None
    """A part of some finding or of what an arm's reason says."""


def judged(case: Case) -> tuple[RunVerdict, dict[Place, CellVerdict]]:
    """The verdict, and its measured cells by place."""
    verdict = case.run.judge()
    cells = {(arm.arm, cell.document): cell for arm in verdict.arms for cell in arm.cells}
    assert cells.keys() == case.cells.keys(), case.name
    return verdict, cells


def untruths(case: Case) -> Iterator[str]:
    """Every way in which the judge departs from the truth."""
    verdict, cells = judged(case)
    for place, answers in case.cells.items():
        said = cells[place].verdict
        if said != JUDGED[answers]:
            yield f"{place}: {answers}, judged {said}: {cells[place].reason}"
    for place, detail in case.details.items():
        seen = _detail(cells[place], detail)
        yield from (
            f"{place}: {name} should be {value!r}, is {getattr(seen, name)!r}"
            for name, value in vars(detail).items()
            if value is not None and getattr(seen, name) != value
        )
    if case.exit_code not in (None, verdict.exit_code):
        yield f"exit code should be {case.exit_code}, is {verdict.exit_code}"
    removed = verdict.removal is not None and verdict.removal.removed
    if case.removed not in (None, removed):
        yield f"removed should be {case.removed}: {verdict.removal}"
    if case.remark is not None and case.remark not in _told(verdict):
        yield f"nothing says {case.remark!r}"


def _detail(cell: CellVerdict, asked: Detail) -> Detail:
    difference = None if cell.pattern is None else cell.pattern.difference
    movement = None
    if difference is not None:
        movement = next(m for m in difference.movements if m.token == difference.first_token)
    return Detail(
        attribution=cell.attribution,
        repeats=None if cell.pattern is None else cell.pattern.repeats,
        timing=None if difference is None else difference.timing,
        moved=None if movement is None else movement.moved,
        common_shift=None if movement is None else movement.common_shift is not None,
        because=asked.because if (asked.because or "") in cell.reason else cell.reason,
    )


def _told(verdict: RunVerdict) -> str:
    findings = [finding.summary for arm in verdict.arms for finding in arm.findings]
    removal = "" if verdict.removal is None else verdict.removal.sentence
    return "\n".join([*(arm.reason for arm in verdict.arms), *findings, removal])
