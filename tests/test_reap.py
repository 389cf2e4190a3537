"""What killed runs leave behind, and what becomes of it: real orchestrators, really killed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.killing import (
    STAGES,
    about,
    arms,
    has,
    how_it_ended,
    kill_at,
    orchestrating,
    processes_of,
    project_with,
    reap,
    wait_for,
)


@pytest.mark.parametrize("stage", STAGES)
def test_a_run_that_is_killed_at_any_stage_is_closed(stage: str, own_project: Path) -> None:
    """Its server dies with it, its log is on disk, and `reap` ends what is "running" for ever."""
    faults, sign = STAGES[stage]
    project_with(own_project, "miniature", faults)

    arm = kill_at(own_project, "miniature", sign)
    wait_for(lambda: not processes_of(arm), "the end of the server's processes")
    code, lines = reap(own_project)

    assert code == 0
    (line,) = about(arm, lines)
    assert line.startswith("removed: run three-arm/")
    assert "is dead; marked as interrupted" in line
    assert (arm / "server.log").read_bytes().startswith(b"MINIATURE")
    ended = how_it_ended(arm)
    assert (ended["how"], ended["state"]) == ("interrupted", None)
    assert "was killed; closed by reap" in str(ended["reason"])
    assert about(arm, reap(own_project)[1]) == []


def test_a_run_that_goes_on_is_left_alone(own_project: Path) -> None:
    """Its orchestrator is alive; so are its server's processes, and none of them is touched."""
    project_with(own_project, "miniature", "hang@2")
    with orchestrating(own_project, "miniature"):
        sign = has("exchanges/000-ready.metrics.txt")
        wait_for(lambda: any(map(sign, arms(own_project))), "readiness")
        (arm,) = arms(own_project)

        code, lines = reap(own_project)

        assert code == 0
        assert {line.partition(":")[0] for line in about(arm, lines)} == {"left"}
        assert all("is alive" in line for line in about(arm, lines))
        assert processes_of(arm)
        assert not (arm.parent.parent / "end.json").exists()


def test_a_dry_run_says_the_same_and_does_nothing(own_project: Path) -> None:
    """What would be removed, in the same words."""
    faults, sign = STAGES["warm-up"]
    project_with(own_project, "miniature", faults)
    arm = kill_at(own_project, "miniature", sign)

    code, lines = reap(own_project, "--dry-run")

    assert code == 0
    (line,) = [line for line in about(arm, lines) if "run three-arm/" in line]
    assert line.startswith("would remove: ")
    assert "to be done: marked as interrupted" in line
    assert not (arm.parent.parent / "end.json").exists()


def test_patched_copies_and_half_written_files_of_a_dead_run_are_deleted(own_project: Path) -> None:
    """And nothing else of it."""
    faults, sign = STAGES["wait"]
    project_with(own_project, "miniature", faults)
    arm = kill_at(own_project, "miniature", sign)
    (arm / "overlay" / "vllm").mkdir(parents=True)
    (arm / ".outcome.json.partial").write_text("{")
    kept = {path.name for path in arm.iterdir()} - {"overlay", ".outcome.json.partial"}

    assert reap(own_project)[0] == 0

    assert {path.name for path in arm.iterdir()} == kept


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        ({"machine": "0" * 64}, "ran on another machine"),
        ({"machine": None}, "its record says too little"),
    ],
)
def test_what_may_belong_to_a_living_one_is_left_alone(
    owner: dict[str, object], told: str, own_project: Path
) -> None:
    """An owner on another machine, and one of a version that told its process id alone."""
    faults, sign = STAGES["wait"]
    project_with(own_project, "miniature", faults)
    arm = kill_at(own_project, "miniature", sign)
    file = arm.parent.parent / "run.json"
    start = json.loads(file.read_bytes())
    start["owner"] |= owner
    file.write_text(json.dumps(start))

    code, lines = reap(own_project)

    assert code == 0
    (line,) = [line for line in about(arm, lines) if "run three-arm/" in line]
    assert line.startswith("left: ")
    assert told in line
    assert not (arm.parent.parent / "end.json").exists()


def test_a_run_that_cannot_be_closed_is_told_and_is_exit_code_4(own_project: Path) -> None:
    """Its folder cannot be written; here, since a file stands where `end.json` would be begun."""
    faults, sign = STAGES["wait"]
    project_with(own_project, "miniature", faults)
    arm = kill_at(own_project, "miniature", sign)
    (arm.parent.parent / ".end.json.partial").mkdir()

    code, lines = reap(own_project)

    assert code == 4
    (line,) = about(arm, lines)
    assert line.startswith("failed: run three-arm/")


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[psutil.Process]:
    """A server's process whose orchestrator and supervisor are both dead."""
    orchestrator = (
        "import os, subprocess, sys; from pathlib import Path;"
        "from orchestrator.adapters.process_marks import marks;"
        "server = subprocess.Popen(['/bin/sleep', '600'], start_new_session=True,"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,"
        " env=os.environ | marks(Path(sys.argv[1])));"
        "print(server.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", orchestrator, str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    process = psutil.Process(int(done.stdout))
    try:
        yield process
    finally:
        if process.is_running():
            process.kill()


def test_a_server_without_orchestrator_and_supervisor_is_killed(
    orphan: psutil.Process, own_project: Path
) -> None:
    """By its marks, which every process of a server carries."""
    code, lines = reap(own_project)

    assert code == 0
    (line,) = [line for line in lines if f"server process {orphan.pid} " in line]
    assert line.startswith("removed: ")
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE


def test_an_engine_core_that_wrote_over_its_environment_is_killed(own_project: Path) -> None:
    """As a vLLM's does with its title: its output goes to the log of an arm of a dead owner."""
    faults, sign = STAGES["warm-up"]
    project_with(own_project, "miniature", faults)
    arm = kill_at(own_project, "miniature", sign)
    wait_for(lambda: not processes_of(arm), "the end of the server's processes")
    forgetful = (
        "import ctypes, time; libc = ctypes.CDLL(None);"
        "first = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, 'environ');"
        "[ctypes.memset(first[i], 0, libc.strlen(ctypes.c_void_p(first[i])))"
        " for i in range(200) if all(first[:i + 1])];"
        "print('forgot', flush=True); time.sleep(600)"
    )
    log = arm / "server.log"
    parent = (
        "import subprocess, sys;"
        "log = open(sys.argv[2], 'ab');"
        "core = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=log, stderr=log);"
        "print(core.pid)"
    )
    done = subprocess.run(
        [sys.executable, "-c", parent, forgetful, str(log)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    core = psutil.Process(int(done.stdout))
    try:
        wait_for(lambda: log.read_bytes().endswith(b"forgot\n"), "its word")
        assert "ARMS_OWNER" not in core.environ()
        code, lines = reap(own_project)
        assert code == 0, "\n".join(lines)
        assert any(f"server process {core.pid} of {arm}" in line for line in lines)
        wait_for(lambda: not psutil.pid_exists(core.pid), "its end")
    finally:
        with suppress(psutil.NoSuchProcess):
            core.kill()


def test_a_process_without_our_marks_is_a_stranger(own_project: Path) -> None:
    """It is neither killed nor mentioned: it holds nothing that a run needs."""
    with subprocess.Popen(["/bin/sleep", "600"], env={}) as stranger:
        try:
            _, lines = reap(own_project)

            assert stranger.poll() is None
            assert not any(str(stranger.pid) in line for line in lines)
        finally:
            stranger.kill()
