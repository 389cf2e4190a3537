"""Medians and their intervals, against figures that are known."""

import random
from statistics import median

import pytest

from orchestrator.statistics import median_interval, summary


@pytest.mark.parametrize(
    ("n", "low", "high", "coverage"),
    [(6, 1, 6, 0.96875), (9, 2, 8, 0.9609375), (10, 2, 9, 0.978515625), (20, 6, 15, 0.958610534)],
)
def test_the_interval_is_the_sign_tests(n: int, low: int, high: int, coverage: float) -> None:
    """Ranks and exact coverage as tables of the binomial distribution have them."""
    found = median_interval([float(value) for value in range(n, 0, -1)])

    assert found is not None
    assert (found.low, found.high) == (low, high)
    assert found.coverage == pytest.approx(coverage)


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_values_have_no_interval_at_95_percent(n: int) -> None:
    """One in sixteen medians lies outside all of five values: that is no 95 %."""
    assert median_interval([1.0] * n) is None


def test_another_confidence_takes_other_ranks() -> None:
    """Five values do for 90 %; the median of ten alone is never an interval."""
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0], confidence=0.9) is not None
    ten = median_interval([float(value) for value in range(1, 11)], confidence=0.85)
    assert ten is not None
    assert (ten.low, ten.high) == (3, 8)


def test_the_interval_covers_as_often_as_it_says_whatever_the_distribution() -> None:
    """A lopsided one, with outliers such as a busy machine makes: 4,000 samples of ten."""
    source = random.Random(20260914)  # noqa: S311 - a simulation
    true_median = 2 ** (1 / 1.5)  # of a Pareto distribution with shape 1.5
    inside = 0
    for _ in range(4000):
        found = median_interval([source.paretovariate(1.5) for _ in range(10)])
        assert found is not None
        inside += found.low <= true_median <= found.high

    assert inside / 4000 == pytest.approx(0.9785, abs=0.007)  # three standard errors


def test_a_summary_of_nothing_is_none() -> None:
    """Missing is not zero."""
    assert summary([]) is None


def test_a_summary_has_the_median_and_both_ends() -> None:
    """In the unit of the values."""
    found = summary([3.0, 1.0, 10.0, 2.0])

    assert found is not None
    assert (found.median, found.least, found.greatest, found.n) == (median([2, 3]), 1, 10, 4)
