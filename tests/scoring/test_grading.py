"""Answers → grades and agreement, wrong answers included."""

import json

import pytest

from orchestrator.model.score import Grade
from orchestrator.model.suite import SuiteItem
from orchestrator.scoring.grading import letters, majority, moved_fields, scores

ITEM = SuiteItem.model_validate_json(
    json.dumps(
        {
            "id": "letter.1",
            "document": "letter",
            "question": "Wie viel, wann, wer?",
            "response_schema": {"properties": {"sum": {}, "day": {}, "who": {}}},
            "fields": {
                "sum": {"kind": "amount", "written": "106.557,50 €", "value": "106557.5 EUR"},
                "day": {"kind": "date", "written": "17. August 2026", "value": "2026-08-17"},
                "who": {"kind": "text", "written": "Dr. Trosk", "value": "dr. trosk"},
            },
        }
    )
)


def answer(**values: object) -> str:
    """The right answer, changed; a field of value ... is left out."""
    right: dict[str, object] = {"sum": "106.557,50 €", "day": "17.08.2026", "who": "Dr. Trosk"}
    return json.dumps({k: v for k, v in (right | values).items() if v is not ...})


def grade(text: str, field: str) -> Grade:
    """Of one field of one answer."""
    (score,) = [s for s in scores([text], ITEM, "de") if s.field == field]
    return score.grades[0]


@pytest.mark.parametrize(
    ("field", "said", "expected"),
    [
        ("sum", "106.557,50 €", "right"),
        ("sum", "EUR 106557,5", "right"),
        ("sum", 106557.5, "right"),  # a JSON number, and no currency beside it
        ("sum", "106.557,51 €", "wrong"),
        ("sum", "106.557,50 £", "wrong"),
        ("sum", "-106.557,50 €", "wrong"),
        ("sum", "106.557 €", "wrong"),
        ("sum", "some 106.557,50 €", "unreadable"),
        ("sum", ..., "missing"),
        ("sum", None, "unreadable"),
        ("sum", True, "unreadable"),
        ("sum", ["106.557,50 €"], "unreadable"),
        ("day", "2026-08-17", "right"),
        ("day", "Montag, den 17. August 2026", "right"),
        ("day", "18. August 2026", "wrong"),
        ("day", "August 2026", "unreadable"),
        ("day", 20260817, "unreadable"),
        ("who", "dr.  trosk", "right"),
        ("who", "„Dr. Trosk“", "right"),
        ("who", "Trosk", "wrong"),
        ("who", "", "unreadable"),
    ],
)
def test_a_field_is_graded(field: str, said: object, expected: Grade) -> None:
    """By what it says, not by how it is written."""
    assert grade(answer(**{field: said}), field) == expected


@pytest.mark.parametrize(
    "text", ["", "I think it is 5.", '{"sum": "106.557,50 €", "da', "[1]", '"text"', "null"]
)
def test_an_answer_that_is_no_object_has_no_readable_field(text: str) -> None:
    """Cut off, or never JSON: unreadable, which is neither missing nor wrong."""
    assert {score.grades for score in scores([text], ITEM, "de")} == {("unreadable",)}


def test_agreement_is_by_runs() -> None:
    """Letters in order of appearance; a majority is more than half."""
    assert letters(["x", "y", "x"]) == "ABA"
    assert majority(["x", "y", "x"]) == "x"
    assert majority(["x", "y"]) is None


def test_a_field_moves_with_what_it_says_and_not_with_how_it_is_written() -> None:
    """The same sum in another form is the same; another day is not, right or wrong."""
    runs = [answer(), answer(sum="106557,50 EUR", day="2026-08-18"), answer()]

    assert moved_fields(runs, ITEM, "de") == ("day",)
    assert moved_fields([answer(), answer(who=...)], ITEM, "de") == ("who",)
    assert moved_fields([answer(who="a"), answer(who=None)], ITEM, "de") == ("who",)
    assert moved_fields(["no JSON", "no JSON"], ITEM, "de") == ()
