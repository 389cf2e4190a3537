"""A cell whose requests were sent at once: whether an answer depends on the company.

Its words are its own: neither word says anything about who warmed the cache, and no verdict of a
cell that was sent one at a time says anything about company.
"""

from collections.abc import Iterable, Sequence

from orchestrator.judging.measured import ArmEvidence, CellEvidence
from orchestrator.model.verdict import Pattern, Volley, Word


def volleys_of(cell: CellEvidence, arm: ArmEvidence) -> tuple[Volley, ...]:
    """The volleys of a cell, beside what as many requests took one at a time; none without any."""
    lone = _lone_steps(
        steps
        for other in arm.cells
        if other.plan.document == cell.plan.document and other.plan.place != "measured"
        for steps in other.steps
    )
    size = cell.plan.concurrency
    if size == 1:
        return ()
    return tuple(
        Volley(requests=size, steps=steps, lone_steps=None if lone is None else size * lone)
        for steps in cell.steps
    )


def _lone_steps(counts: Iterable[int | None]) -> int | None:
    """The fewest that a lone request took: with those, sharing is hardest to claim."""
    known = [count for count in counts if count is not None]
    return min(known) if known else None


def read_company(seen: Pattern, volleys: Sequence[Volley]) -> tuple[Word, str]:
    """The word for a cell, and why.

    Differing answers are evidence as they are. Equal ones are so only where the engine did compute
    the requests together.
    """
    if seen.against_reference == "unknown":
        return "inconclusive", "there is no reference to hold the answers to"
    reference = set((seen.reference_before or "") + (seen.reference_after or ""))
    unlike = sum(letter not in reference for letter in seen.variants)
    total = len(seen.variants)
    if unlike:
        several = len(set(seen.variants))
        return "batch-dependent", (
            f"{unlike} of {total} answers in company differ from the lone ones"
            f" ({several} variant{'s' if several > 1 else ''})"
        )
    if any(volley.shared is None for volley in volleys) or not volleys:
        return "inconclusive", "the answers are equal, but the engine's steps could not be read"
    if not any(volley.shared for volley in volleys):
        return "inconclusive", "the engine answered one request after the other: nothing was tested"
    together = sum(bool(volley.shared) for volley in volleys)
    return "batch-equal", (
        f"{total} answers equal the lone ones; {together} of {len(volleys)} volleys shared steps"
    )
