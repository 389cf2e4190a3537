"""`report.html` of stacks, of a suite, and of requests that were sent at once."""

from pathlib import Path

from orchestrator.adapters.run_store import RunStore
from orchestrator.model.stacks import StackComparison
from orchestrator.model.verdict import RunVerdict
from orchestrator.reporting.charts.stacks import ratios_chart, speeds_chart
from orchestrator.reporting.claims import claims
from orchestrator.reporting.stacks import stacks_section
from tests.definitions import experiment, plan, profile
from tests.pages import named, parsed, words
from tests.suites import SuiteScenario, suite_plan
from tests.test_company import Together, company, dependent
from tests.test_html_report import EVIDENCE, SVG, Kept, tree_of
from tests.test_stacks import compared, near, planned
from tests.test_suite_judging import TRAINED, polluted

STACKS = EVIDENCE / "cpu-stack-compare"
HEADINGS = ("Stacks side by side", "The suite", "Sent at once")


class KeptSuite(SuiteScenario, Kept):
    """A constructed run of the suite."""


class KeptCompany(Together, Kept):
    """A constructed run of volleys."""


def stacks_of(run: Path) -> StackComparison:
    """As it was judged."""
    found = RunStore.open(run).read("verdicts.json", RunVerdict).stacks
    assert found is not None
    return found


def test_stacks_have_a_column_each_and_say_when_one_is_faster() -> None:
    """With the words, the intervals and the line of every start that the typed rows carry."""
    section = stacks_section(stacks_of(STACKS))
    tree = tree_of(STACKS)
    text = words(tree)
    by_length = next(t for t in named(tree, "table") if "said, and why" in words(t))
    first = next(t for t in named(tree, "table") if "A column a stack" in words(t))

    assert section.sentence in text
    assert "is said only where the whole interval lies on one side of 1" in text
    assert [words(th) for th in named(first, "th")][:3] == ["of", "vllm-0.29", "vllm-0.28"]
    assert len(named(by_length, "tr")) == 1 + len(section.speeds) == 13
    for row, tr in zip(section.speeds, named(by_length, "tr")[1:], strict=True):
        assert all(told in words(tr) for told in (row.column, row.interval, row.drift, row.word))
    assert all(line in text for line in section.lines)


def test_stacks_are_drawn_with_their_intervals() -> None:
    """Speed and ratio; a chart names what it shows."""
    labels = [element.get("aria-label", "") for element in tree_of(STACKS).iter(SVG)]

    assert "Prompt tokens a second by length of a cold prompt, a mark a stack" in labels
    assert "Ratio of speeds against vllm-0.29 by length, with intervals" in labels


def test_what_was_not_measured_is_not_drawn() -> None:
    """No request was a measurement: no chart. One stack alone: speeds, and no ratio."""
    made = planned()
    nothing = compared(made, {arm.name: lambda _: None for arm in made.arms})
    alone = compared(plan(experiment(
        arms=[{"name": "old", "cell": "contaminated"}], expectations={},
        throughput={"lengths": ["20"], "documents": ["one", "two"], "repeats": 5},
    ), profile(context_tokens=100)), {"old": near(1.0)})  # fmt: skip

    assert (speeds_chart(nothing), ratios_chart(nothing)) == (None, None)
    assert speeds_chart(alone) is not None
    assert ratios_chart(alone) is None


def test_a_suite_shows_every_item_in_every_arm() -> None:
    """The item that moved is marked by a sign, and random weights get no score."""
    run = KeptSuite(script=polluted)
    tree = parsed(run.page_text())
    table = next(t for t in named(tree, "table") if t.get("class") == "agreement")
    rows = {words(named(row, "th")[0]): [words(td) for td in named(row, "td")]
            for row in named(table, "tr")[1:]}  # fmt: skip

    arms = [arm.name for arm in run.plan.arms]
    assert [words(th) for th in named(table, "th")][: len(arms) + 1] == ["item", *arms]
    assert rows["one.1"] == ["= AAAAA"] * len(arms)
    assert rows["one.2"][arms.index("shared")] == "≠ ABBBA"
    assert rows["one.2"][arms.index("untouched")] == "= AAAAA"
    assert "Random weights: agreement only." in words(tree)
    assert "0 wrong" not in words(tree)


def test_a_trained_model_has_its_grades_counted() -> None:
    """And no warning about random weights."""
    text = words(parsed(KeptSuite(plan=suite_plan(launched=TRAINED)).page_text()))

    assert "12 right, 0 wrong, 0 missing, 0 unreadable of 12" in text
    assert "Random weights" not in text


def test_volleys_have_words_of_their_own_on_the_page() -> None:
    """The answers volley by volley, and the engine's steps beside those of lone requests."""
    tree = parsed(KeptCompany(script=dependent, plan=plan(company())).page_text())
    table = next(t for t in named(tree, "table") if "volleys are set apart" in words(t))
    (row,) = named(table, "tr")[1:]

    assert "AABA AABA" in words(row)
    assert "12, 12 (alone: 40)" in words(row)
    assert "≠ batch-dependent 2 of 8 answers in company differ" in words(row)
    assert "0 batch-equal, 1 batch-dependent, 0 inconclusive" in words(tree)


def test_a_run_of_none_of_these_has_none_of_the_sections() -> None:
    """Neither the heading nor the link to it."""
    text = words(parsed(Kept().page_text()))

    assert not [heading for heading in HEADINGS if heading in text]


def test_a_comment_says_of_volleys_what_they_depend_on() -> None:
    """And never that the cache was seen at work."""
    alone, together = claims(KeptCompany(script=dependent, plan=plan(company())).judge())

    assert together == (
        "company (4 copies of B at once): answers depend on the requests that were sent with them"
        " in 1 of 1 cells; that says nothing about the cache."
    )
    assert alone.startswith("alone (B alone): no answer to B differs")
