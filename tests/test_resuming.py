"""A killed run is told as killed, and gone on with: on real processes, with a real SIGKILL."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.adapters.kept_arms import keep_arm
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.runs_folder import read_runs
from orchestrator.errors import HostError
from orchestrator.model.host import RunEnd, RunStart
from orchestrator.model.outcome import Completed
from orchestrator.model.resumption import KeptArm, Resumption
from orchestrator.model.verdict import RunVerdict
from orchestrator.resuming import host_differences, plan_differences, resumption
from tests.conftest import COMMAND, PROJECT, Call
from tests.definitions import experiment, plan
from tests.scenarios import Scenario
from tests.test_run_store import NOW, store, stored  # noqa: F401 - fixtures

KILL_LIMIT_S = 60.0
"""Until the second arm has begun: 3 s on an idle machine."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of its own: nobody else's runs are in it."""
    folder = tmp_path_factory.mktemp("resuming")
    for name in ("arms", "launch_profiles"):
        shutil.copytree(PROJECT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def killed(place: Path) -> RunStore:
    """A run that was killed with SIGKILL in the middle of its second arm."""
    command = [*COMMAND, "run", "three-arm", "--profile", "miniature", "--quick"]
    with subprocess.Popen(
        [*command, "--project", str(place)], cwd=PROJECT, stdout=subprocess.DEVNULL
    ) as process:
        partial = "runs/three-arm/*/arms/contaminated/exchanges/005*.times.json"
        wait_for(lambda: any(place.glob(partial)))
        process.send_signal(signal.SIGKILL)
    return RunStore.open(next((place / "runs" / "three-arm").iterdir()))


def wait_for(seen: Callable[[], bool]) -> None:
    """Until it is seen; the test fails when it never is."""
    until_s = time.monotonic() + KILL_LIMIT_S
    while not seen():
        assert time.monotonic() < until_s
        time.sleep(0.02)


@pytest.fixture(scope="module")
def resumed(place: Path, killed: RunStore) -> RunStore:
    """The run that went on with it, named by nothing but the killed run."""
    done = subprocess.run(
        [*COMMAND, "run", "--resume", killed.root.name, "--project", str(place)],
        capture_output=True, text=True, timeout=300, check=False, cwd=PROJECT,
    )  # fmt: skip
    assert "kept of three-arm/" in done.stdout, done.stdout + done.stderr
    return RunStore.open(place / "runs" / "latest")


def test_a_killed_run_is_killed_and_not_running_for_ever(killed: RunStore, place: Path) -> None:
    """It has no end, and its owner is dead."""
    assert killed.end() is None
    states = {run.name: run.state for run in read_runs(place / "runs").runs}

    assert states[f"three-arm/{killed.root.name}"] == "killed"


def test_finished_arms_are_kept_and_the_partial_one_starts_from_nothing(
    killed: RunStore, resumed: RunStore
) -> None:
    """The same files by hard link for the one, none of its files for the other."""
    kept = resumed.resumption()
    assert kept is not None
    assert kept.of == f"three-arm/{killed.root.name}"
    assert [arm.arm for arm in kept.kept] == ["clean"]

    def file(run: RunStore, name: str) -> Path:
        return run.root / "arms" / name

    for name in ("clean/outcome.json", "clean/server.log", "clean/exchanges/003-b1.response.json"):
        assert file(resumed, name).samefile(file(killed, name))
    shared = {path.name for path in file(killed, "contaminated").iterdir()}
    assert "outcome.json" not in shared
    for name in shared - {"exchanges"}:
        assert not file(resumed, f"contaminated/{name}").samefile(
            file(killed, f"contaminated/{name}")
        )


def test_a_resumed_run_is_whole_and_says_when_each_arm_was_made(
    killed: RunStore, resumed: RunStore
) -> None:
    """Judged like any other, with what may not be read into it."""
    verdict = resumed.read("verdicts.json", RunVerdict)
    report = (resumed.root / "report.md").read_text()

    assert resumed.read("end.json", RunEnd).how == "finished"
    assert [arm.verdict for arm in verdict.arms] == ["stable", "diverged", "stable"]
    assert any("resumed; clean" in limit for limit in verdict.not_covered)
    assert "This run was resumed" in report
    assert f"three-arm/{killed.root.name} |" in report.replace("\\", "")
    assert report.count("| this run |") == 2
    assert "clean made (UTC)" in (resumed.root / "report.html").read_text()


def test_its_command_makes_such_a_run_from_nothing(resumed: RunStore) -> None:
    """Who repeats it has no run to go on with."""
    command = resumed.read("run.json", RunStart).command

    assert command[:5] == ("vllm-arms", "run", "three-arm", "--profile", "miniature")
    assert "--quick" in command
    assert "--resume" not in command


def test_a_run_with_every_arm_finished_is_not_resumed(
    call: Call, place: Path, resumed: RunStore
) -> None:
    """There is nothing left to do; what to do instead is said."""
    assert resumed.root.exists()
    code, _, errors = call("run", "--resume", "latest", "--project", place)

    assert code == 2
    assert "all its arms are finished; `vllm-arms analyze`" in errors


def test_another_plan_is_refused_with_what_differs(
    call: Call, place: Path, killed: RunStore
) -> None:
    """An experiment that was edited meanwhile, or a flag that does not agree."""
    resume = ("--resume", killed.root.name, "--project", place)

    code, _, errors = call("run", "three-arm", "--arm", "clean", *resume)
    assert code == 2
    assert "arms: 3 → 1 entries" in errors

    definition = place / "arms" / "three-arm.toml"
    before = definition.read_text()
    definition.write_text(before.replace("max_tokens = 16", "max_tokens = 15"))
    code, _, errors = call("run", *resume)
    definition.write_text(before)
    assert code == 2
    assert "max_tokens: 16 → 15" in errors


def test_another_machine_is_refused(call: Call, place: Path, killed: RunStore) -> None:
    """A run that was copied here is analyzed here, and gone on with where it was made."""
    copy = place / "runs" / "three-arm" / "copied"
    shutil.copytree(killed.root, copy)
    start = json.loads((copy / "run.json").read_text())
    start["owner"]["machine"] = "f" * 64
    start["host"]["kernel"] = "2.6"
    (copy / "run.json").write_text(json.dumps(start))

    code, _, errors = call("run", "--resume", "three-arm/copied", "--project", place)
    shutil.rmtree(copy)

    assert code == 2
    assert "machine: another one; host.kernel: 2.6 → " in errors


def test_a_run_that_goes_on_is_not_resumed(call: Call, place: Path) -> None:
    """Two processes would make one run's arms."""
    command = [*COMMAND, "run", "three-arm", "--profile", "miniature", "--quick", "--arm", "clean"]
    with subprocess.Popen(
        [*command, "--project", str(place)], cwd=PROJECT, stdout=subprocess.DEVNULL
    ) as process:
        wait_for(lambda: any(r.state == "running" for r in read_runs(place / "runs").runs))
        code, _, errors = call("run", "--resume", "latest", "--project", place)
        process.wait(KILL_LIMIT_S)

    assert code == 2
    assert f"it is still going on, in process {process.pid}" in errors


def test_neither_an_experiment_nor_a_run_is_wrong_usage(call: Call, tmp_path: Path) -> None:
    """And a run that is not there is named."""
    assert call("run", "--project", tmp_path)[0] == 2
    code, _, errors = call("run", "--resume", "2027", "--project", tmp_path)

    assert code == 2
    assert "RUN 2027: there is no such run" in errors


def test_plans_differ_by_the_names_of_their_fields() -> None:
    """Down to the entry of a list; long values are cut, equal plans differ in nothing."""
    ours = plan()
    theirs = plan(experiment(seed=7, question="x" * 100))

    assert plan_differences(ours, ours) == []
    told = plan_differences(ours, theirs)
    assert "seed: 0 → 7" in told
    assert any(line.startswith("question: ") and line.endswith("…") for line in told)
    assert any(line.startswith("arms.0.cells.") for line in told)


def test_a_commit_of_the_project_is_no_other_condition(killed: RunStore) -> None:
    """What matters of its folder is in the plan."""
    start = killed.start()
    host = start.host.model_dump()
    later = RunStart.model_validate(
        start.model_dump() | {"host": host | {"commit": "0" * 40, "uncommitted_changes": None}}
    )
    newer = RunStart.model_validate(
        start.model_dump() | {"host": host | {"vllm_arms_version": "9"}}
    )

    assert host_differences(start, later) == []
    assert host_differences(start, newer) == ["host.vllm_arms_version: 0.1.0 → 9"]


def test_an_arm_that_was_kept_before_still_names_the_run_that_made_it() -> None:
    """A run that is resumed twice does not take an arm's making on itself."""
    first = KeptArm(arm="clean", run="small/one", made_at=NOW)
    second = KeptArm(arm="dirty", run="small/two", made_at=NOW)
    kept = Resumption(of="small/one", kept=(first,))
    again = KeptArm(arm="clean", run="small/two", made_at=NOW)

    assert resumption("small/two", {"clean": again, "dirty": second}, kept) == Resumption(
        of="small/two", kept=(first, second)
    )


def test_an_arm_that_was_linked_by_half_is_not_finished(
    stored: RunStore,  # noqa: F811 - a fixture
    tmp_path: Path,
) -> None:
    """What makes it count as finished comes last; links that are there are never gone over."""
    target = RunStore(tmp_path / "target")
    keep_arm(stored, target, "clean")
    assert target.outcome("clean") == Completed()
    assert list(target.exchanges("clean")) == list(stored.exchanges("clean"))

    half = RunStore(_deep(tmp_path, PATH_MAX_BYTES - len("/arms/clean/exchanges/000")))
    with pytest.raises(HostError, match="File name too long"):
        keep_arm(stored, half, "clean")
    assert half.log("clean")
    assert half.outcome("clean") is None


PATH_MAX_BYTES = 4096
"""Of Linux, with the zero at the end: longer paths cannot be linked, shorter ones can."""


def _deep(folder: Path, length: int) -> Path:
    """A folder below, whose path has this length."""
    while length - len(str(folder)) > 200:
        folder /= "x" * 99
    folder /= "x" * (length - len(str(folder)) - 1)
    folder.mkdir(parents=True)
    return folder


def test_the_judgement_names_the_kept_arms_only_of_a_resumed_run() -> None:
    """Their times are of another sitting; everything else is as ever."""
    kept = Resumption(of="small/one", kept=(KeptArm(arm="clean", run="small/one", made_at=NOW),))
    ever, again = Scenario().judge(), Scenario(resumed=kept).judge()

    (said,) = set(again.not_covered) - set(ever.not_covered)
    assert "clean (2026-09-14 18:02 UTC)" in said
    assert again.arms == ever.arms
