"""One cell in two runs → what changed about it."""

import math
from collections.abc import Iterator, Sequence
from statistics import median

from orchestrator.model.comparison import CellChange, Effect, JudgedRun, What
from orchestrator.model.verdict import CellVerdict, ProbeResult

NOISE_FACTOR = 3.0
"""A change of a median within three standard deviations of the repeats is no change."""

_MAD_TO_SIGMA = 1.4826
"""The median distance from the median times this is a standard deviation, were it normal."""

_FEWEST_READINGS = 4
"""Of which a median and a noise are made on each side."""


def cell_changes(run: CellVerdict, baseline: CellVerdict) -> Iterator[CellChange]:
    """Verdict, cached tokens and prefill time; digests are `digest_change`'s."""

    def changed(what: What, here: str, there: str, effect: Effect) -> CellChange:
        return CellChange(
            arm=run.arm, cell=run.cell, what=what, run=here, baseline=there, effect=effect
        )

    if told(run) != told(baseline):
        yield changed("verdict", told(run), told(baseline), _verdict_effect(run, baseline))
    ours, theirs = _cached(run), _cached(baseline)
    if ours != theirs and None in (*ours, *theirs):
        # Unknown on both sides alike is left to the verdict, whose gates have dealt with it.
        yield changed("cached tokens", _listed(ours), _listed(theirs), "cannot say")
    elif ours != theirs:
        lost = any(a < b for a, b in zip(_known(ours), _known(theirs), strict=False))
        yield changed("cached tokens", _listed(ours), _listed(theirs), "worse" if lost else "other")
    moved = _prefill_change(run, baseline)
    if moved is not None:
        yield changed("prefill time", *moved, "remark")


def told(cell: CellVerdict) -> str:
    """The verdict, with its attribution where there is one."""
    return cell.verdict if cell.attribution is None else f"{cell.verdict}: {cell.attribution}"


def _verdict_effect(run: CellVerdict, baseline: CellVerdict) -> Effect:
    if "inconclusive" in (run.verdict, baseline.verdict):
        return "cannot say"
    return "worse" if (baseline.verdict, run.verdict) in _WORSE else "other"


_WORSE = {("stable", "diverged"), ("batch-equal", "batch-dependent")}
"""From the baseline's word to the run's."""


def _repeats(cell: CellVerdict) -> list[ProbeResult]:
    return [probe for probe in cell.probes if probe.role == "b"]


def _cached(cell: CellVerdict) -> list[int | None]:
    return [probe.cached_tokens for probe in _repeats(cell)]


def _known(counts: Sequence[int | None]) -> list[int]:
    return [count for count in counts if count is not None]


def _listed(counts: Sequence[int | None]) -> str:
    return ", ".join("unknown" if count is None else str(count) for count in counts) or "none"


def _prefill_change(run: CellVerdict, baseline: CellVerdict) -> tuple[str, str] | None:
    """The medians of the repeats after the first, where they are further apart than noise.

    The noise is that of the repeats of both cells, each on one start. What differs between two
    starts of the same server is not in it (`docs/baselines.md`): a change is only remarked on.
    """
    ours, theirs = _later_prefill_s(run), _later_prefill_s(baseline)
    if min(len(ours), len(theirs)) < _FEWEST_READINGS:
        return None
    here, there = median(ours), median(theirs)
    noise = math.hypot(_spread(ours), _spread(theirs))
    if abs(here - there) <= NOISE_FACTOR * noise:
        return None
    word = "slower" if here > there else "faster"
    return f"{1000 * here:.1f} ms, {word}", f"{1000 * there:.1f} ms"


def _later_prefill_s(cell: CellVerdict) -> list[float]:
    return [p.prefill_s for p in _repeats(cell)[1:] if p.prefill_s is not None]


def _spread(readings: Sequence[float]) -> float:
    middle = median(readings)
    return _MAD_TO_SIGMA * median(abs(reading - middle) for reading in readings)


def may_compare_digests(run: JudgedRun, baseline: JudgedRun, cell: CellVerdict) -> bool:
    """Whether the reference cells show that digests of the two starts may be set side by side.

    Rule 15: every reference answer to the document's B, in both runs, has one and the same digest.
    """
    key = (cell.arm, cell.document)
    ours, theirs = run.references.get(key), baseline.references.get(key)
    return ours is not None and ours == theirs and len(ours) == 1


def digest_change(run: CellVerdict, baseline: CellVerdict) -> CellChange | None:
    """The digests of B's repeats, where they differ; only after `may_compare_digests`."""
    ours, theirs = _digests(run), _digests(baseline)
    if ours == theirs:
        return None
    return CellChange(
        arm=run.arm,
        cell=run.cell,
        what="digests",
        run=" ".join(ours),
        baseline=" ".join(theirs),
        effect="other",
    )


def _digests(cell: CellVerdict) -> list[str]:
    """In order of appearance, 8 digits of each."""
    return list(dict.fromkeys(probe.digests.id_order[:8] for probe in _repeats(cell)))
