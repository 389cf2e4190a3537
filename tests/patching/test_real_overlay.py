"""The shipped patches on a real vLLM for CPU."""

import os
from pathlib import Path
from threading import Event

import pytest

from orchestrator.adapters.arm_server import running_arm_server
from orchestrator.adapters.overlay import (
    apply_to,
    build_overlay,
    package_folder,
    with_overlay,
    with_reporter,
)
from orchestrator.adapters.process_server import environment
from orchestrator.adapters.scheduler_source import ask_split, under_interpreter
from orchestrator.cli.planning import resolve_plan
from orchestrator.model.patch import Overlay
from orchestrator.model.plan import ArmPlan
from orchestrator.patching.reported import loaded_modules, marked_engine_cores
from orchestrator.prediction.panel import rules_giving, split_panel
from orchestrator.requesting import request_body
from tests.conftest import PROJECT
from tests.patching.shipped import shipped

pytestmark = pytest.mark.vllm


def overlay_of(name: str, python: Path, folder: Path) -> Overlay:
    """A shipped patch on the prepared engine."""
    package = package_folder(str(python), "vllm", {"PATH": os.environ["PATH"]})
    return build_overlay(folder, package, apply_to(package, shipped(name), "0.29.0"))


@pytest.mark.parametrize(
    ("name", "every_boundary"), [("stop-at-every-boundary", True), ("sham", False)]
)
def test_the_patched_function_follows_the_rule_that_is_predicted(
    engine_python: Path,
    tmp_path: Path,
    name: str,
    every_boundary: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Asked 5,000 questions: the fix is `every_boundary`, the sham is the release's own rule."""
    overlay = overlay_of(name, engine_python, tmp_path / "overlay")
    cases = split_panel(5000, seed=7)

    _, scheduled = ask_split(
        under_interpreter(engine_python), cases, package=Path(overlay.folder) / "vllm"
    )

    rules = [(r.rule, r.every_boundary) for r in rules_giving(cases, scheduled)]
    assert ("v0.27", every_boundary) in rules
    assert ("v0.27", not every_boundary) not in rules


def test_a_patched_server_says_so_from_its_engine_core(engine_python: Path, tmp_path: Path) -> None:
    """Ready and answering; report and marker come from the one process that schedules."""
    overlay = overlay_of("stop-at-every-boundary", engine_python, tmp_path / "overlay")
    planned = resolve_plan(
        PROJECT, "three-arm", "vllm-cpu-tiny-hybrid", "quick", ["contaminated"], print
    )
    (arm,) = planned.plan.arms
    variables = with_reporter(arm.launch.environment, ["vllm.v1.core.sched.scheduler"])
    launch = arm.launch.model_dump() | {"environment": with_overlay(variables, overlay)}
    arm = ArmPlan.model_validate(arm.model_dump() | {"launch": launch})
    log_file = tmp_path / "server.log"

    with running_arm_server(
        arm,
        ready_body=request_body(planned.plan, arm, arm.ready_probe),
        log_file=log_file,
        memory_file=log_file.with_name("memory.jsonl"),
        keep=lambda _: None,
        keep_beats=lambda *_: None,
        on_wait=lambda *_: None,
        hurry=Event(),
    ):
        pass

    log = log_file.read_bytes()
    (report,) = [report for report in loaded_modules(log) if report.engine_core]
    (file,) = overlay.provenance.files
    assert report.file == f"{overlay.folder}/{file.file}"
    assert (report.sha256, report.runs_file) == (file.sha256_after, True)
    assert marked_engine_cores(log, overlay.provenance.marker) == {report.pid}
    assert environment(arm.launch, os.environ)["PYTHONPATH"].startswith(overlay.folder)
