"""The table that the article's author would recognise: one row a measured cell."""

from dataclasses import dataclass

from orchestrator.model.verdict import (
    CellVerdict,
    Difference,
    Pattern,
    ProbeResult,
    RunVerdict,
    Word,
)

_DIGEST_DIGITS = 8
"""Enough to tell the few hundred digests of a run apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured cell, as text."""

    arm: str
    document: str
    a: str
    first: str
    """Digest of B's first run."""

    later: str
    """Digest of the later runs; with how many variants where they differ."""

    variants: str
    cached: str
    predicted: str
    reference: str
    eligible: str
    word: Word
    verdict: str
    """The word, with the attribution where there is one."""

    reason: str


COLUMNS = {
    "arm": "arm",
    "document": "document",
    "a": "A",
    "first": "B first",
    "later": "B later",
    "cached": "cached",
    "verdict": "verdict",
}
"""Field → heading, in order: what a terminal has room for."""


def rows(verdict: RunVerdict) -> list[Row]:
    """Every measured cell, in the order of the arms and of their cells."""
    return [_row(cell) for arm in verdict.arms for cell in arm.cells]


def differences(verdict: RunVerdict) -> list[tuple[str, str, Difference]]:
    """Arm, cell, and two of its answers that should have been equal, where there are any."""
    return [
        (arm.arm, cell.cell, cell.pattern.difference)
        for arm in verdict.arms
        for cell in arm.cells
        if cell.pattern is not None and cell.pattern.difference is not None
    ]


def _row(cell: CellVerdict) -> Row:
    repeats = [probe for probe in cell.probes if probe.role == "b"]
    seen = cell.pattern
    return Row(
        arm=cell.arm,
        document=cell.document,
        a="–" if cell.a_tokens is None else str(cell.a_tokens),
        first=_digest(repeats[0]) if repeats else "–",
        later=_later(repeats[1:]),
        variants="–" if seen is None else seen.variants,
        cached=_cached([probe.cached_tokens for probe in repeats]),
        predicted=_cached([probe.predicted_cached_tokens for probe in repeats]),
        reference="–" if seen is None else _reference(seen),
        eligible=cell.eligible or "–",
        word=cell.verdict,
        verdict=_verdict(cell),
        reason=cell.reason,
    )


def _reference(seen: Pattern) -> str:
    """`differs (AAA, AAA)`: the letters of the reference before and after."""
    letters = [seen.reference_before, seen.reference_after]
    told = ", ".join("none" if entry is None else entry for entry in letters)
    return f"{seen.against_reference} ({told})"


def _verdict(cell: CellVerdict) -> str:
    return cell.verdict if cell.attribution is None else f"{cell.verdict}: {cell.attribution}"


def _digest(probe: ProbeResult) -> str:
    return probe.digests.server_order[:_DIGEST_DIGITS]


def _later(probes: list[ProbeResult]) -> str:
    variants = list(dict.fromkeys(_digest(probe) for probe in probes))
    if not variants:
        return "–"
    return variants[0] if len(variants) == 1 else f"{variants[0]} and {len(variants) - 1} more"


def _cached(counts: list[int | None]) -> str:
    """`0, then 32` for one value and then another; all of them where there are more steps."""
    told = ["unknown" if count is None else str(count) for count in counts]
    if not told:
        return "–"
    if len(set(told)) == 1:
        return told[0]
    if len(set(told[1:])) == 1:
        return f"{told[0]}, then {told[1]}"
    return ", ".join(told)
