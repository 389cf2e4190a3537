"""Whole runs, constructed → verdicts. Rule numbers are those of `docs/verdicts.md`."""

import pytest

from orchestrator.model.outcome import Failed
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from tests.answers import PLAIN, moved
from tests.conftest import PROJECT
from tests.definitions import experiment, plan, profile
from tests.scenarios import CACHED, Change, Reply, Scenario, Script, affected, changed, plain

LOGS = PROJECT / "tests" / "fixtures" / "serverlog" / "logs"


def in_measured_contaminated(arm: ArmPlan, cell: CellPlan) -> bool:
    """The cells that most scenarios change."""
    return arm.name == "contaminated" and cell.place == "measured" and cell.document == "one"


def test_the_articles_experiment_is_as_expected() -> None:
    """Contaminated diverges from its references, clean and caching-off do not: exit 0."""
    verdict = Scenario().judge()

    assert [(arm.arm, arm.verdict) for arm in verdict.arms] == [
        ("clean", "stable"), ("contaminated", "diverged"), ("caching-off", "stable"),
    ]  # fmt: skip
    assert (verdict.result, verdict.exit_code) == ("as expected", 0)
    cell = Scenario().cell("contaminated")
    assert cell.attribution == "contamination"
    assert cell.pattern is not None
    assert cell.pattern.variants == "ABBB"
    assert (cell.pattern.reference_before, cell.pattern.reference_after) == ("AA", "AA")
    assert (cell.pattern.repeats, cell.pattern.against_reference) == ("first-differs", "differs")


def test_a_server_without_the_effect_is_not_as_expected() -> None:
    """`reproduce` expects the control to misbehave: exit 1 when it does not."""
    verdict = Scenario(script=plain).judge()

    assert (verdict.result, verdict.exit_code) == ("not as expected", 1)
    assert verdict.arms[1].as_expected is False


def unlisted(script: Script) -> Scenario:
    """The same on a profile that nothing is expected of: purpose `check`."""
    return Scenario(script=script, plan=plan(launched=profile(name="unlisted")))


def test_check_says_not_seen_and_counts_what_it_looked_at() -> None:
    """Rule 8: negatives are counted, not claimed."""
    verdict = unlisted(plain).judge()

    assert (verdict.result, verdict.exit_code) == ("not seen", 0)
    assert "not seen in 2 documents × lengths" in verdict.arms[1].reason
    assert any("2 documents × 1 lengths" in line for line in verdict.not_covered)


def test_check_says_affected() -> None:
    """Exit 1: the server is affected."""
    verdict = unlisted(affected).judge()

    assert (verdict.result, verdict.exit_code) == ("affected", 1)


def test_equal_repeats_that_differ_from_the_reference_diverge() -> None:
    """Rule 2, the article's title effect: a look at the repeats alone misses it."""

    def first_too(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if cell.kind == "contaminated" and probe.role == "b" and arm.prefix_caching == "on":
            reply.lists = affected(arm, cell, probe.model_copy(update={"repeat": 2})).lists

    cell = Scenario(script=changed(affected, first_too)).cell("contaminated")

    assert cell.pattern is not None
    assert (cell.pattern.repeats, cell.pattern.against_reference) == ("equal", "differs")
    assert (cell.verdict, cell.attribution) == ("diverged", "contamination")
    assert cell.pattern.difference is not None
    assert cell.pattern.difference.left not in {probe.probe for probe in cell.probes}


def test_without_references_equal_repeats_are_inconclusive() -> None:
    """Rule 2: with the reference unknown nothing is stable."""
    scenario = Scenario(script=plain, plan=plan(experiment(reference_cells=False)))

    assert scenario.cell("clean").verdict == "inconclusive"
    assert any("reference cells out" in line for line in scenario.judge().not_covered)


def test_without_references_a_split_diverges_but_is_not_attributed() -> None:
    """Rules 2 and 5: the repeats suffice for the verdict, not for the cause."""
    cell = Scenario(plan=plan(experiment(reference_cells=False))).cell("contaminated")

    assert (cell.verdict, cell.attribution) == ("diverged", "unattributed")


def test_a_reference_that_moved_voids_the_start() -> None:
    """Rule 1: what happened in between cannot be told from what is measured."""

    def drift(reply: Reply, arm: ArmPlan, cell: CellPlan, _: ProbePlan) -> None:
        if arm.name == "contaminated" and cell.place == "after" and cell.document == "two":
            reply.lists = moved(1)

    scenario = Scenario(script=changed(affected, drift))

    assert scenario.cell("contaminated", "one").verdict == "inconclusive"
    assert "reference before differs" in scenario.cell("contaminated", "one").reason
    assert scenario.judge().exit_code == 3


def test_a_reference_is_compared_in_its_own_hit_state() -> None:
    """A reference whose cold and cached runs differ speaks for each hit state apart."""

    def cold_differs(reply: Reply, arm: ArmPlan, _: CellPlan, probe: ProbePlan) -> None:
        if arm.prefix_caching == "on" and probe.role == "b" and reply.cached == 0:
            reply.lists = moved(2)

    cell = Scenario(script=changed(plain, cold_differs)).cell("contaminated")

    assert cell.pattern is not None
    assert cell.pattern.against_reference == "equal"
    assert cell.pattern.repeats == "first-differs"


def test_different_answers_in_one_hit_state_are_nondeterministic() -> None:
    """Rule 4: that is not contamination."""

    def flicker(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if in_measured_contaminated(arm, cell) and probe.repeat == 3:
            reply.lists = moved(1)

    cell = Scenario(script=changed(affected, flicker)).cell("contaminated")

    assert (cell.verdict, cell.attribution) == ("diverged", "nondeterministic")


def test_without_a_caching_off_arm_nothing_is_called_contamination() -> None:
    """Rule 5."""
    scenario = Scenario(plan=plan(arms=["clean", "contaminated"]))

    assert scenario.cell("contaminated").attribution == "unattributed"


def test_a_caching_off_arm_that_is_not_equal_forbids_the_word_contamination() -> None:
    """Rule 5: something else than the cache makes answers differ there."""

    def off_flickers(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if arm.prefix_caching == "off" and cell.place == "measured" and probe.repeat == 2:
            reply.lists = moved(0)

    cell = Scenario(script=changed(affected, off_flickers)).cell("contaminated")

    assert (cell.verdict, cell.attribution) == ("diverged", "unattributed")


def test_a_difference_in_the_very_first_request_only_is_named_so() -> None:
    """Rule 5: without warm-up, the start's first request may stand apart by itself."""
    made = plan(experiment(warm_up=False, reference_cells=False))

    def first(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if arm.name == "clean" and arm.cells[0].id == cell.id and probe.repeat == 1:
            reply.lists = moved(0)

    clean = next(arm for arm in made.arms if arm.name == "clean")
    scenario = Scenario(script=changed(plain, first), plan=made)
    cell = scenario.cell("clean", clean.cells[0].document)

    assert (cell.verdict, cell.attribution) == ("diverged", "first-request")


def test_a_reference_that_holds_the_first_request_is_still_a_reference() -> None:
    """Rule 5: that one answer is left out of it, the rest stands."""
    made = plan(experiment(warm_up=False, reference_repeats=3))

    def first(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if arm.cells[0].id == cell.id and probe.repeat == 1:
            reply.lists = moved(0)

    verdict = Scenario(script=changed(affected, first), plan=made).judge()

    assert (verdict.result, verdict.exit_code) == ("as expected", 0)


def void(change: Change) -> tuple[str, str]:
    """Verdict and reason of the changed cell."""
    cell = Scenario(script=changed(affected, change)).cell("contaminated")
    return cell.verdict, cell.reason


def test_a_first_request_with_hits_breaks_the_isolation_of_its_start() -> None:
    """Rule 3: every cell of that start is inconclusive."""

    def leak(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if in_measured_contaminated(arm, cell) and probe.role == "a":
            reply.cached = CACHED

    scenario = Scenario(script=changed(affected, leak))

    assert "first request under its salt" in scenario.cell("contaminated", "two").reason
    assert scenario.cell("contaminated", "two").verdict == "inconclusive"
    assert scenario.cell("clean").verdict == "stable"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r, a, c, p: _set(r, a, c, cached=0), "nothing was tested"),
        (lambda r, a, c, p: _set(r, a, c, cached=None, hits=0), "does not say its cached tokens"),
        (lambda r, a, c, p: _set(r, a, c, hits=5) if p.repeat == 2 else None, "the counter 5"),
        (lambda r, a, c, p: _set(r, a, c, cached=0) if p.repeat == 4 else None, "evicted"),
        (lambda r, a, c, p: _set(r, a, c, prompt_tokens=39) if p.repeat == 1 else None, "39"),
        (lambda r, a, c, p: _set(r, a, c, running=1) if p.repeat == 2 else None, "were running"),
        (lambda r, a, c, p: _set(r, a, c, lost=True) if p.repeat == 4 else None, "4 of 5 probes"),
        (lambda r, a, c, p: _set(r, a, c, raw=b"<html>") if p.repeat == 4 else None, "no JSON"),
        (lambda r, a, c, p: _set(r, a, c, error="reset") if p.repeat == 4 else None, "b4: reset"),
        (lambda r, a, c, p: _set(r, a, c, finished=2) if p.repeat == 2 else None, "finished 2"),
        (
            lambda r, a, c, p: _set(r, a, c, lacks="preemptions") if p.repeat == 2 else None,
            "preemption counter could not be read",
        ),
        (
            lambda r, a, c, p: _set(r, a, c, lacks="hits") if p.repeat == 2 else None,
            "hit counter could not be read",
        ),
    ],
)
def test_a_gate_that_fails_makes_its_cell_inconclusive(change: Change, told: str) -> None:
    """Rules 4, 6, 9, 12, 13: the reason is in the verdict, with its numbers."""
    verdict, reason = void(change)

    assert verdict == "inconclusive"
    assert told in reason


PREDICTED = profile(vllm_version="0.29.0")
"""A release whose rule was read: every probe has a prediction."""


def test_cached_tokens_other_than_predicted_make_the_cell_inconclusive() -> None:
    """Rule 6: then something else was measured than what was planned."""

    def other(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if in_measured_contaminated(arm, cell) and probe.repeat == 4:
            reply.cached = 2 * CACHED

    as_predicted = Scenario(plan=plan(launched=PREDICTED)).cell("contaminated")
    otherwise = Scenario(script=changed(affected, other), plan=plan(launched=PREDICTED))

    assert (as_predicted.verdict, as_predicted.eligible) == ("diverged", "eligible")
    assert otherwise.cell("contaminated").verdict == "inconclusive"
    assert "32 cached tokens, predicted 16" in otherwise.cell("contaminated").reason
    assert Scenario(script=changed(affected, other)).cell("contaminated").verdict == "diverged"


def test_a_reference_that_is_no_evidence_is_no_reference() -> None:
    """Rules 1 and 5: one side of the bracket is missing, so no cause is named."""

    def broken(reply: Reply, arm: ArmPlan, cell: CellPlan, _: ProbePlan) -> None:
        if arm.name == "contaminated" and cell.place == "before" and cell.document == "one":
            reply.prompt_tokens = 1

    cell = Scenario(script=changed(affected, broken)).cell("contaminated")

    assert cell.pattern is not None
    assert (cell.pattern.reference_before, cell.pattern.reference_after) == (None, "AA")
    assert (cell.verdict, cell.attribution) == ("diverged", "unattributed")


def test_a_cell_that_lost_one_of_its_references_is_not_stable() -> None:
    """Rule 1: equal to the other one, it still does not show that nothing moved in between."""

    def broken(reply: Reply, arm: ArmPlan, cell: CellPlan, _: ProbePlan) -> None:
        if arm.name == "contaminated" and cell.place == "before" and cell.document == "one":
            reply.prompt_tokens = 1

    scenario = Scenario(script=changed(plain, broken))

    assert scenario.cell("contaminated").verdict == "inconclusive"
    assert "its reference before" in scenario.cell("contaminated").reason
    assert scenario.cell("contaminated", "two").verdict == "stable"


def test_a_reference_of_one_answer_speaks_for_every_hit_state() -> None:
    """Also for one in which no reference repeat was served."""

    def other_state(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if in_measured_contaminated(arm, cell) and probe.repeat == 1:
            reply.cached = 8

    assert Scenario(script=changed(plain, other_state)).cell("contaminated").verdict == "stable"


def test_a_hit_state_without_a_counterpart_is_unknown() -> None:
    """Rule 2: a reference whose states differ says nothing about a third state."""

    def third_state(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if arm.name == "contaminated" and cell.place != "measured" and reply.cached == 0:
            reply.lists = moved(2)
        if in_measured_contaminated(arm, cell) and probe.role == "b":
            reply.cached = 8

    cell = Scenario(script=changed(plain, third_state)).cell("contaminated")

    assert cell.pattern is not None
    assert (cell.pattern.repeats, cell.pattern.against_reference) == ("equal", "unknown")
    assert cell.verdict == "inconclusive"


def test_what_is_remarkable_is_said_and_voids_nothing() -> None:
    """Rules 9 and 13: a chosen token that is not the best, a cache of unknown size."""

    def not_best(reply: Reply, arm: ArmPlan, _: CellPlan, __: ProbePlan) -> None:
        if arm.name == "clean":
            reply.chosen = [PLAIN[0][1][0], PLAIN[1][0][0], PLAIN[2][0][0]]

    scenario = Scenario(
        script=changed(affected, not_best), said={"caching-off": {"kv_cache_tokens": None}}
    )
    clean, _, off = scenario.judge().arms

    assert clean.verdict == off.verdict == "stable"
    assert any("[0] are not the most probable" in f.summary for f in clean.findings)
    assert any("how large its KV cache" in f.summary for f in off.findings)
    assert {f.scope for f in (*clean.findings, *off.findings)} == {"remark"}


def _set(reply: Reply, arm: ArmPlan, cell: CellPlan, **values: object) -> None:
    if in_measured_contaminated(arm, cell):
        for name, value in values.items():
            setattr(reply, name, value)


def test_a_gate_that_fails_leaves_the_other_document_alone() -> None:
    """Scope `cell`: what was measured elsewhere on that start still counts."""
    script = changed(affected, lambda r, a, c, p: _set(r, a, c, cached=0))

    assert Scenario(script=script).cell("contaminated", "two").verdict == "diverged"


def test_a_preemption_voids_its_cell_and_all_later_ones() -> None:
    """Rule 13: a preempted request is computed again, in other chunks."""
    made = plan(experiment(seed=1))
    arm = next(entry for entry in made.arms if entry.name == "contaminated")
    first, last = [cell for cell in arm.cells if cell.place == "measured"]

    def preempt(cell_id: str) -> Script:
        return changed(
            affected,
            lambda r, a, c, p: (
                setattr(r, "preemptions", 1)
                if a.name == "contaminated" and c.id == cell_id and p.repeat == 1
                else None
            ),
        )

    early = Scenario(script=preempt(first.id), plan=made)
    late = Scenario(script=preempt(last.id), plan=made)

    assert early.cell("contaminated", last.document).verdict == "inconclusive"
    assert "comes after" in early.cell("contaminated", last.document).reason
    assert late.cell("contaminated", last.document).verdict == "inconclusive"
    assert late.cell("contaminated", first.document).verdict == "diverged"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("0.29.0-cpu-engine-killed.log", "server's log"),
        ("0.29.0-cpu-preemption.log", None),
        ("0.29.0-cpu-caching-on-mtp.log", None),
    ],
)
def test_an_engine_error_in_the_log_voids_its_start(name: str, told: str | None) -> None:
    """Rule 13, on recorded logs; healthy ones void nothing."""
    log = (LOGS / name).read_bytes()
    cell = Scenario(logs={"contaminated": log}).cell("contaminated")

    if told is None:
        assert cell.verdict == "diverged"
    else:
        assert cell.verdict == "inconclusive"
        assert told in cell.reason
    assert Scenario(logs={"contaminated": log}).cell("clean").verdict == "stable"


def test_two_starts_in_one_log_void_everything_on_them() -> None:
    """Rule 13: a server that was started again has another cache."""
    log = (LOGS / "0.29.0-cpu-caching-on-mtp.log").read_bytes()
    cell = Scenario(logs={"contaminated": log + log}).cell("contaminated")

    assert cell.verdict == "inconclusive"


def test_caching_off_needs_the_engines_own_word() -> None:
    """Rule 6: hits of zero alone prove nothing."""
    silent = Scenario(cache_labels={"caching-off": {"enable_prefix_caching": "None"}})
    contrary = Scenario(cache_labels={"caching-off": {"enable_prefix_caching": "True"}})

    unread = changed(
        affected,
        lambda r, a, c, p: setattr(r, "lacks", "hits") if a.name == "caching-off" else None,
    )
    assert "hit counter could not be read, so" in Scenario(script=unread).cell("caching-off").reason
    assert silent.cell("caching-off").verdict == "inconclusive"
    assert "prefix caching" in silent.cell("caching-off").reason
    assert contrary.cell("caching-off").verdict == "inconclusive"


def test_hits_in_the_caching_off_arm_void_it() -> None:
    """Rule 6: the counter speaks, even where the answers say nothing."""

    def hit(reply: Reply, arm: ArmPlan, _: CellPlan, probe: ProbePlan) -> None:
        if arm.prefix_caching == "off" and probe.repeat == 2:
            reply.cached, reply.hits = None, CACHED

    cell = Scenario(script=changed(affected, hit)).cell("caching-off")

    assert cell.verdict == "inconclusive"
    assert "cache that should be off" in cell.reason


def test_caching_off_without_cached_tokens_in_the_answers_still_counts() -> None:
    """Servers write null there; the counter and the engine's word are the proof."""

    def null(reply: Reply, arm: ArmPlan, _: CellPlan, __: ProbePlan) -> None:
        if arm.prefix_caching == "off":
            reply.cached, reply.hits = None, 0

    assert Scenario(script=changed(affected, null)).cell("caching-off").verdict == "stable"


def test_an_order_among_ties_is_no_divergence_and_is_said() -> None:
    """Rule 9: `order-only` is the choice of a sort."""
    tie = [[(7, -0.5), (3, -2.0), (9, -2.0), (4, -3.5)], *map(list, PLAIN[1:])]
    swapped = [[(7, -0.5), (9, -2.0), (3, -2.0), (4, -3.5)], *map(list, PLAIN[1:])]

    def ties(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        late = in_measured_contaminated(arm, cell) and probe.repeat == 3
        reply.lists = swapped if late else tie

    cell = Scenario(script=changed(plain, ties)).cell("contaminated")

    assert cell.verdict == "stable"
    assert "order-only" in cell.reason


def test_the_movement_tells_a_common_shift_from_a_real_one() -> None:
    """Rule 10: when all candidates move by one constant, only the normaliser moved."""

    def shift(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if in_measured_contaminated(arm, cell) and (probe.repeat or 0) > 1:
            reply.lists = [[(t, v - 0.25) for t, v in PLAIN[0]], *map(list, PLAIN[1:])]

    real = Scenario().cell("contaminated").pattern
    common = Scenario(script=changed(plain, shift)).cell("contaminated").pattern

    assert real is not None
    assert real.difference is not None
    assert common is not None
    assert common.difference is not None
    moves, shifted = real.difference.movements[0], common.difference.movements[0]
    assert (moves.shared, moves.moved, moves.max_delta, moves.common_shift) == (4, 1, 0.125, None)
    assert (shifted.moved, shifted.max_relative_delta, shifted.common_shift) == (0, 0.0, -0.25)


def test_a_later_difference_with_other_acceptance_is_confounded() -> None:
    """Rule 11: only the first generated token speaks for the restored state."""

    def later(accepted: int) -> Change:
        def change(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
            if in_measured_contaminated(arm, cell) and (probe.repeat or 0) > 1:
                reply.lists, reply.accepted = moved(2), accepted

        return change

    def timing(accepted: int) -> str:
        seen = Scenario(script=changed(plain, later(accepted))).cell("contaminated").pattern
        assert seen is not None
        assert seen.difference is not None
        return seen.difference.timing

    assert timing(1) == "later, speculation-confounded"
    assert timing(0) == "later"


def test_a_failed_arm_is_a_failure_and_never_equality() -> None:
    """Exit 4; the other arms are judged all the same."""
    failed = Failed(stage="start", error="ServerDiedError: exit code 1")

    def nothing(reply: Reply, arm: ArmPlan, _: CellPlan, __: ProbePlan) -> None:
        reply.lost = arm.name == "caching-off"

    scenario = Scenario(script=changed(affected, nothing), outcomes={"caching-off": failed})
    verdict = scenario.judge()

    assert (verdict.result, verdict.exit_code) == ("failed", 4)
    assert scenario.cell("caching-off").verdict == "inconclusive"
    assert "exit code 1" in scenario.cell("caching-off").reason
    assert scenario.cell("contaminated").verdict == "diverged"


def test_a_definite_bad_answer_outranks_a_failed_arm() -> None:
    """A clean arm that diverges is a result, whatever happened to another arm."""

    def change(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        reply.lost = arm.name == "caching-off"
        if arm.name == "clean" and cell.place == "measured" and probe.repeat == 2:
            reply.lists = moved(0)

    failed = Failed(stage="start", error="x")
    verdict = Scenario(script=changed(affected, change), outcomes={"caching-off": failed}).judge()

    assert verdict.exit_code == 1


def test_mostly_diverged_means_more_than_half() -> None:
    """One of two documents is not most of them."""

    def only_one(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if cell.document == "two":
            reply.lists = plain(arm, cell, probe).lists

    verdict = Scenario(script=changed(affected, only_one)).judge()

    assert verdict.arms[1].diverged == 1
    assert verdict.arms[1].as_expected is False


def test_an_arm_that_never_ended_is_failed() -> None:
    """A run that was killed is judged from what is on disk, without inventing an end for it."""
    scenario = Scenario()
    scenario.outcome = lambda arm: None if arm == "caching-off" else Failed(stage="stop", error="x")  # type: ignore[method-assign]

    assert scenario.judge().exit_code == 4


def test_verdicts_name_what_they_do_not_cover() -> None:
    """Rule 16."""
    told = " ".join(Scenario().judge().not_covered)

    for word in ("top 4", "Other starts", "Concurrent", "patched", "Mamba cache mode"):
        assert word in told


def test_the_plan_type_is_what_scenarios_are_made_of() -> None:
    """Every arm of the small plan has the cells that the scenarios rely on."""
    made: Plan = plan()

    assert [len(arm.cells) for arm in made.arms] == [6, 6, 6]
