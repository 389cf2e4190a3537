"""Runs as JUnit XML: which case passes, fails, is skipped, or is an error."""

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase

from orchestrator.model.outcome import Completed, Failed, Outcome
from orchestrator.model.plan import ArmPlan, CellPlan, ProbePlan
from orchestrator.reporting.junit import junit
from tests.definitions import experiment, plan
from tests.scenarios import Reply, Scenario, affected, plain
from tests.test_company import Together, alike, company, dependent


def cases(scenario: Scenario) -> dict[tuple[str, str], TestCase]:
    """By arm and case, read back by the library from the text."""
    outcomes = {arm.name: scenario.outcome(arm.name) for arm in scenario.plan.arms}
    text = junit(scenario.judge(), outcomes)
    return {
        (suite.name, case.name): case
        for suite in JUnitXml.fromstring(text.encode())
        for case in suite
    }


def test_a_run_as_expected_passes_with_a_case_for_each_arm_and_cell() -> None:
    """Diverging where that is expected is no failure."""
    told = cases(Scenario())

    assert set(told) == {
        ("clean", "arm"), ("clean", "one/measured"), ("clean", "two/measured"),
        ("contaminated", "arm"),
        ("contaminated", "one/a31/measured"), ("contaminated", "two/a31/measured"),
        ("caching-off", "arm"),
        ("caching-off", "one/a31/measured"), ("caching-off", "two/a31/measured"),
    }  # fmt: skip
    assert all(case.is_passed for case in told.values())


def test_an_arm_that_is_not_as_expected_fails_and_so_does_its_cell() -> None:
    """A clean arm in which one cell diverges."""

    def script(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = affected(arm, cell, probe)
        if arm.name == "clean" and cell.document == "one" and cell.place == "measured":
            reply.lists = affected(arm, cell, probe).lists[:2]
        return reply

    told = cases(Scenario(script=script))

    assert [type(result) for result in told["clean", "arm"].result] == [Failure]
    assert [type(result) for result in told["clean", "one/measured"].result] == [Failure]
    assert told["clean", "two/measured"].is_passed


def test_a_check_that_finds_the_effect_fails() -> None:
    """As its exit code does."""
    checked = plan(experiment(expectations={}))
    told = cases(Scenario(plan=checked))

    assert told["contaminated", "arm"].result[0].type == "affected"
    assert told["clean", "arm"].is_passed


def test_a_cell_of_a_mostly_diverging_arm_is_no_failure_by_itself() -> None:
    """The expectation is about the arm."""
    told = cases(Scenario(script=plain))

    assert isinstance(told["contaminated", "arm"].result[0], Failure)
    assert all(
        case.is_passed
        for (arm, name), case in told.items()
        if arm == "contaminated" and name != "arm"
    )


def test_what_is_inconclusive_is_skipped_with_its_reason() -> None:
    """It neither passed nor failed: nothing was tested."""

    def silent(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = affected(arm, cell, probe)
        reply.cached = None
        return reply

    told = cases(Scenario(script=silent))

    for arm in ("clean", "contaminated"):
        results = [case.result for (name, _), case in told.items() if name == arm]
        assert [[type(entry) for entry in result] for result in results] == [[Skipped]] * 3
    assert "inconclusive" in told["contaminated", "arm"].result[0].message


def test_an_arm_that_did_not_complete_is_an_error() -> None:
    """With the stage, and with nothing in it that XML cannot hold."""
    failed: Outcome = Failed(stage="wait", error="ServerDiedError: \x1b[31m<killed>\x00")
    told = cases(Scenario(outcomes={"clean": failed, "caching-off": Completed()}))
    (result,) = told["clean", "arm"].result

    assert isinstance(result, Error)
    assert result.type == "failed at wait"
    assert result.message == "ServerDiedError: \ufffd[31m<killed>\ufffd"
    assert told["contaminated", "arm"].is_passed


def test_a_check_that_finds_answers_to_depend_on_company_fails_by_that_name() -> None:
    """The serial arm beside it passes."""
    told = cases(Together(script=dependent, plan=plan(company())))

    assert [told["company", name].result[0].type for name in ("arm", "one/measured")] == [
        "batch-dependent"
    ] * 2
    assert told["alone", "arm"].is_passed


def test_an_expectation_of_the_arm_is_no_expectation_of_each_cell() -> None:
    """One document's answers depend on their company and the other's do not, as expected."""

    def script(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        return (dependent if cell.document == "one" else alike)(arm, cell, probe)

    def of(expected: str) -> dict[tuple[str, str], TestCase]:
        asked = company(documents=["one", "two"], expectations={"listed": {"company": expected}})
        return cases(Together(script=script, plan=plan(asked)))

    assert all(case.is_passed for case in of("batch-dependent").values())
    failed = {name for name, case in of("batch-equal").items() if not case.is_passed}
    assert failed == {("company", "arm"), ("company", "one/measured")}
