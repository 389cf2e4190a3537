"""Runs set beside a baseline: comparable or not, and what changed."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.baselines.changes import cell_changes
from orchestrator.baselines.comparison import compare_runs
from orchestrator.cli.comparing import judged_run
from orchestrator.model.comparison import JudgedRun
from orchestrator.model.outcome import Failed
from orchestrator.model.patch import PatchedFile, PatchProvenance
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from tests.answers import moved
from tests.conftest import PROJECT, Call
from tests.definitions import experiment, plan, profile
from tests.scenarios import Reply, Scenario, Script, affected, plain
from tests.suites import ITEMS, suite, suite_plan

FOUR_ARM = PROJECT / "docs" / "evidence" / "cpu-four-arm"
SLOW_S, FAST_S = 0.040, 0.010


def judged(
    script: Script = affected,
    *,
    planned: Plan | None = None,
    references: Mapping[tuple[str, str], frozenset[str]] | None = None,
    patches: Mapping[str, PatchProvenance] | None = None,
    pins: Mapping[str, str | None] | None = None,
    failed: str | None = None,
) -> JudgedRun:
    """A constructed run, judged as the product judges."""
    outcomes = {} if failed is None else {failed: Failed(stage="start", error="no memory")}
    made = planned or plan()
    return JudgedRun(
        name="a run",
        plan=made,
        verdict=Scenario(script=script, plan=made, outcomes=dict(outcomes)).judge(),
        pins=pins or {"processor": "one"},
        patches=patches or {},
        references=references or {},
        cold={},
    )


def test_a_run_is_unchanged_against_itself() -> None:
    """The floor of every comparison."""
    comparison = compare_runs(judged(), judged())

    assert (comparison.result, comparison.exit_code) == ("unchanged", 0)
    assert comparison.sentence == (
        "Unchanged: verdicts and cached tokens of 6 cells are as in the baseline."
    )
    assert comparison.changes == ()


def test_a_stable_cell_that_diverges_is_a_regression_and_is_named() -> None:
    """Exit 1, with arm, cell and both verdicts."""

    def worse(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = affected(arm, cell, probe)
        if (arm.name, cell.place, cell.document) == ("clean", "measured", "one") and reply.cached:
            reply.lists = moved(1)
        return reply

    comparison = compare_runs(judged(worse), judged())

    assert (comparison.result, comparison.exit_code) == ("regressed", 1)
    assert "clean, one/measured: verdict stable → diverged" in comparison.sentence


def test_a_hit_that_is_lost_is_a_regression_although_the_verdict_is_the_same() -> None:
    """A server that caches less is worse; one that caches more is only changed."""

    def hits(tokens: int) -> Script:
        def reply(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
            answer = affected(arm, cell, probe)
            answer.cached = tokens if answer.cached else answer.cached
            return answer

        return reply

    lost = compare_runs(judged(hits(16)), judged(hits(32)))
    gained = compare_runs(judged(hits(32)), judged(hits(16)))

    assert (lost.result, lost.exit_code) == ("regressed", 1)
    assert {change.what for change in lost.changes} == {"cached tokens"}
    assert (gained.result, gained.exit_code) == ("changed", 0)


def test_a_count_that_only_one_side_knows_is_neither_equal_nor_worse() -> None:
    """Missing is not zero."""

    def silent(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = affected(arm, cell, probe)
        reply.hits, reply.cached = reply.cached, None
        return reply

    comparison = compare_runs(judged(silent), judged())

    assert (comparison.result, comparison.exit_code) == ("inconclusive", 3)


def test_a_control_that_stops_diverging_is_perhaps_fixed_upstream() -> None:
    """With both versions; on the same engine it is said that something else changed."""
    same = compare_runs(judged(plain), judged(affected))
    newer = compare_runs(
        judged(plain, planned=plan(launched=profile(vllm_version="0.30.0"))),
        judged(affected, planned=plan(launched=profile(vllm_version="0.29.0"))),
    )

    assert (same.result, same.exit_code) == ("changed", 0)
    assert same.perhaps_fixed == ("contaminated",)
    assert "the engine is the same" in same.sentence
    assert (newer.result, newer.exit_code) == ("not comparable", 2)
    assert (
        "Changed: perhaps fixed upstream: contaminated diverged in 2 of 2 cells on vLLM 0.29.0"
        " and in 0 of 2 cells on vLLM 0.30.0" in newer.sentence
    )


def test_nothing_is_called_fixed_when_another_question_was_asked() -> None:
    """Other documents or sizes may simply not show it."""
    other = plan(experiment(sizes={"shared": "20", "b": "40", "a": ["30"]}))

    assert compare_runs(judged(plain, planned=other), judged(affected)).perhaps_fixed == ()


def provenance(sha256: str) -> PatchProvenance:
    """A patch's outcome with a chosen hash."""
    file = PatchedFile(
        file="vllm/scheduler.py", sha256_before=None, sha256_after=sha256 * 64, diff=""
    )
    return PatchProvenance(
        patch="fix", upstream="x", marker="y", release="0", read_for_release=True,
        files=(file,), left_out=(),
    )  # fmt: skip


PATCHED = plan(experiment(arms=[{"name": "patched", "cell": "reference", "patch": "fix"}],
                          expectations={}))  # fmt: skip


@pytest.mark.parametrize(
    ("run", "baseline", "field"),
    [
        (judged(planned=plan(experiment(seed=1))), judged(), "seed"),
        (judged(planned=plan(experiment(repeats=5))), judged(), "repeats"),
        (judged(planned=plan(launched=profile(vllm_version="1"))), judged(), "engine"),
        (judged(planned=plan(arms=["clean"])), judged(), "arms"),
        (
            judged(planned=plan(launched=profile(args=["serve", "--eager", "--port={port}"]))),
            judged(planned=plan(launched=profile(args=["serve", "--port={port}"]))),
            "clean: --eager",
        ),
        (
            judged(planned=plan(launched=profile(environment={"THREADS": "2"}))),
            judged(planned=plan(launched=profile(environment={"THREADS": "4"}))),
            "clean: THREADS",
        ),
        (
            judged(planned=PATCHED, patches={"patched": provenance("a")}),
            judged(planned=PATCHED, patches={"patched": provenance("b")}),
            "patched: patch",
        ),
        (judged(pins={"driver": "580"}), judged(pins={"driver": "590"}), "driver"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_field_that_differs_is_named_and_nothing_is_compared(
    run: JudgedRun, baseline: JudgedRun, field: str
) -> None:
    """Refused, exit 2."""
    comparison = compare_runs(run, baseline)

    assert (comparison.result, comparison.exit_code) == ("not comparable", 2)
    assert field in [entry.field for entry in comparison.differing]
    assert (comparison.cells, comparison.changes) == (0, ())


COLD = plan(experiment(throughput={"lengths": ["32"], "documents": ["one"], "repeats": 2}))
SUITE = suite_plan()


def in_company(asked: Plan) -> Plan:
    """The same with the requests of its first arm sent two at once."""
    first, *others = asked.arms
    cells = tuple(cell.model_copy(update={"concurrency": 2}) for cell in first.cells)
    return asked.model_copy(update={"arms": (first.model_copy(update={"cells": cells}), *others)})


@pytest.mark.parametrize(
    ("other", "asked", "field"),
    [
        (COLD.model_copy(update={"throughput": None}), COLD, "cold requests"),
        (SUITE.model_copy(update={"suite": None}), SUITE, "suite"),
        (suite_plan(items=ITEMS[:3]), SUITE, "suite"),
        (suite_plan(suite(runs=4)), SUITE, "suite"),
        (SUITE.model_copy(update={"chats": {}}), SUITE, "prompts"),
        (plan(b_question="Gamma?"), plan(), "prompts"),
        (in_company(plan()), plan(), "clean: requests"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_question_is_no_baseline(other: Plan, asked: Plan, field: str) -> None:
    """Suite, texts, cold requests and company are part of what was asked, on either side."""
    run = judged()

    for ours, theirs in ((other, asked), (asked, other)):
        comparison = compare_runs(replace(run, plan=ours), replace(run, plan=theirs))
        assert (comparison.result, comparison.exit_code) == ("not comparable", 2)
        assert field in [entry.field for entry in comparison.differing]


def test_two_plans_of_one_question_are_comparable_though_their_salts_differ() -> None:
    """What is drawn anew each time is no part of the question."""
    asked = plan()
    first, *others = asked.arms
    cells = tuple(cell.model_copy(update={"salt": "another"}) for cell in first.cells)
    salted = asked.model_copy(update={"arms": (first.model_copy(update={"cells": cells}), *others)})

    assert compare_runs(judged(planned=salted), judged()).differing == ()


def test_a_field_that_one_run_did_not_record_is_named_and_forbids_nothing() -> None:
    """Unknown is not equal, and not different either."""
    comparison = compare_runs(judged(pins={"driver": None}), judged(pins={"driver": "580"}))

    assert comparison.result == "unchanged"
    assert [entry.field for entry in comparison.unknown] == ["driver"]
    assert comparison.sentence.endswith(
        "Not recorded by both, so not held against each other: driver."
    )


def test_the_same_engine_in_another_folder_is_the_same() -> None:
    """Paths are compared by their last part, also a trimmed run's."""
    trimmed = profile(
        args=["serve", "--model", "<cache>/model-1", "--tokenizer=<cache>/t"],
        environment={"P": "<home>/x"},
    )
    plain_run = profile(
        args=["serve", "--model", "/a/b/model-1", "--tokenizer=/a/b/t"],
        environment={"P": "/c/d/x"},
    )

    comparison = compare_runs(
        judged(planned=plan(launched=trimmed)), judged(planned=plan(launched=plain_run))
    )

    assert comparison.differing == ()


def test_a_time_beyond_the_noise_between_repeats_is_remarked_on() -> None:
    """Both ways, with both medians; within the noise nothing is said; the result stays."""

    def taking(seconds: float, jitter: float) -> Script:
        def reply(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
            answer = affected(arm, cell, probe)
            answer.prefill_s = seconds + jitter * ((probe.repeat or 0) % 3)
            return answer

        return reply

    six = plan(experiment(repeats=6))
    slow = judged(taking(SLOW_S, 0.001), planned=six)
    fast = judged(taking(FAST_S, 0.001), planned=six)
    unsteady = judged(taking(FAST_S, 0.020), planned=six)
    comparison = compare_runs(slow, fast)

    assert comparison.result == "unchanged"
    assert "Prefill time is beyond the noise between repeats in 6 of 6 cells, slower in 6." in (
        comparison.sentence
    )
    change = next(entry for entry in comparison.changes if entry.what == "prefill time")
    assert (change.run, change.baseline) == ("41.0 ms, slower", "11.0 ms")
    assert compare_runs(unsteady, fast).changes == ()


def test_digests_are_compared_only_where_the_references_agree() -> None:
    """Rule 15: one reference digest on both starts, or nothing is said."""

    def shifted(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = affected(arm, cell, probe)
        if cell.kind == "contaminated" and reply.cached:
            reply.lists = moved(0, 0.25)
        return reply

    key = ("contaminated", "one")
    agreeing = {key: frozenset({"d"})}
    moved_digests = compare_runs(
        judged(shifted, references=agreeing), judged(affected, references=agreeing)
    )
    elsewhere = compare_runs(
        judged(shifted, references=agreeing), judged(affected, references={key: frozenset({"e"})})
    )
    split = {key: frozenset({"d", "e"})}

    assert (moved_digests.result, moved_digests.digests_compared) == ("changed", 1)
    assert [change.what for change in moved_digests.changes] == ["digests"]
    assert (elsewhere.result, elsewhere.digests_compared) == ("unchanged", 0)
    assert compare_runs(judged(references=split), judged(references=split)).digests_compared == 0


def test_an_infrastructure_failure_never_looks_like_a_regression() -> None:
    """An arm that failed is exit 4, whatever its cells lack."""
    comparison = compare_runs(judged(failed="contaminated"), judged())

    assert (comparison.result, comparison.exit_code) == ("failed", 4)
    assert "contaminated did not complete" in comparison.sentence


def test_a_baseline_that_was_inconclusive_says_nothing() -> None:
    """It is no standard to hold a run to."""

    def cut_short(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = affected(arm, cell, probe)
        reply.lost = (arm.name, cell.place, probe.repeat) == ("clean", "measured", 4)
        return reply

    comparison = compare_runs(judged(), judged(cut_short))

    assert (comparison.result, comparison.exit_code) == ("inconclusive", 3)


def without(run: JudgedRun, *, arms: int = 0, cells: int = 0) -> JudgedRun:
    """The run with a verdict on fewer arms, or on fewer cells of its first arm."""
    first, *others = run.verdict.arms[arms:]
    cut = first.model_copy(update={"cells": first.cells[cells:]})
    return replace(run, verdict=run.verdict.model_copy(update={"arms": (cut, *others)}))


@pytest.mark.parametrize(("arms", "cells", "lacking"), [(1, 0, 2), (0, 1, 1)])
def test_cells_that_only_one_run_has_a_verdict_on_are_not_equal(
    arms: int, cells: int, lacking: int
) -> None:
    """Whichever of the two lacks them: they are counted, and the first one is named."""
    whole = judged()
    cut = without(whole, arms=arms, cells=cells)

    for comparison in (compare_runs(whole, cut), compare_runs(cut, whole)):
        assert (comparison.result, comparison.exit_code) == ("inconclusive", 3)
        assert (len(comparison.not_compared), comparison.cells) == (lacking, 6 - lacking)
        assert (
            f"{lacking} planned cells were not compared, since a run has no verdict on them;"
            f" first: {comparison.not_compared[0]}." in comparison.sentence
        )
        assert comparison.not_compared[0].startswith("clean, ")


def test_a_baseline_that_failed_says_nothing() -> None:
    """An arm that was never measured looks like any other without a verdict."""
    comparison = compare_runs(judged(), judged(failed="clean"))

    assert (comparison.result, comparison.exit_code) == ("inconclusive", 3)
    assert "The baseline is no standard: Failed: clean did not complete." in comparison.sentence


def test_the_command_compares_a_run_with_a_copy_of_it(call: Call, tmp_path: Path) -> None:
    """Evidence of a real vLLM, in another folder: unchanged, digests of all cells compared."""
    shutil.copytree(FOUR_ARM, tmp_path / "copy")
    code, output, _ = call("compare", tmp_path / "copy", FOUR_ARM)
    assert code == 0
    assert "digests were set side by side in 30 of 30 cells" in output
    assert "30 cells are as in the baseline." in output

    code, output, _ = call("compare", tmp_path / "copy", FOUR_ARM, "--json")
    told = json.loads(output)
    assert (code, told["result"], told["exit_code"]) == (0, "unchanged", 0)


def test_the_command_refuses_another_experiment_with_the_fields_named(call: Call) -> None:
    """Exit 2, each field with both values."""
    code, output, _ = call("compare", FOUR_ARM, FOUR_ARM.with_name("cpu-workarounds"))

    assert code == 2
    assert "experiment" in output
    assert "workarounds" in output
    assert output.splitlines()[-1].startswith("Not comparable: experiment, repeats, ")
    assert " differ. Not recorded by both, so not held against each other: " in output


def test_a_patched_arm_that_diverges_again_is_a_regression_of_real_evidence() -> None:
    """The patched arm's answers replaced by the control's, as if its patch did nothing."""
    baseline = judged_run(FOUR_ARM)
    arms = {arm.arm: arm for arm in baseline.verdict.arms}
    broken = arms["contaminated"].model_copy(
        update={
            "arm": "patched",
            "cells": tuple(
                cell.model_copy(update={"arm": "patched"}) for cell in arms["contaminated"].cells
            ),
        }
    )
    verdict = baseline.verdict.model_copy(
        update={"arms": tuple(broken if a.arm == "patched" else a for a in baseline.verdict.arms)}
    )
    run = JudgedRun(
        name="broken", plan=baseline.plan, verdict=verdict, pins=baseline.pins,
        patches=baseline.patches, references=baseline.references, cold=baseline.cold,
    )  # fmt: skip
    comparison = compare_runs(run, baseline)

    assert (comparison.result, comparison.exit_code) == ("regressed", 1)
    assert comparison.sentence.startswith("Regressed: 6 × verdict; first: patched, ")


def test_the_command_refuses_another_models_files_and_another_torch(
    call: Call, tmp_path: Path
) -> None:
    """What each arm's server was made of, where the runs recorded it."""
    baseline = FOUR_ARM.with_name("docker-cpu-three-arm")
    shutil.copytree(baseline, tmp_path / "copy")
    for file in (tmp_path / "copy").glob("arms/*/provenance.json"):
        made = json.loads(file.read_text())
        made["model"]["list_sha256"] = 64 * "0"
        made["installation"]["packages"]["torch"] = "9.9.9"
        file.write_text(json.dumps(made))

    code, output, _ = call("compare", tmp_path / "copy", baseline)

    assert code == 2
    assert "Not comparable: model files, torch differ." in output


def test_a_run_in_which_one_arm_does_not_say_its_model_leaves_it_unknown(
    call: Call, tmp_path: Path
) -> None:
    """Unknown is not equal, and forbids nothing."""
    baseline = FOUR_ARM.with_name("docker-cpu-three-arm")
    shutil.copytree(baseline, tmp_path / "copy")
    (tmp_path / "copy" / "arms" / "clean" / "provenance.json").unlink()

    code, output, _ = call("compare", tmp_path / "copy", baseline, "--json")
    told = json.loads(output)

    assert code == 0
    assert "model files" in {field["field"] for field in told["unknown"]}


@pytest.mark.parametrize(
    ("before", "now", "effect"),
    [
        ("batch-equal", "batch-dependent", "worse"),
        ("batch-dependent", "batch-equal", "other"),
        ("inconclusive", "batch-dependent", "cannot say"),
    ],
)
def test_an_answer_that_begins_to_depend_on_its_company_is_worse(
    before: str, now: str, effect: str
) -> None:
    """As a stable cell that diverges; a cell that was not tested says nothing."""
    cell = Scenario().judge().arms[0].cells[0]
    old, new = (
        type(cell)(
            **({name: getattr(cell, name) for name in type(cell).model_fields} | {"verdict": word})
        )
        for word in (before, now)
    )

    (change,) = [change for change in cell_changes(new, old) if change.what == "verdict"]

    assert change.effect == effect
