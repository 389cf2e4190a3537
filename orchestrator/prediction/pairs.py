"""A and B by their lengths alone, as they are published: A, then B several times.

Often the length of what they share is not published with them. Then every length that it can have
is tried, and only what holds for all of them is said.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.errors import DefinitionError
from orchestrator.model.prediction import CellPrediction, Eligibility, SchedulerSettings
from orchestrator.prediction.origins import compare_with_reference
from orchestrator.prediction.releases import lookahead_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Lengths in tokens."""

    a: int
    b: int

    shared: int | None
    """`None`: not known, but fewer than the shorter one has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRange:
    """Shared lengths, in tokens and both ends included, that lead to one prediction."""

    first: int
    last: int
    cell: CellPrediction


def predict_pair(
    pair: Pair, settings: SchedulerSettings, *, repeats: int, max_tokens: int
) -> tuple[SharedRange, ...]:
    """Predict A, then B `repeats` times, for each length that A and B may share.

    Only whole shared blocks matter, so neighbouring lengths are one range.

    Raises:
        DefinitionError: The lengths contradict each other, or as `predict_cell`.
    """
    longest = min(pair.a, pair.b)
    if pair.shared is not None and not 0 <= pair.shared <= longest:
        raise DefinitionError(
            f"--pair {pair.a}:{pair.b}:{pair.shared}", "A and B cannot share more than they have"
        )
    return tuple(
        SharedRange(
            first=first,
            last=last,
            cell=_predict(pair, first, settings, repeats=repeats, max_tokens=max_tokens),
        )
        for first, last in _ranges(pair.shared, longest, settings)
    )


def pair_eligibility(ranges: Sequence[SharedRange]) -> Eligibility:
    """What holds whatever is shared; "undetermined" where that decides."""
    said = {shared.cell.eligible for shared in ranges}
    return said.pop() if len(said) == 1 else "undetermined"


def _ranges(shared: int | None, longest: int, settings: SchedulerSettings) -> list[tuple[int, int]]:
    if shared is not None:
        return [(shared, shared)]
    block, ahead = settings.block_tokens, lookahead_tokens(settings)
    firsts = [0, *range(block + ahead, longest, block)]
    return list(zip(firsts, [*(first - 1 for first in firsts[1:]), longest - 1], strict=True))


def _predict(
    pair: Pair, shared: int, settings: SchedulerSettings, *, repeats: int, max_tokens: int
) -> CellPrediction:
    a, b = pair_prompts(pair.a, pair.b, shared)
    return compare_with_reference([a, *[b] * repeats], b, settings, max_tokens=max_tokens)


def pair_prompts(a: int, b: int, shared: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Token ids of two prompts that are equal up to `shared` and nowhere after it."""
    beginning = tuple(range(shared))
    return (
        beginning + tuple(range(a, 2 * a - shared)),
        beginning + tuple(range(2 * a + b, 2 * a + 2 * b - shared)),
    )
