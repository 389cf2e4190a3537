"""The outcome by the length of A, when a run has several lengths."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from orchestrator.model.plan import ArmPlan, Plan
from orchestrator.model.verdict import ArmVerdict, CellVerdict, RunVerdict
from orchestrator.reporting.prediction import MODULI

Shape = Literal["stable", "every repeat", "first repeat", "later repeats", "inconclusive"]
"""Which repeats of a cell differ from its reference."""

SIGN: dict[Shape, str] = {
    "stable": "=", "every repeat": "#", "first repeat": "1", "later repeats": "+",
    "inconclusive": "?",
}  # fmt: skip

SIGNS = (
    "`=` stable, `#` every repeat differs from the reference, `1` only the first one, "
    "`+` only later ones, `?` inconclusive"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRow:
    """One length of A."""

    a_tokens: int
    blocks: str
    """The length as whole blocks and a rest."""

    chunks: str
    """Of A, as predicted."""

    last_chunk: str
    """Length of A's last chunk, with its remainders by `MODULI`."""

    last_chunk_tokens: int | None
    """`None`: nothing was predicted."""

    eligible: str
    shapes: tuple[Shape | None, ...]
    """One a document, in the order of `Scan.documents`; `None`: no such cell."""

    @property
    def signs(self) -> tuple[str, ...]:
        """The shapes, a character each."""
        return tuple("–" if shape is None else SIGN[shape] for shape in self.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Two neighbouring lengths of A with another outcome."""

    below: int
    above: int
    documents: int
    """In how many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One arm."""

    arm: str
    documents: tuple[str, ...]
    rows: tuple[ScanRow, ...]

    @property
    def flips(self) -> tuple[Flip, ...]:
        """Wherever the outcome changes; a cell that is missing changes nothing."""
        flips = [
            Flip(
                below=below.a_tokens,
                above=above.a_tokens,
                documents=sum(
                    None not in pair and pair[0] != pair[1]
                    for pair in zip(below.shapes, above.shapes, strict=True)
                ),
            )
            for below, above in pairwise(self.rows)
        ]
        return tuple(flip for flip in flips if flip.documents)


def scans(plan: Plan, verdict: RunVerdict) -> list[Scan]:
    """Every arm whose cells have more than one length of A."""
    if len(plan.a_tokens) < 2:  # noqa: PLR2004 - one length has no other to be set beside
        return []
    by_name = {arm.name: arm for arm in plan.arms}
    return [
        _scan(plan, by_name[arm.arm], arm)
        for arm in verdict.arms
        if any(cell.a_tokens is not None for cell in arm.cells)
    ]


def _scan(plan: Plan, planned: ArmPlan, arm: ArmVerdict) -> Scan:
    documents = tuple(sorted({cell.document for cell in arm.cells}))
    cells = {(cell.document, cell.a_tokens): cell for cell in arm.cells}
    rows = [
        _row(plan, planned, length, [cells.get((name, length)) for name in documents])
        for length in sorted(plan.a_tokens)
    ]
    return Scan(arm=arm.arm, documents=documents, rows=tuple(rows))


def _row(plan: Plan, planned: ArmPlan, length: int, cells: list[CellVerdict | None]) -> ScanRow:
    whole, rest = divmod(length, plan.block_size_tokens)
    prediction = next((cell.prediction for cell in planned.cells if cell.a_tokens == length), None)
    position = {"primed": 1, "reversed": 1}.get(planned.cell, 0)
    chunks = [] if prediction is None else prediction.requests[position].chunks
    last = chunks[-1].end - chunks[-1].start if chunks else None
    return ScanRow(
        a_tokens=length,
        blocks=f"{whole} blocks + {rest}",
        chunks=" ".join(f"{c.start}-{c.end}{'*' if c.saves_state else ''}" for c in chunks) or "–",
        last_chunk="–" if last is None else _remainders(last),
        last_chunk_tokens=last,
        eligible="–" if prediction is None else prediction.eligible,
        shapes=tuple(None if cell is None else _shape(cell) for cell in cells),
    )


def _remainders(tokens: int) -> str:
    rests = "/".join(str(tokens % modulus) for modulus in MODULI)
    return f"{tokens} (mod {'/'.join(map(str, MODULI))}: {rests})"


def _shape(cell: CellVerdict) -> Shape:
    if cell.verdict != "diverged" or cell.pattern is None:
        return "stable" if cell.verdict == "stable" else "inconclusive"
    reference = set((cell.pattern.reference_before or "") + (cell.pattern.reference_after or ""))
    unlike = [letter not in reference for letter in cell.pattern.variants]
    if all(unlike):
        return "every repeat"
    return "first repeat" if unlike[0] and not any(unlike[1:]) else "later repeats"
