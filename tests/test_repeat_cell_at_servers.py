"""The program that repeats a cell, run as a maintainer runs it: against servers."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.adapters.arm_server import running_arm_server
from orchestrator.adapters.engine_preparation import PreparedEngine
from orchestrator.adapters.repro_file import repro_file
from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.planning import resolve_plan
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import RunVerdict
from orchestrator.reporting.repeating import repeatable_cell
from orchestrator.requesting import request_body
from tests.conftest import COMMAND, PROJECT, Call, newest_run

FOUR_ARM = PROJECT / "docs" / "evidence" / "cpu-four-arm"


@contextmanager
def serving(planned: Plan, arm: str, folder: Path) -> Iterator[str]:
    """A fresh server of one arm, started with its launch command; the base URL."""
    made = next(entry for entry in planned.arms if entry.name == arm)
    with running_arm_server(
        made,
        ready_body=request_body(planned, made, made.ready_probe),
        log_file=folder / "server.log",
        memory_file=folder / "memory.jsonl",
        keep=lambda exchange: None,
        keep_beats=lambda probe, beats: None,
        on_wait=lambda waited_s, line: None,
        hurry=threading.Event(),
    ) as (_, facts):
        yield f"http://127.0.0.1:{facts.port}"


def repeat_at(program: Path, base_url: str) -> tuple[int, str]:
    """Run the program as a maintainer does, away from this project; exit code and output."""
    done = subprocess.run(
        [sys.executable, str(program), "--base-url", base_url],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=program.parent,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def miniature_run(project: Path) -> RunStore:
    """Contaminated and caching-off over the panel, on the miniature."""
    command = ["run", "three-arm", "--profile", "miniature", "--project", str(project)]
    done = subprocess.run(
        [*COMMAND, *command, "--arm", "contaminated", "--arm", "caching-off"],
        capture_output=True, text=True, timeout=300, check=False, cwd=PROJECT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return newest_run(project)


@pytest.fixture
def program(miniature_run: RunStore, tmp_path: Path) -> Path:
    """The program of that run."""
    planned = miniature_run.read("plan.json", Plan)
    verdict = miniature_run.read("verdicts.json", RunVerdict)
    path = tmp_path / "repeat.py"
    path.write_text(repro_file(repeatable_cell(planned, verdict, run="r")), encoding="utf-8")
    return path


def test_the_program_finds_on_a_fresh_miniature_what_the_run_found(
    miniature_run: RunStore, program: Path, tmp_path: Path
) -> None:
    """Twice on one server: a warm cache of the first call does not reach the second."""
    with serving(miniature_run.read("plan.json", Plan), "contaminated", tmp_path) as base_url:
        outcomes = [repeat_at(program, base_url) for _ in range(2)]

    for code, output in outcomes:
        assert code == 1, output
        assert "DIVERGED: B2 differs from its reference, first at generated token 0" in output
        assert "prefix caching on\n" in output
        assert "letters here:       AAA | ABBBBBBBBB | AAA\n" in output
        assert "letters in the run: AAA | ABBBBBBBBB | AAA\n" in output
        assert "digests: the same as in the run" in output


def test_the_program_says_when_a_server_is_not_affected(
    miniature_run: RunStore, program: Path, tmp_path: Path
) -> None:
    """Prefix caching off: not seen, and what that does not say."""
    with serving(miniature_run.read("plan.json", Plan), "caching-off", tmp_path) as base_url:
        code, output = repeat_at(program, base_url)

    assert code == 0, output
    assert "NOT SEEN: all answers are equal. Prefix caching is off on this server" in output
    assert "its cache was not tested" in output


def test_the_program_tells_a_server_that_does_not_answer_from_one_that_diverges(
    program: Path,
) -> None:
    """Exit 4 and the reason."""
    code, output = repeat_at(program, "http://127.0.0.1:9")

    assert code == 4
    assert output.startswith("NO USABLE ANSWER: ConnectError")


@pytest.mark.vllm
def test_the_program_of_the_evidence_finds_on_a_fresh_vllm_what_the_run_found(
    engine: PreparedEngine, tmp_path: Path, call: Call
) -> None:
    """Written by the command, against a real server started with the profile's command."""
    program = tmp_path / "repeat.py"
    assert call("report", FOUR_ARM, "--format", "comment", "--repro", program)[0] == 0
    planned = resolve_plan(
        PROJECT, "four-arm", "vllm-cpu-tiny-hybrid", "quick", ["contaminated"], print
    ).plan
    assert planned.engine == f"vLLM {engine.version}"
    with serving(planned, "contaminated", tmp_path) as base_url:
        code, output = repeat_at(program, base_url)

    assert code == 1, output
    assert "letters here:       AAA | BBBBBBBBBB | AAA\n" in output
    assert "letters in the run: AAA | BBBBBBBBBB | AAA\n" in output
