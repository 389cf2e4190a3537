"""The program that repeats a cell: which cell, and what it makes of answers."""

import json

import pytest

from orchestrator.adapters.standalone import repeat_cell
from orchestrator.comparing import Repeat, VariantLetters
from orchestrator.digest import digests
from orchestrator.errors import RunFolderError
from orchestrator.model.plan import ArmPlan, CellPlan, ProbePlan
from orchestrator.reporting.repeating import repeatable_cell
from tests.answers import PLAIN, TOP, body, moved, observation
from tests.definitions import experiment, plan
from tests.scenarios import Reply, Scenario, affected, plain
from tests.suites import SuiteScenario, suite_plan
from tests.test_company import Together, company, dependent
from tests.test_suite_judging import polluted


def test_a_run_without_a_diverging_cell_has_nothing_to_repeat() -> None:
    """A clear error, and no file."""
    made = plan()

    with pytest.raises(RunFolderError, match=r"no cell diverged, so --repro has nothing to repeat"):
        repeatable_cell(made, Scenario(script=plain, plan=made).judge(), run="r")


def test_a_suite_cannot_be_repeated_and_says_why() -> None:
    """Its prompts are chats that the server renders: there are no token ids to write down."""
    made = suite_plan()
    judged = SuiteScenario(script=polluted, plan=made).judge()
    assert any(arm.diverged for arm in judged.arms)

    with pytest.raises(
        RunFolderError, match=r"^r: it is a suite, whose prompts the server renders"
    ):
        repeatable_cell(made, judged, run="r")


def test_answers_that_depend_on_their_company_cannot_be_repeated_and_say_why() -> None:
    """The program sends one request at a time, so it could never show them."""
    made = plan(company())
    judged = Together(script=dependent, plan=made).judge()
    assert judged.arms[1].batch_dependent

    with pytest.raises(RunFolderError, match=r"one request at a time, so it cannot repeat"):
        repeatable_cell(made, judged, run="r")


def test_the_cell_to_repeat_is_the_controls_and_attributed() -> None:
    """Not the first that differs, but the one that says most."""
    made = plan(experiment(control="contaminated"))

    def reply(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        answer = affected(arm, cell, probe)
        if arm.name == "clean" and cell.place == "measured" and probe.repeat == 3:
            answer.lists = moved(2)
        return answer

    cell = repeatable_cell(made, Scenario(script=reply, plan=made).judge(), run="r")

    assert (cell.arm, cell.sequence) == ("contaminated", ("a", "b", "b", "b", "b"))
    assert cell.found.letters == "AA | ABBB | AA"
    assert cell.found.cached_tokens == (0, 16, 16, 16)
    assert len(cell.prompts["b"]) == 40


ANSWERS = {
    "plain": PLAIN,
    "moved": moved(1),
    "other order": tuple(tuple(reversed(entries)) for entries in PLAIN),
    "tie at the cut": (*PLAIN[:2], (*PLAIN[2][:2], (3, -4.0), (5, -4.0))),
    "the same tie": (*PLAIN[:2], (*PLAIN[2][:2], (3, -4.0), (6, -4.0))),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_program_has_our_digest(name: str) -> None:
    """Its own few lines and the package's give one number."""
    lists = ANSWERS[name]
    theirs = repeat_cell.read("b", json.loads(body(lists, chosen=[7, 2, 1])), TOP)

    ours = observation(lists, chosen=[7, 2, 1])
    assert repeat_cell.digest(theirs) == digests(ours).id_order


def test_the_program_has_our_letters() -> None:
    """Order and ties at the cut are no difference; a moved candidate is one."""
    ours = [
        Repeat(
            probe=name,
            observation=observation(lists, chosen=[7, 2, 1]),
            cached_tokens=0,
            accepted_tokens=None,
        )
        for name, lists in ANSWERS.items()
    ]
    theirs = [
        repeat_cell.read("b", json.loads(body(lists, chosen=[7, 2, 1])), TOP)
        for lists in ANSWERS.values()
    ]

    assert repeat_cell.Letters().of(theirs) == VariantLetters().of(ours) == "ABACC"


def answers(*entries: tuple[str, int | None]) -> list[repeat_cell.Answer]:
    """Answers to B, by name of their lists and with their cached tokens."""
    return [
        repeat_cell.read("b", json.loads(body(ANSWERS[name], cached=cached, chosen=[7, 2, 1])), TOP)
        for name, cached in entries
    ]


COLD, HIT = ("plain", 0), ("plain", 16)
CELL = {"block_size_tokens": 16, "found": {"cached_tokens": [0, 16]}}
SERVER = repeat_cell.Server(version="1", model="m", block=16, caching=True)
OFF = repeat_cell.Server(version="1", model="m", block=16, caching=False)
OTHER_BLOCK = repeat_cell.Server(version="1", model="m", block=32, caching=True)


@pytest.mark.parametrize(
    ("server", "before", "measured", "after", "code", "said"),
    [
        (SERVER, [COLD, HIT], [COLD, HIT], [COLD, HIT], 0, "NOT SEEN"),
        (SERVER, [COLD, HIT], [COLD, ("moved", 16)], [COLD, HIT], 1, "B2 differs from its refer"),
        (SERVER, [COLD], [("other order", 0), HIT], [COLD], 0, "NOT SEEN"),
        (SERVER, [COLD], [COLD, HIT, ("moved", 16)], [COLD], 1, "within one hit state"),
        (SERVER, [COLD, HIT], [COLD, HIT], [COLD, ("moved", 16)], 3, "reference before differs"),
        (SERVER, [("plain", None)], [("plain", None)], [("plain", None)], 3, "does not report"),
        (OFF, [("plain", None)], [("plain", None)], [("plain", None)], 0, "caching is off"),
        (OFF, [COLD], [COLD, COLD], [COLD], 0, "caching is off"),
        (SERVER, [COLD], [COLD, COLD], [COLD], 3, "other tokens were served"),
        (OTHER_BLOCK, [COLD], [COLD, HIT], [COLD], 3, "sized for blocks of 16"),
    ],
)
def test_the_program_concludes(
    server: repeat_cell.Server,
    before: list[tuple[str, int | None]],
    measured: list[tuple[str, int | None]],
    after: list[tuple[str, int | None]],
    code: int,
    said: str,
) -> None:
    """Diverged, not seen, or inconclusive with the reason; missing is not zero."""
    told = repeat_cell.conclude(CELL, server, answers(*before), answers(*measured), answers(*after))

    assert told[0] == code
    assert said in told[1]
