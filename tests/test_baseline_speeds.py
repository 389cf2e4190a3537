"""Cold requests set beside a baseline's: told with an interval, and never a regression."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from orchestrator.baselines.comparison import compare_runs
from orchestrator.model.comparison import Comparison, JudgedRun
from orchestrator.model.stacks import ColdResult
from tests.definitions import experiment, plan
from tests.test_baselines import judged

STEADY = (1.00, 1.01, 1.02, 1.00, 1.01, 1.02, 1.01)
NOISY = (0.6, 1.4, 1.0, 0.7, 1.6, 0.9, 1.1)
ASKED = plan(
    experiment(throughput={"lengths": ["32"], "documents": ["one"], "repeats": len(STEADY)}),
    arms=["clean"],
)


def timed(seconds: Sequence[float], *, problem: str | None = None) -> JudgedRun:
    """A run whose cold requests took so long to their first token."""
    (cold,) = ASKED.arms[0].cold
    results = [
        ColdResult(
            probe=probe.id,
            prompt_tokens=cold.prompt_tokens,
            repeat=probe.repeat or 0,
            problem=problem,
            first_token_s=None if problem else taken,
            prefill_s=None,
            decode_tokens_per_s=None,
            draft_tokens=None,
            accepted_tokens=None,
        )
        for probe, taken in zip(cold.probes, (9.0, *seconds), strict=True)
    ]
    return replace(judged(planned=ASKED), cold={"clean": results})


def compared(run: JudgedRun, baseline: JudgedRun) -> Comparison:
    """Whatever the speeds, the result stays."""
    comparison = compare_runs(run, baseline)
    assert (comparison.result, comparison.exit_code) == ("unchanged", 0)
    return comparison


@pytest.mark.parametrize(
    ("factor", "seconds", "word"),
    [
        (2.0, STEADY, "slower"),
        (0.5, STEADY, "faster"),
        (1.0, STEADY, "no difference shown"),
        (1.0, NOISY, "no difference shown"),
    ],
)
def test_cold_requests_are_faster_or_slower_where_the_interval_says_so(
    factor: float, seconds: Sequence[float], word: str
) -> None:
    """Against the baseline's of the same repeat; the warm-up counts nowhere."""
    comparison = compared(timed([factor * taken for taken in seconds]), timed(STEADY))

    (speed,) = comparison.cold
    assert (speed.column, speed.prompt_tokens, speed.ratio.word) == ("clean", 32, word)
    assert f"Cold requests, of 1 stacks and lengths: {word} in 1." in comparison.sentence


def test_requests_that_are_no_measurements_cannot_be_compared() -> None:
    """Missing is not equal."""
    comparison = compared(timed(STEADY), timed(STEADY, problem="it was not cold"))

    assert [speed.ratio.word for speed in comparison.cold] == ["cannot say"]


def test_nothing_is_said_of_speed_where_nothing_was_asked_of_it() -> None:
    """No cold request in the plan."""
    comparison = compared(judged(), judged())

    assert comparison.cold == ()
    assert "Cold requests" not in comparison.sentence
