"""What an arm costs against the control: the same requests, paired, by the server's own clocks.

A price is a ratio of times: above 1 it takes longer than the control. Stacks are told by a ratio of
speeds (`model/stacks.py`); a report has the one or the other, and says which.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from orchestrator.model.stacks import Interval
from orchestrator.model.verdict import ArmVerdict, ProbeResult, RunVerdict
from orchestrator.statistics import median_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """An arm's times, medians over its repeats of B; ratios are medians of paired repeats."""

    arm: str
    diverged: int
    stable: int
    """Of the rest nothing was found out, or no such word is said of it."""

    cells: int
    eligible: int
    """Cells that the prediction calls eligible: stable there means unseen, not excluded."""

    cached_tokens: tuple[int | None, ...]
    """Of B's last repeat, one for each distinct value: whether the hits stay."""

    first_prefill_s: float | None
    """B's first repeat in a cell."""

    later_prefill_s: float | None
    first_ratio: float | None
    """Against the control's; `None` for the control itself, and where nothing pairs."""

    later_ratio: float | None
    later_interval: Interval | None
    """Of that median, over repeats; of what another start would bring it says nothing."""

    first_token_ratio: float | None
    """Time to first token, all repeats."""

    pairs: int
    """Repeats that the last ratio is a median of."""


def prices(verdict: RunVerdict, control: str) -> tuple[Price, ...]:
    """The price of every arm.

    Args:
        verdict: A judged run.
        control: The arm that the others are set against.

    Returns:
        One entry an arm, the control's first. Two starts differ by chance too: a ratio says
        nothing about a difference smaller than that. Empty where the control did not run.
    """
    arms = sorted(verdict.arms, key=lambda arm: arm.arm != control)
    if not arms or arms[0].arm != control:
        return ()
    return tuple(_price(arm, arms[0]) for arm in arms)


def advice(priced: Sequence[Price]) -> str:
    """One sentence for somebody who runs the control's configuration today.

    Names every arm in which nothing was seen to diverge, with its price: first those in which
    nothing was eligible either, since there the effect has nothing to come from; then those that
    keep their cache hits; then the cheapest. An arm without an answer for each of its cells is not
    among them.
    """
    control, others = priced[0], priced[1:]
    if not control.diverged:
        return f"Nothing to work around was seen: no cell of {control.arm} diverged."
    found = f"{control.arm} diverged in {control.diverged} of {control.cells} cells"
    clean = [price for price in others if price.stable == price.cells == control.cells]
    open_ones = [p.arm for p in others if not p.diverged and p not in clean]
    unsaid = f" Nothing can be said of: {', '.join(open_ones)}." if open_ones else ""
    if not clean:
        rest = "no other arm is known to be free of it" if open_ones else "so did every other arm"
        return f"{found}, and {rest}.{unsaid}"
    clean.sort(key=lambda price: (price.eligible, not _hits(price), _cost(price)))
    return f"{found}. Without divergence: {'; '.join(map(_offer, clean))}.{unsaid}"


def _cost(price: Price) -> float:
    """What was not measured is not cheap."""
    return math.inf if price.later_ratio is None else price.later_ratio


def _hits(price: Price) -> bool:
    return any(count for count in price.cached_tokens)


def _offer(price: Price) -> str:
    cost = (
        "price unmeasured"
        if price.later_ratio is None
        else f"later repeats' prefill takes {price.later_ratio:.2f} × the time"
    )
    hits = "cache hits kept" if _hits(price) else "no cache hits"
    unseen = f", though {price.eligible} cells stayed eligible" if price.eligible else ""
    return f"{price.arm} ({hits}, {cost}{unseen})"


def _price(arm: ArmVerdict, base: ArmVerdict) -> Price:
    ours, theirs = _repeats(arm), _repeats(base)
    paired = [(ours[key], theirs[key]) for key in ours if key in theirs and arm is not base]
    first = [pair for pair in paired if pair[0].repeat == 1]
    later = [pair for pair in paired if pair[0].repeat != 1]
    later_ratios = [_ratio(a.prefill_s, b.prefill_s) for a, b in later]
    last = [cell.probes[-1].cached_tokens for cell in arm.cells if cell.probes]
    return Price(
        arm=arm.arm,
        diverged=arm.diverged,
        stable=arm.stable,
        cells=len(arm.cells),
        eligible=sum(cell.eligible == "eligible" for cell in arm.cells),
        cached_tokens=tuple(dict.fromkeys(last)),
        first_prefill_s=_median([p.prefill_s for p in ours.values() if p.repeat == 1]),
        later_prefill_s=_median([p.prefill_s for p in ours.values() if p.repeat != 1]),
        first_ratio=_median([_ratio(a.prefill_s, b.prefill_s) for a, b in first]),
        later_ratio=_median(later_ratios),
        later_interval=_interval(later_ratios),
        first_token_ratio=_median([_ratio(a.first_token_s, b.first_token_s) for a, b in paired]),
        pairs=len(paired),
    )


def _repeats(arm: ArmVerdict) -> dict[tuple[str, int | None, int | None], ProbeResult]:
    """B's repeats in measured cells, by document, length of A and repeat."""
    return {
        (cell.document, cell.a_tokens, probe.repeat): probe
        for cell in arm.cells
        for probe in cell.probes
        if probe.role == "b"
    }


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


def _median(values: Sequence[float | None]) -> float | None:
    known = _whole(values)
    return median(known) if known else None


def _interval(values: Sequence[float | None]) -> Interval | None:
    return median_interval(_whole(values))


def _whole(values: Sequence[float | None]) -> list[float]:
    """All of them, or none where one is unknown."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []
