"""The product on a real vLLM for CPU, as a user calls it."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from orchestrator.adapters.engine_preparation import PreparedEngine
from orchestrator.model.host import RunEnd
from orchestrator.model.outcome import Completed
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import RunVerdict
from orchestrator.runner import judge_run
from orchestrator.serverlog.scan import scan
from tests.conftest import COMMAND, PROJECT, newest_run

pytestmark = pytest.mark.vllm


def servers() -> list[int]:
    """Processes of any vLLM of the engine's interpreter."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if "vllm.entrypoints" in line and "tiny-hybrid" in line:
            found.append(process.pid)
    return found


def test_the_three_arms_are_as_expected(
    real_run: subprocess.CompletedProcess[str], real_project: Path
) -> None:
    """The contaminated arm diverges from its references; clean and caching-off do not."""
    assert real_run.returncode == 0, real_run.stdout + real_run.stderr
    verdict = newest_run(real_project).read("verdicts.json", RunVerdict)

    assert [(arm.arm, arm.verdict) for arm in verdict.arms] == [
        ("clean", "stable"), ("contaminated", "diverged"), ("caching-off", "stable"),
    ]  # fmt: skip
    diverged = [cell for cell in verdict.arms[1].cells if cell.verdict == "diverged"]
    assert len(diverged) >= 4
    assert {cell.attribution for cell in diverged} == {"contamination"}
    assert {cell.eligible for cell in verdict.arms[1].cells} == {"eligible"}
    assert "as expected" in real_run.stdout.lower()


def test_cached_tokens_are_what_was_predicted_counted_and_answered(
    real_run: subprocess.CompletedProcess[str], real_project: Path
) -> None:
    """Three sources, one number, on every probe of every cell."""
    assert real_run.returncode == 0
    verdict = newest_run(real_project).read("verdicts.json", RunVerdict)
    probes = [probe for arm in verdict.arms for cell in arm.cells for probe in cell.probes]

    assert probes
    assert all(p.cached_tokens == p.predicted_cached_tokens == p.hit_tokens_delta for p in probes)
    assert {p.cached_tokens for p in probes} == {0, 32, 64}


def test_logs_metrics_and_raw_answers_of_three_starts_are_kept(
    real_run: subprocess.CompletedProcess[str], real_project: Path
) -> None:
    """And the logs say what each arm's server did."""
    assert real_run.returncode == 0
    store = newest_run(real_project)
    modes = {}
    for arm in ("clean", "contaminated", "caching-off"):
        log = scan([(store.root / "arms" / arm / "server.log").read_bytes()])
        assert log.value("vllm_version") == "0.29.0"
        assert not [finding for finding in log.findings if finding.severity == "fatal"]
        modes[arm] = log.value("mamba_cache_mode")
        assert (
            "vllm:cache_config_info" in (store.root / "arms" / arm / "metrics-end.txt").read_text()
        )
        assert len(list(store.exchanges(arm))) > 10
        assert isinstance(store.outcome(arm), Completed)
    assert modes == {"clean": "align", "contaminated": "align", "caching-off": None}


def test_analyze_judges_the_same_from_the_raw_files(
    real_run: subprocess.CompletedProcess[str], real_project: Path
) -> None:
    """`analyze RUN` gives the stored verdict and its exit code."""
    assert real_run.returncode == 0
    store = newest_run(real_project)
    done = subprocess.run(
        [*COMMAND, "analyze", str(store.root)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0
    assert "the same as this judgement" in done.stdout
    assert judge_run(store.read("plan.json", Plan), store) == store.read(
        "verdicts.json", RunVerdict
    )


def test_no_process_is_left(real_run: subprocess.CompletedProcess[str]) -> None:
    """Neither a server nor an engine core nor a worker."""
    assert real_run.returncode == 0
    assert servers() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_tears_everything_down_and_marks_the_run(
    engine: PreparedEngine, project: Path, number: signal.Signals
) -> None:
    """While the server is starting: exit 130, server gone, its log saved, the run marked."""
    assert engine.model_dir.is_dir()
    with subprocess.Popen(
        [*COMMAND, "run", "three-arm", "--quick", "--project", str(project)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "starting a fresh server" in line:
                break
        log = newest_run(project).root / "arms" / "clean" / "server.log"
        while not log.is_file() or log.stat().st_size == 0:
            time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 130
    assert f"interrupted by {number.name}" in errors
    assert servers() == []
    store = newest_run(project)
    assert store.read("end.json", RunEnd).how == "interrupted"
    assert (store.root / "arms" / "clean" / "server.log").stat().st_size > 0
    events = [
        json.loads(line)["event"]
        for line in (store.root / "orchestrator.jsonl").read_text().splitlines()
    ]
    assert events[-1] == "server.stopped"
