"""The suite and the volleys, as a user runs them."""

import json
import subprocess
from pathlib import Path

import pytest

from orchestrator.adapters.engine_preparation import PreparedEngine
from orchestrator.adapters.run_store import RunStore
from orchestrator.model.host import RunEnd
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import ArmVerdict, RunVerdict
from orchestrator.runner import judge_run
from tests.conftest import COMMAND, PROJECT, newest_run


def run(project: Path, experiment: str, profile: str, *arms: str) -> RunStore:
    """`vllm-arms run EXPERIMENT --quick` with some of its arms; its folder."""
    chosen = [word for arm in arms for word in ("--arm", arm)]
    done = subprocess.run(
        [
            *COMMAND, "run", experiment, "--quick", "--profile", profile,
            "--project", str(project), *chosen,
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=PROJECT,
    )  # fmt: skip
    store = newest_run(project, experiment)
    assert store.read("end.json", RunEnd).how == "finished", done.stdout + done.stderr
    assert (store.root / "report.html").is_file()
    return store


def arms_of(store: RunStore) -> dict[str, ArmVerdict]:
    """As judged when it ran, which is as it is judged again from its raw files."""
    verdict = store.read("verdicts.json", RunVerdict)
    assert judge_run(store.read("plan.json", Plan), store) == verdict
    return {arm.arm: arm for arm in verdict.arms}


def test_the_suite_runs_on_the_miniature(project: Path) -> None:
    """Five items of one document, untouched and shared; nothing of random weights is scored."""
    store = run(project, "extraction-suite", "miniature", "untouched", "shared")
    arms = arms_of(store)
    report = (store.root / "report.md").read_text(encoding="utf-8")

    assert [len(arm.items) for arm in arms.values()] == [5, 5]
    assert [arm.inconclusive for arm in arms.values()] == [0, 0], arms["shared"].reason
    assert arms["shared"].diverged > 0
    assert {item.scores for arm in arms.values() for item in arm.items} == {None}
    assert "Random weights: agreement only" in report
    assert "### Two arms side by side" in report
    assert "Items that moved" in (store.root / "report.html").read_text(encoding="utf-8")


def test_volleys_are_computed_together_on_the_miniature(project: Path) -> None:
    """Its scheduler batches: four requests share their steps. Whether that shows is arithmetic."""
    (arm,) = arms_of(run(project, "concurrency", "miniature", "four-at-once")).values()
    (cell,) = arm.cells

    assert all(volley.shared for volley in cell.volleys)
    assert cell.verdict in ("batch-equal", "batch-dependent")
    assert (arm.stable, arm.diverged) == (0, 0)
    assert len({probe.probe for probe in cell.probes}) == 16


@pytest.mark.vllm
def test_the_suite_runs_on_a_real_vllm(engine: PreparedEngine, real_project: Path) -> None:
    """With the schema enforced: what is answered begins as the schema wants it to."""
    assert engine.version == "0.29.0"
    store = run(real_project, "extraction-suite", "vllm-cpu-tiny-hybrid", "untouched")
    (arm,) = arms_of(store).values()
    asked = [exchange for exchange, _ in store.exchanges("untouched")][2]

    assert (arm.inconclusive, len(arm.items)) == (0, 5), arm.reason
    assert json.loads(asked.request)["response_format"]["type"] == "json_schema"
    assert all(text.lstrip().startswith("{") for item in arm.items for text in item.answers)


@pytest.mark.vllm
def test_an_answer_depends_on_its_company_where_a_real_vllm_has_to_share_a_step(
    engine: PreparedEngine, real_project: Path
) -> None:
    """A small budget cuts a prefill elsewhere when others want their part of it."""
    assert engine.version == "0.29.0"
    store = run(
        real_project, "concurrency", "vllm-cpu-tiny-hybrid", "four-at-once-small-budget"
    )  # fmt: skip
    (arm,) = arms_of(store).values()

    assert arm.verdict == "batch-dependent", arm.reason
    assert any(volley.shared for cell in arm.cells for volley in cell.volleys)
