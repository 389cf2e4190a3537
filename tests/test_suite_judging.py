"""What a suite's answers come to: digests, agreement, and scores where there are any."""

import json

import pytest

from orchestrator.model.observation import FLOOR
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from orchestrator.model.verdict import ArmVerdict
from orchestrator.reporting.markdown import markdown
from tests.answers import moved
from tests.definitions import profile
from tests.scenarios import Lists, Reply
from tests.suites import SuiteScenario, caching, of_item, right_text, suite_plan

TRAINED = profile(model_trained=True)


def polluted(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
    """What the cache keeps of a shared document moves the second item's answers."""
    reply = caching(arm, cell, probe)
    if cell.shares_salt and cell.document == "one.2" and arm.prefix_caching == "on":
        reply.cached = 16
        reply.lists = of_item("one.2", moved(0))
    return reply


def judged(**options: object) -> dict[str, ArmVerdict]:
    """By arm."""
    return {arm.arm: arm for arm in SuiteScenario(**options).judge().arms}  # type: ignore[arg-type]  # by name


def report(scenario: SuiteScenario) -> str:
    """As `report.md`."""
    return markdown(scenario.plan, scenario.judge(), command="vllm-arms run small-suite")


def test_a_server_without_the_effect_is_stable_item_by_item() -> None:
    """Every item is a measured cell, and nothing is said to have moved."""
    for arm in judged().values():
        assert (arm.verdict, arm.stable) == ("stable", 4), arm.reason
        assert [item.digests_moved for item in arm.items] == [False] * 4
        assert {item.texts for item in arm.items} == {"AAA"}


def test_an_item_that_another_one_moved_is_contamination() -> None:
    """In the arms that share the document, and in them alone; with what moved."""
    arms = judged(script=polluted)
    (cell,) = [cell for cell in arms["shared"].cells if cell.verdict == "diverged"]

    assert arms["untouched"].verdict == arms["off"].verdict == "stable"
    assert cell.document == "one.2"
    assert cell.attribution == "contamination"
    assert cell.pattern is not None
    assert (cell.pattern.variants, cell.pattern.reference_before) == ("BBB", "A")
    assert cell.pattern.difference is not None
    assert cell.pattern.difference.first_token == 0
    assert [i.item for i in arms["shared"].items if i.digests_moved] == ["one.2"]


def test_an_item_that_moves_alone_under_its_salt_is_nobodys_contamination() -> None:
    """Its document is untouched, so no other item can be to blame."""

    def restless(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = caching(arm, cell, probe)
        if arm.name == "untouched" and cell.document == "two.1" and reply.cached:
            reply.lists = of_item("two.1", moved(1))
        return reply

    (cell,) = [c for c in judged(script=restless)["untouched"].cells if c.verdict == "diverged"]

    assert cell.attribution == "unattributed"
    assert "no other item" in cell.reason


def test_a_shared_salt_may_be_warm_and_any_other_may_not() -> None:
    """The first run of an item that shares its document may hit; an untouched one's must not."""

    def warm(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = caching(arm, cell, probe)
        if arm.prefix_caching == "on" and cell.place == "measured":
            reply.cached = 16
        return reply

    arms = judged(script=warm)

    assert arms["shared"].verdict == "stable"
    assert arms["untouched"].verdict == "inconclusive"
    assert "rule 3" in arms["untouched"].reason


def test_a_prompt_that_is_rendered_otherwise_is_no_evidence() -> None:
    """The token ids of a chat are the answer's, and must be the same in every run."""
    scenario = SuiteScenario()
    plain = scenario.body_of

    def rendered(probe: ProbePlan, reply: Reply) -> bytes:
        answer = json.loads(plain(probe, reply))
        answer["prompt_token_ids"].append(probe.repeat if probe.prompt == "two.2" else 0)
        return json.dumps(answer).encode()

    scenario.body_of = rendered  # type: ignore[method-assign]  # the scenario's own answer, changed
    arm = scenario.judge().arms[0]
    (cell,) = [cell for cell in arm.cells if cell.verdict == "inconclusive"]

    assert cell.document == "two.2"
    assert "3 different token sequences (rule 12)" in cell.reason


def test_scores_are_withheld_unless_the_profile_says_that_the_model_is_trained() -> None:
    """Right texts of random weights are no quality, and no number says so."""
    random, trained = SuiteScenario(), SuiteScenario(plan=suite_plan(launched=TRAINED))

    assert {item.scores for arm in random.judge().arms for item in arm.items} == {None}
    assert all(pair.grades_differ is None for pair in random.judge().suite)
    assert "random weights: agreement only" in report(random)
    assert "right" not in report(random).partition("## Cells")[0].replace("right or wrong", "")
    assert "12 right, 0 wrong, 0 missing, 0 unreadable of 12" in report(trained)
    assert "Quality" in " ".join(random.judge().not_covered)
    assert "Quality" not in " ".join(trained.judge().not_covered)


def test_texts_that_differ_are_reported_and_are_no_verdict() -> None:
    """Letters, majority and the field that moved; the digests stay the only evidence."""

    def third_is_wrong(name: str, run: int) -> str:
        return '{"letters": "other!"}' if (name, run) == ("one.1", 3) else right_text(name, run)

    plan = suite_plan(launched=TRAINED)
    arm = judged(plan=plan, text=third_is_wrong)["untouched"]
    item = next(entry for entry in arm.items if entry.item == "one.1")

    assert arm.verdict == "stable"
    assert item.texts == "AAB"
    assert item.majority == right_text("one.1", 1)
    assert item.fields_moved == ("letters",)
    assert item.scores is not None
    assert item.scores[0].grades == ("right", "right", "wrong")


def test_two_arms_are_set_beside_each_other_item_by_item() -> None:
    """Digests where the references are bit-identical: here, which items another order moved."""
    verdict = SuiteScenario(script=polluted).judge()
    pairs = {(pair.left, pair.right): pair for pair in verdict.suite}

    assert len(pairs) == 6
    beside = pairs["untouched", "shared"]
    assert beside.digests_comparable
    assert beside.digests_differ == ("one.2",)
    assert beside.texts_differ == ()
    assert pairs["shared", "shuffled"].digests_differ == ()


def test_starts_whose_references_differ_have_no_comparable_digests() -> None:
    """Another stack gives other bits; then only texts and grades are set beside each other."""

    def other_stack(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = caching(arm, cell, probe)
        if arm.name == "off":
            reply.lists = of_item(cell.document, moved(2))
        return reply

    verdict = SuiteScenario(script=other_stack, plan=suite_plan(launched=TRAINED)).judge()
    pair = next(entry for entry in verdict.suite if entry.right == "off")

    assert not pair.digests_comparable
    assert pair.digests_differ is None
    assert pair.references_differ == ("one.1", "one.2", "two.1", "two.2")
    assert pair.grades_differ == ()
    assert "not comparable: references of 4 of 4 items differ" in report(
        SuiteScenario(script=other_stack, plan=suite_plan(launched=TRAINED))
    )


@pytest.mark.parametrize("plan", [suite_plan(), suite_plan(launched=TRAINED)])
def test_a_run_that_lacks_an_answer_scores_nothing_of_that_item(plan: Plan) -> None:
    """Two of three runs are no suite's item; the others stand."""

    def lost(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = caching(arm, cell, probe)
        reply.lost = cell.document == "two.2" and probe.repeat == 2
        return reply

    arm = judged(script=lost, plan=plan)["untouched"]

    assert [item.item for item in arm.items] == ["one.1", "one.2", "two.1"]
    assert arm.inconclusive == 1


def test_a_token_that_the_schema_forbids_takes_no_part_in_a_movement() -> None:
    """It stands at -9999 in one answer or both: it hides no small move, and none is counted."""
    step = 2**-10  # less than four half steps of a float32 near 9999

    def lists(second: float, third: float = FLOOR) -> Lists:
        first = [(7, -0.5), (3, -1.25 - second), (9, third), (4, FLOOR)]
        return [first, *of_item("one.1")[1:]]

    def masked(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = caching(arm, cell, probe)
        moves = cell.shares_salt and cell.document == "one.2"
        reply.lists = lists(step, third=-2.0) if moves else lists(0.0)
        return reply

    cell = next(c for c in judged(script=masked)["shared"].cells if c.document == "one.2")

    assert cell.verdict == "diverged"
    assert cell.pattern is not None
    assert cell.pattern.difference is not None
    first = cell.pattern.difference.movements[0]
    assert (first.shared, first.moved, first.max_delta) == (2, 1, step)
