"""Requests that are sent at once: a verdict of their own, and its gates."""

from collections.abc import Iterator

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.model.exchange import Exchange
from orchestrator.model.experiment import Experiment
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from orchestrator.model.verdict import CellVerdict, RunVerdict
from orchestrator.reporting.markdown import markdown
from tests.answers import PLAIN, moved
from tests.definitions import experiment, plan
from tests.scenarios import Reply, Scenario, Script

SERIAL_STEPS, SHARED_STEPS = 10, 12


def company(**changes: object) -> Experiment:
    """Two volleys of four, beside a serial arm."""
    values: dict[str, object] = {
        "documents": ["one"],
        "repeats": 2,
        "arms": [
            {"name": "alone", "cell": "reference"},
            {"name": "company", "cell": "reference", "concurrency": 4},
        ],
        "expectations": {},
    }
    return experiment(**(values | changes))


def alike(_: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
    """Batches whatever comes together, and always answers the same."""
    if cell.concurrency == 1:
        cached = 16 if (probe.repeat or 0) > 1 else 0
        return Reply(lists=PLAIN, cached=cached, steps=SERIAL_STEPS)
    first_of_volley = (probe.repeat or 0) % 4 == 1
    return Reply(lists=PLAIN, cached=0, steps=SHARED_STEPS if first_of_volley else 0)


def dependent(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
    """The third of each volley gets another answer."""
    reply = alike(arm, cell, probe)
    if cell.concurrency > 1 and (probe.repeat or 0) % 4 == 3:
        reply.lists = moved(1)
    return reply


class Together(Scenario):
    """The counters of a volley are read once, when all of it is counted."""

    def exchanges(self, arm: str) -> Iterator[tuple[Exchange, str]]:
        """Each volley is told with the page that was read after it."""
        sizes = {
            probe.id: cell.concurrency
            for planned in self.plan.arms
            if planned.name == arm
            for cell in planned.cells
            for probe in cell.probes
        }
        volley: list[Exchange] = []
        for exchange, page in super().exchanges(arm):
            volley.append(exchange)
            if len(volley) == sizes.get(exchange.times.probe.id, 1):
                yield from ((entry, page) for entry in volley)
                volley = []


def verdict(script: Script = alike, asked: Experiment | None = None) -> RunVerdict:
    """Of a whole run."""
    return Together(script=script, plan=plan(asked or company())).judge()


def cell_of(judged: RunVerdict) -> CellVerdict:
    """The one that was sent at once."""
    return judged.arms[1].cells[0]


def test_every_request_of_a_volley_has_a_salt_of_its_own() -> None:
    """So that nothing is restored, and only the company differs from a lone request."""
    planned: Plan = plan(company())
    (measured,) = [cell for cell in planned.arms[1].cells if cell.concurrency > 1]
    salts = [probe.salt for probe in measured.probes]

    assert len(measured.probes) == 8
    assert len(set(salts)) == 8
    assert len({probe.prompt for probe in measured.probes}) == 1
    assert measured.prediction is None


def test_equal_answers_of_shared_steps_are_batch_equal() -> None:
    """Twelve steps for four requests that take ten each: they were computed together."""
    judged = verdict()
    cell = cell_of(judged)

    assert (cell.verdict, judged.arms[1].batch_equal) == ("batch-equal", 1), cell.reason
    assert [(v.requests, v.steps, v.lone_steps) for v in cell.volleys] == [(4, 12, 40)] * 2
    assert judged.result == "not seen"


def test_an_answer_that_differs_in_company_is_batch_dependent() -> None:
    """Which of them, and against the lone answers of the same start."""
    judged = verdict(dependent)
    cell = cell_of(judged)

    assert cell.verdict == "batch-dependent"
    assert cell.pattern is not None
    assert (cell.pattern.variants, cell.pattern.reference_before) == ("AABAAABA", "AA")
    assert "2 of 8 answers in company differ" in cell.reason
    assert cell.attribution is None
    assert (judged.result, judged.exit_code) == ("batch-dependent", 1)


def test_the_serial_arms_verdict_does_not_mix_with_it() -> None:
    """One start at a time is stable, though company is not; and no count holds both."""
    alone, together = verdict(dependent).arms

    assert (alone.verdict, alone.stable, alone.batch_dependent) == ("stable", 1, 0)
    assert (together.verdict, together.diverged, together.batch_dependent) == (
        "batch-dependent", 0, 1,
    )  # fmt: skip


def test_equal_answers_of_a_server_that_serves_one_at_a_time_test_nothing() -> None:
    """As many steps as lone requests take: there was no company."""

    def one_at_a_time(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = alike(arm, cell, probe)
        reply.steps = SERIAL_STEPS
        return reply

    cell = cell_of(verdict(one_at_a_time))

    assert cell.verdict == "inconclusive"
    assert "one request after the other" in cell.reason


def test_equal_answers_without_a_count_of_steps_are_inconclusive() -> None:
    """Missing is not zero, and not shared."""

    def uncounted(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = alike(arm, cell, probe)
        reply.lacks = "steps"
        return reply

    assert "could not be read" in cell_of(verdict(uncounted)).reason


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"cached": 16}, "alone under its salt, yet 16 tokens came from the cache (rule 3)"),
        ({"cached": None, "hits": 0}, "does not say its cached tokens (rule 6)"),
        ({"prompt_tokens": 39}, "counted 39 prompt tokens, 40 planned (rule 12)"),
        ({"preemptions": 1}, "volley 1: 1 preemptions (rule 13)"),
        ({"finished": 2}, "volley 1: the server finished 5 requests, not 4 (rule 13)"),
        ({"error": "ReadTimeout: after 5 s"}, "ReadTimeout: after 5 s"),
    ],
)
def test_a_volley_that_is_no_evidence_says_why(broken: dict[str, object], told: str) -> None:
    """Each gate by itself, on the second request of the first volley."""

    def script(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = dependent(arm, cell, probe)
        if cell.concurrency > 1 and probe.repeat == 2:
            for name, value in broken.items():
                setattr(reply, name, value)
        return reply

    cell = cell_of(verdict(script))

    assert cell.verdict == "inconclusive"
    assert told in cell.reason


def test_equal_volleys_before_a_preempted_one_are_not_batch_equal() -> None:
    """The reference after them comes after the preemption, and one alone says nothing of drift."""

    def script(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = alike(arm, cell, probe)
        if cell.concurrency > 1 and cell is arm.cells[3] and probe.repeat == 2:
            reply.preemptions = 1
        return reply

    earlier, preempted = verdict(script, company(documents=["one", "two"])).arms[1].cells

    assert [earlier.verdict, preempted.verdict] == ["inconclusive"] * 2
    assert "only one reference counts" in earlier.reason
    assert "volley 1: 1 preemptions" in preempted.reason
    assert preempted.pattern is not None
    assert preempted.pattern.variants == "AAAAAAAA"


def test_nothing_comes_before_b_where_company_is_measured() -> None:
    """A contaminated cell with concurrency would ask two questions at once."""
    arms = [{"name": "both", "cell": "contaminated", "concurrency": 2}]

    with pytest.raises((DefinitionError, ValueError), match="needs cell"):
        company(arms=arms)


def test_the_report_has_a_section_of_its_own() -> None:
    """Volleys apart, steps beside those of lone requests, latencies, the verdict."""
    judged = verdict(dependent)
    text = markdown(plan(company()), judged, command="vllm-arms run concurrency")

    assert "## Sent at once" in text
    assert "`AABA AABA`" in text
    assert "12, 12 (alone: 40)" in text
    assert "Other company" in text
    assert "## Sent at once" not in markdown(
        plan(experiment()), Scenario().judge(), command="vllm-arms run small"
    )
