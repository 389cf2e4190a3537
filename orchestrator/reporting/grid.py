"""Arms × repeats: which variant each repeat of B was, and how much of it came from the cache."""

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestrator.model.experiment import CellKind
from orchestrator.model.verdict import ArmVerdict, CellVerdict, ProbeResult

_SENT: dict[CellKind, str] = {
    "reference": "B alone",
    "contaminated": "A, then B",
    "reversed": "B, A, then B",
    "primed": "the document, A, then B",
    "suite": "every item, run after run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """One answer to B."""

    letter: str
    """Of its variant; `–` where the cell was not measured in full."""

    variant: int | None
    """Number of the letter, from 0; `None`: it stands for nothing, and gets no colour."""

    cached: str
    """Tokens from the cache; `?` where the answer does not say; empty for a reference."""

    unpredicted: bool
    """Another number of cached tokens had been predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """One measured cell, between its references."""

    cell: CellVerdict
    before: tuple[Square, ...]
    repeats: tuple[Square, ...]
    after: tuple[Square, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmGrid:
    """One start."""

    arm: ArmVerdict
    sent: str
    """What a measured cell consists of, in words."""

    arguments: str
    """Of its server's command, what the other arm's lacks; a changed value with its flag."""

    rows: tuple[GridRow, ...]

    @property
    def example(self) -> GridRow | None:
        """The first cell that came out as the arm did; `None` when none was measured."""
        alike = [row for row in self.rows if row.cell.verdict == self.arm.verdict and row.repeats]
        return alike[0] if alike else None


def grid(arm: ArmVerdict, argv: Sequence[str], usual: Sequence[str]) -> ArmGrid:
    """One arm's part of the grid.

    Args:
        arm: As judged.
        argv: Its server's command.
        usual: The command of the arm that it is set beside.
    """
    changes = [
        "prefix caching off" if arm.prefix_caching == "off" else "",
        "no speculation" if arm.speculation == "off" else "",
        f"patch {arm.patch}" if arm.patch else "",
    ]
    return ArmGrid(
        arm=arm,
        sent="; ".join([_SENT[arm.cell], *filter(None, changes)]),
        arguments=" ".join(_added(argv, usual)),
        rows=tuple(sorted(map(_row, arm.cells), key=_place)),
    )


def _added(argv: Sequence[str], usual: Sequence[str]) -> Iterator[str]:
    for before, word in pairwise(["", *argv]):
        if word not in usual:
            if before.startswith("--") and before in usual:
                yield before
            yield word


def _place(row: GridRow) -> tuple[str, int]:
    """By document and length: what belongs together stands together, not what was sent so."""
    return row.cell.document, row.cell.a_tokens or 0


def _row(cell: CellVerdict) -> GridRow:
    seen = cell.pattern
    repeats = [probe for probe in cell.probes if probe.role == "b"]
    letters = "–" * len(repeats) if seen is None else seen.variants
    return GridRow(
        cell=cell,
        before=_references(None if seen is None else seen.reference_before),
        repeats=tuple(
            _square(letter, probe, void=cell.verdict == "inconclusive")
            for letter, probe in zip(letters, repeats, strict=True)
        ),
        after=_references(None if seen is None else seen.reference_after),
    )


def _references(letters: str | None) -> tuple[Square, ...]:
    return tuple(
        Square(letter=letter, variant=_variant(letter), cached="", unpredicted=False)
        for letter in letters or ""
    )


def _square(letter: str, probe: ProbeResult, *, void: bool) -> Square:
    cached, predicted = probe.cached_tokens, probe.predicted_cached_tokens
    return Square(
        letter=letter,
        variant=None if void else _variant(letter),
        cached="?" if cached is None else str(cached),
        unpredicted=None not in (cached, predicted) and cached != predicted,
    )


def _variant(letter: str) -> int | None:
    number = string.ascii_letters.find(letter.swapcase())
    return None if number < 0 else number
