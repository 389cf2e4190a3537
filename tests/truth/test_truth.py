"""The fast part of `make truth`: all built runs, two arms on the miniature, two mutations."""

from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.truth.built import Case, untruths
from tests.truth.confusion import Confusion, of_built, of_witnessed
from tests.truth.families import built_cases
from tests.truth.mutations import Mutation, mutations, noticed
from tests.truth.report import DOCUMENT, PANEL
from tests.truth.witnessed import witnessed_run


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Every built run."""
    return list(built_cases())


def test_every_built_run_is_judged_as_it_is(cases: list[Case]) -> None:
    """The word of each cell, and whatever else was put in."""
    wrong = {f"{case.family}, {case.name}": list(untruths(case)) for case in cases}

    assert {name: told for name, told in wrong.items() if told} == {}


def test_there_are_two_hundred_runs_with_names_of_their_own(cases: list[Case]) -> None:
    """A family that silently stopped to yield would prove nothing."""
    assert len(cases) >= 200
    assert len({(case.family, case.name) for case in cases}) == len(cases)


def test_the_document_is_that_of_these_runs(cases: list[Case]) -> None:
    """`docs/truth.md` is written by `make truth`, and lags behind nothing."""
    text = DOCUMENT.read_text("utf-8")
    confusion = of_built(cases)

    assert confusion.table("truth: B's answers") in text
    assert (confusion.false_stable, confusion.false_diverged) == (0, 0)
    assert [m.name for m in mutations() if f"| {m.name} |" not in text] == []
    assert "**nothing**" not in text


def test_verdicts_on_the_miniature_are_what_its_bits_say(
    tmp_path: Path, tokenizer_file: Path
) -> None:
    """Equal bits are stable; what differs visibly is diverged; both occur."""
    assert tokenizer_file.is_file()
    run = witnessed_run(PROJECT, str(PANEL), folder=tmp_path, arms=["control", "no-speculation"])
    confusion = of_witnessed(run)

    assert (confusion.false_stable, confusion.false_diverged) == (0, 0)
    assert confusion.counts["equal", "stable"] > 0
    assert confusion.counts["differ, visible", "diverged"] > 0
    assert sum(confusion.counts.values()) == 2 * 6 * 4


def test_a_wrong_verdict_would_be_counted_as_one() -> None:
    """Each way to be wrong, by its name."""
    confusion = Confusion(("equal", "differ, visible", "differ, not visible"))
    confusion.add("differ, visible", "stable")
    confusion.add("differ, not visible", "diverged")
    confusion.add("differ, not visible", "stable")
    confusion.add("equal", "inconclusive")

    assert (confusion.false_stable, confusion.false_diverged) == (1, 1)


def test_every_mutation_still_finds_its_text() -> None:
    """Once, so that a rule that was reworded is not left untried."""
    for mutation in mutations():
        text = (PROJECT / "orchestrator" / mutation.file).read_text("utf-8")
        assert text.count(mutation.anchor) == 1, mutation.name


def test_a_missing_rule_is_noticed_and_a_missing_remark_in_a_comment_is_not() -> None:
    """One mutation of the list; and one without meaning, for which nothing must be found."""
    (real,) = (m for m in mutations() if m.name == "hits may fall")
    idle = Mutation(
        name="a docstring", rule=0, file="judging/runs.py",
        anchor='"""Judge a whole run.', replacement='"""Judge a run.',
    )  # fmt: skip

    assert noticed(real).by is not None
    assert noticed(idle).by is None
