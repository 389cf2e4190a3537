"""A run and its comparison with the baseline → one word, and the nightly's exit code."""

from collections.abc import Iterable

from orchestrator.model.comparison import Comparison
from orchestrator.model.nightly import Word
from orchestrator.model.verdict import RunVerdict


def word_of(run: RunVerdict, baseline: RunVerdict, comparison: Comparison) -> Word:
    """One word for a finished run.

    What is definite comes first. A cell that got worse is a regression also when another arm
    failed; an arm that failed is never one, nor is an inconclusive cell. Where the two runs are not
    comparable cell by cell, the experiment's own expectations still say whether it came out as it
    must: a run that does not, where the baseline did, is a regression with another cause to look
    for, unless all there is to it is that a control no longer diverges.
    """
    if comparison.result == "regressed":
        return "regressed"
    if run.result == "failed":
        return "infrastructure failure"
    if "inconclusive" in (run.result, comparison.result):
        return "inconclusive"
    if comparison.perhaps_fixed and not _worse(run, baseline):
        return "changed: perhaps fixed upstream"
    if comparison.result == "not comparable":
        return "regressed" if (baseline.exit_code, run.exit_code) == (0, 1) else "not comparable"
    return "changed" if comparison.result == "changed" else "unchanged"


def sentence_of(word: Word, run: RunVerdict, baseline: RunVerdict, comparison: Comparison) -> str:
    """Why it is that word."""
    if run.result in ("failed", "inconclusive") and word != "regressed":
        unclear = next(arm for arm in run.arms if arm.verdict == "inconclusive")
        return f"{unclear.arm}: {unclear.reason}"
    if word == "regressed" and comparison.result != "regressed":
        return f"{run.sentence} The baseline was {baseline.result}. {comparison.sentence}"
    return comparison.sentence


def _worse(run: RunVerdict, baseline: RunVerdict) -> bool:
    """Whether an arm diverges that was stable."""
    before = {arm.arm: arm.verdict for arm in baseline.arms}
    return any(arm.verdict == "diverged" and before.get(arm.arm) == "stable" for arm in run.arms)


def exit_code(words: Iterable[Word]) -> int:
    """1 if anything regressed, else 4 after an infrastructure failure, else 3, else 0."""
    said = set(words)
    if "regressed" in said:
        return 1
    if "infrastructure failure" in said:
        return 4
    return 3 if said & {"inconclusive", "not comparable"} else 0
