"""What a row asserts: a real run's folder, with in it what a broken product would have left."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.adapters.run_store import RunStore
from orchestrator.model.plan import Plan
from tests.faults.campaign import combinations
from tests.faults.holding import LARGEST_PEAK_BYTES, row_of, unfounded
from tests.faults.scene import Seen, played

ARM_FOLDER = "arms/contaminated"


@pytest.fixture(scope="module")
def dripped() -> Iterator[Seen]:
    """A run that is whole, claims something of its cell, and had its fault."""
    name = "slow-drip/probe/process"
    combination = next(each for each in combinations() if each.name == name)
    with played(combination) as seen:
        yield seen


def _copy(seen: Seen, to: Path) -> Path:
    if seen.run is None:
        raise AssertionError(f"the run came to no folder: {seen.told}")
    return shutil.copytree(seen.run, to / "run")


def _parts(run: Path) -> list[Path]:
    """Of the exchange that was kept last."""
    exchanges = run / ARM_FOLDER / "exchanges"
    last = max(exchanges.glob("*.times.json")).name.partition(".")[0]
    return sorted(exchanges.glob(f"{last}.*.json"))


def _lose(*endings: str) -> Callable[[Path], None]:
    def lose(run: Path) -> None:
        for part in _parts(run):
            if part.name.endswith(endings):
                part.unlink()

    return lose


def _forget_fault(run: Path) -> None:
    log = run / ARM_FOLDER / "server.log"
    log.write_bytes(log.read_bytes().replace(b"MINIATURE: fault", b""))


def test_a_whole_run_holds(dripped: Seen) -> None:
    """Otherwise the tests below would see what is wrong with the scene."""
    row = row_of(dripped)

    assert row.short == ()
    assert "inconclusive" not in row.verdict


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_lose(".json"), "answers were received"),
        (_lose("times.json"), "half an exchange"),
        (_lose("response.json"), "half an exchange"),
        (_lose("request.json"), "half an exchange"),
        (_forget_fault, "nothing was tried"),
    ],
)
def test_one_lost_answer_half_an_exchange_and_a_fault_that_never_was_are_seen(
    dripped: Seen, tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    """Nothing from outside happened, so that not even the last answer may lack."""
    run = _copy(dripped, tmp_path)
    damage(run)

    assert said in "; ".join(row_of(replace(dripped, run=run)).short)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"exit_code": 70}, "exit code 70, not 0 or 1 or 3"),
        ({"told": "Traceback (most recent call last):\nOSError: x"}, "a traceback"),
        ({"left": ("process python",)}, "left behind: process python"),
        ({"left_after_reap": ("container 12ab",)}, "left: container 12ab"),
        ({"peak_bytes": LARGEST_PEAK_BYTES + 1}, "MiB of memory"),
        ({"struck": False}, "nothing was tried"),
    ],
)
def test_each_way_of_ending_badly_is_seen(
    dripped: Seen, seen: dict[str, object], said: str
) -> None:
    """One at a time, so that no check hides behind another one."""
    assert said in "; ".join(row_of(replace(dripped, **seen)).short)  # type: ignore[arg-type]


def test_a_claim_about_a_cell_that_lacks_an_answer_is_unfounded(
    dripped: Seen, tmp_path: Path
) -> None:
    """Whatever the judge says: it is asked for its claim, and the answers are counted here."""
    store = RunStore(_copy(dripped, tmp_path))
    plan = store.read("plan.json", Plan)
    claimed = {cell.id for arm in plan.arms for cell in arm.cells}
    probes = {probe.id for arm in plan.arms for cell in arm.cells for probe in cell.probes}

    assert unfounded(plan, store, claimed) == []

    for part in (store.root / ARM_FOLDER / "exchanges").glob(f"{max(probes)}.*"):
        part.unlink()

    assert unfounded(plan, store, claimed) != []
