"""The campaign's fast part: processes only; `make faults` tries everything."""

import pytest

from tests.faults.campaign import Combination, combinations, fast_combinations
from tests.faults.report import tried
from tests.faults.stages import STAGES
from tests.faults.table import FAULTS


@pytest.mark.parametrize("combination", list(fast_combinations()), ids=lambda each: each.name)
def test_a_run_that_something_happens_to_loses_nothing_and_claims_nothing(
    combination: Combination,
) -> None:
    """The exit code is right, nothing is left, every answer is on disk, no verdict is unfounded."""
    row = tried(combination)

    assert row.short == ()


def test_every_combination_has_a_name_of_its_own_and_a_stage_that_exists() -> None:
    """A row that hides another one would not be missed."""
    names = [combination.name for combination in combinations()]

    assert len(names) == len(set(names))
    assert {stage for fault in FAULTS for stage in fault.stages} <= STAGES.keys()
    assert all(set(fault.fast) <= set(fault.stages) for fault in FAULTS)
