"""Truth against verdict, counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import get_args

from orchestrator.model.verdict import Word
from orchestrator.runner import judge_run
from tests.truth.built import Answers, Case, judged
from tests.truth.tensors import Bits, bits_of
from tests.truth.witnessed import WitnessedRun

ANSWERS: tuple[Answers, ...] = get_args(Answers)
BITS: tuple[Bits, ...] = get_args(Bits)
WORDS: tuple[Word, ...] = ("stable", "diverged", "inconclusive")
"""Of cells that are asked one at a time; volleys have words of their own."""


@dataclass
class Confusion:
    """How many measured cells of each truth were judged in each way."""

    truths: Sequence[str]
    """The columns."""

    counts: Counter[tuple[str, Word]] = field(default_factory=Counter)

    def add(self, truth: str, word: Word) -> None:
        """One more cell."""
        self.counts[truth, word] += 1

    @property
    def false_stable(self) -> int:
        """Judged stable, although answers differ or are no evidence."""
        return self.counts["differ", "stable"] + sum(
            self.counts[truth, "stable"] for truth in ("differ, visible", "no evidence")
        )

    @property
    def false_diverged(self) -> int:
        """Judged diverged, although all answers are equal or are no evidence."""
        equal = ("equal", "differ, not visible", "no evidence")
        return sum(self.counts[truth, "diverged"] for truth in equal)

    def table(self, heading: str) -> str:
        """As Markdown; a column for each truth."""
        lines = [
            f"| {heading} | {' | '.join(self.truths)} |",
            f"|---|{'--:|' * len(self.truths)}",
            *(
                f"| judged {word} | {' | '.join(str(self.counts[t, word]) for t in self.truths)} |"
                for word in WORDS
            ),
        ]
        return "\n".join(lines)


def of_built(cases: Iterable[Case]) -> Confusion:
    """Every measured cell of the built runs."""
    confusion = Confusion(ANSWERS)
    for case in cases:
        _, cells = judged(case)
        for place, answers in case.cells.items():
            confusion.add(answers, cells[place].verdict)
    return confusion


def of_witnessed(run: WitnessedRun) -> Confusion:
    """Every measured cell of a run on the miniature."""
    confusion = Confusion(BITS)
    verdicts = {
        (arm.arm, cell.cell): cell.verdict
        for arm in judge_run(run.plan, run.store).arms
        for cell in arm.cells
    }
    for arm in run.plan.arms:
        for cell in arm.cells:
            if cell.place == "measured":
                confusion.add(bits_of(run, arm, cell), verdicts[arm.name, cell.id])
    return confusion
