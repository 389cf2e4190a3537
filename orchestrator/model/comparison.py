"""A run set beside a baseline: what is compared, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.model.patch import PatchProvenance
from orchestrator.model.plan import Plan
from orchestrator.model.record import Record
from orchestrator.model.stacks import ColdResult, Ratio
from orchestrator.model.verdict import RunVerdict

ComparisonResult = Literal[
    "unchanged", "changed", "regressed", "inconclusive", "failed", "not comparable"
]
What = Literal["verdict", "cached tokens", "prefill time", "digests"]
Effect = Literal["worse", "other", "cannot say", "remark"]
"""A remark changes no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A judged run with what identifies it and is no part of its verdict."""

    name: str
    plan: Plan
    verdict: RunVerdict
    pins: Mapping[str, str | None]
    """Readings of machine and engine that must match; `None`: it was not recorded."""

    patches: Mapping[str, PatchProvenance]
    """By arm, of those that ran on a patched copy."""

    references: Mapping[tuple[str, str], frozenset[str]]
    """By arm and document: the digests (token-id order) that its reference cells gave."""

    cold: Mapping[str, Sequence[ColdResult]]
    """By arm; nothing where no cold request was planned."""


class FieldDifference(Record):
    """A field that must match and does not; or one that at least one side does not know."""

    field: str
    run: str | None
    baseline: str | None


class CellChange(Record):
    """One thing about one cell that is not as in the baseline."""

    arm: str
    cell: str
    what: What
    run: str
    baseline: str
    effect: Effect


class ColdSpeed(Record):
    """One column's cold requests of one length."""

    column: str
    prompt_tokens: int
    ratio: Ratio
    """Of this run's speed over the baseline's."""


class Comparison(Record):
    """What became of a run against its baseline."""

    format: Literal[1] = 1
    run: str
    baseline: str
    """Names of the two runs."""

    run_engine: str
    baseline_engine: str
    result: ComparisonResult
    exit_code: int
    sentence: str
    differing: tuple[FieldDifference, ...]
    """Fields that forbid the comparison. When there is one, no cell was compared."""

    unknown: tuple[FieldDifference, ...]
    """Fields that at least one of the runs did not record; they forbid nothing."""

    perhaps_fixed: tuple[str, ...]
    """Arms that diverged in the baseline, unpatched or under a sham, and are stable now."""

    cells: int
    """Cells that both runs measured."""

    not_compared: tuple[str, ...]
    """Planned cells, `ARM, CELL`, on which at least one of the runs has no verdict."""

    changes: tuple[CellChange, ...]
    cold: tuple[ColdSpeed, ...]
    """Changes no result; empty when nothing was compared, or no cold request was planned."""

    digests_compared: int
    """Cells whose digests could be set side by side, since their reference cells agree."""
