"""What a whole report shows beside the verdict: candidates side by side."""

from pathlib import Path

import pytest

from orchestrator.adapters.run_store import RunStore
from orchestrator.exhibiting import compared, exhibits
from orchestrator.model.observation import Candidate, Position
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import Movement, RunVerdict
from tests.answers import f32
from tests.conftest import PROJECT

RUNS = sorted(path.parent for path in (PROJECT / "docs" / "evidence").glob("*/trimmed.json"))


def position(*candidates: tuple[int, float]) -> Position:
    """A generated token whose first candidate is chosen."""
    listed = tuple(Candidate(token, f32(value)) for token, value in candidates)
    return Position(chosen=listed[0], candidates=listed, chosen_outside=False)


def test_candidates_stand_side_by_side_with_what_only_one_list_has_at_the_end() -> None:
    """In the left list's order; a candidate that is missing has no delta, not a delta of 0."""
    rows = compared(
        position((7, -0.5), (3, -1.25), (9, -2.0)), position((7, -0.5), (4, -1.0), (3, -1.5))
    )

    assert [row.token_id for row in rows] == [7, 3, 9, 4]
    seven, three, nine, four = rows
    assert (seven.delta, seven.moved) == (0.0, False)
    assert (three.delta, three.relative_delta, three.moved) == (-0.25, -0.25, True)
    assert three.left is not None
    assert three.right is not None
    assert (three.left.rank, three.right.rank) == (2, 3)
    assert (nine.right, nine.delta, nine.moved) == (None, None, None)
    assert four.left is None


def test_a_shift_of_all_candidates_moves_none() -> None:
    """Only the normaliser moved: raw deltas, no relative ones."""
    rows = compared(position((7, -0.5), (3, -1.25)), position((7, -0.75), (3, -1.5)))

    assert [row.delta for row in rows] == [-0.25, -0.25]
    assert [row.moved for row in rows] == [False, False]


@pytest.mark.parametrize("run", RUNS, ids=lambda path: path.name)
def test_the_lists_of_a_recorded_run_show_the_movement_that_the_verdict_counts(run: Path) -> None:
    """Two ways to the same figures: the verdict's movement, and the lists taken from raw bytes.

    None in a run without a difference; that there are runs with one is another test's.
    """
    store = RunStore.open(run)
    verdict = store.read("verdicts.json", RunVerdict)
    shown = exhibits(store.read("plan.json", Plan), verdict, store)
    contrasts = {(arm.arm, entry.cell): entry for arm in shown.arms for entry in arm.contrasts}
    movements: dict[tuple[str, str], Movement] = {
        (arm.arm, cell.cell): cell.pattern.difference.movements[cell.pattern.difference.first_token]
        for arm in verdict.arms
        for cell in arm.cells
        if cell.pattern is not None and cell.pattern.difference is not None
    }

    assert contrasts.keys() == movements.keys()
    for key, movement in movements.items():
        rows = contrasts[key].rows
        deltas = [abs(row.delta) for row in rows if row.delta is not None]
        assert len(deltas) == movement.shared
        assert sum(row.moved is True for row in rows) == movement.moved
        assert max(deltas) == movement.max_delta


def test_what_an_arm_left_behind_is_taken_from_its_files() -> None:
    """Launch as used, facts, overlay, memory, size of the log."""
    store = RunStore.open(PROJECT / "docs" / "evidence" / "cpu-four-arm")
    verdict = store.read("verdicts.json", RunVerdict)
    arms = {a.arm: a for a in exhibits(store.read("plan.json", Plan), verdict, store).arms}

    patched = arms["patched"]
    assert patched.overlay is not None
    assert patched.launch is not None
    assert patched.launch.environment["PYTHONPATH"].startswith(patched.overlay.folder)
    assert patched.facts is not None
    assert patched.log_file == "server.log.xz"
    assert store.log("patched")
    assert len(patched.memory) > 10
    assert arms["clean"].overlay is None
    assert arms["clean"].contrasts == ()


def test_there_are_recorded_runs_with_and_without_a_difference() -> None:
    """The test of their lists looks at something."""
    found = {
        any(
            cell.pattern is not None and cell.pattern.difference is not None
            for arm in RunStore.open(run).read("verdicts.json", RunVerdict).arms
            for cell in arm.cells
        )
        for run in RUNS
    }
    assert found == {True, False}
