"""Requests that were sent at once: one row a cell."""

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.model.verdict import CellVerdict, RunVerdict, Volley


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyRow:
    """One cell whose requests were sent at once, as text."""

    arm: str
    document: str
    at_once: str
    variants: str
    """A letter an answer, the volleys apart from each other."""

    reference: str
    steps: str
    """Of the engine, volley by volley, and what as many lone requests take."""

    latency: str
    """The fastest and the slowest request, in milliseconds."""

    verdict: str
    reason: str


def company_rows(verdict: RunVerdict) -> list[CompanyRow]:
    """Every measured cell with `concurrency`; none in a run that sent one request at a time."""
    return [_row(cell) for arm in verdict.arms for cell in arm.cells if cell.concurrency > 1]


def _row(cell: CellVerdict) -> CompanyRow:
    seen, size = cell.pattern, cell.concurrency
    times_s = [probe.latency_s for probe in cell.probes]
    return CompanyRow(
        arm=cell.arm,
        document=cell.document,
        at_once=str(size),
        variants="–" if seen is None else " ".join(_in_volleys(seen.variants, size)),
        reference="–"
        if seen is None
        else f"{seen.reference_before or 'none'}, {seen.reference_after or 'none'}",
        steps=_steps(cell.volleys),
        latency=f"{1000 * min(times_s):.0f} to {1000 * max(times_s):.0f} ms" if times_s else "–",
        verdict=cell.verdict,
        reason=cell.reason,
    )


def _in_volleys(variants: str, size: int) -> Iterable[str]:
    return (variants[first : first + size] for first in range(0, len(variants), size))


def _steps(volleys: tuple[Volley, ...]) -> str:
    if not volleys:
        return "–"
    counted = ", ".join("unknown" if v.steps is None else str(v.steps) for v in volleys)
    lone = volleys[0].lone_steps
    return f"{counted} (alone: {'unknown' if lone is None else lone})"
