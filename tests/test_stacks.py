"""Columns side by side: when "faster" is said, and what is said instead."""

from collections.abc import Callable, Sequence

import pytest

from orchestrator.model.host import Plateau
from orchestrator.model.outcome import Completed, Failed, Outcome
from orchestrator.model.plan import Plan
from orchestrator.model.serverlog import Finding
from orchestrator.model.stacks import ColdResult, Ratio, Speed, StackComparison, StartLine
from orchestrator.model.verdict import ArmVerdict
from orchestrator.reporting.stacks import speed_sentence, stacks_section
from orchestrator.stacks import compare_stacks, start_line
from tests.definitions import experiment, plan, profile
from tests.scenarios import Scenario

Times = Callable[[int], float | None]
"""Seconds to the first token of a repeat; `None`: it is no measurement."""


def planned(*, there_and_back: bool = True, repeats: int = 5) -> Plan:
    """Two arms, `old` the base, cold requests of one length."""
    asked = experiment(
        arms=[{"name": name, "cell": "contaminated"} for name in ("old", "new")],
        expectations={},
        control="old",
        there_and_back=there_and_back,
        throughput={"lengths": ["20"], "documents": ["one", "two"], "repeats": repeats},
    )
    return plan(asked, profile(context_tokens=100))


def line(name: str) -> StartLine:
    """Of a start on which nothing happened."""
    return StartLine(
        arm=name, outcome="completed", log_lines=10, preemptions=0, crashed=False, errors=0,
        diverged=0, cells=1, memory=(),
    )  # fmt: skip


def result(repeat: int, first_token_s: float | None) -> ColdResult:
    """One cold request of 20 tokens."""
    return ColdResult(
        probe=f"cold-{repeat}", prompt_tokens=20, repeat=repeat,
        problem="it was not cold" if first_token_s is None else None,
        first_token_s=first_token_s, prefill_s=first_token_s, decode_tokens_per_s=50.0,
        draft_tokens=10, accepted_tokens=3,
    )  # fmt: skip


def compared(made: Plan, times: dict[str, Times]) -> StackComparison:
    """A comparison whose every time is chosen; the warm-up takes an hour."""
    repeats = 0 if made.throughput is None else made.throughput.repeats
    results = {
        arm.name: [
            result(0, 3600.0), *(result(n, times[arm.name](n)) for n in range(1, repeats + 1))
        ]
        for arm in made.arms
    }  # fmt: skip
    comparison = compare_stacks(made, results, {arm.name: line(arm.name) for arm in made.arms})
    assert comparison is not None
    return comparison


def speed(comparison: StackComparison, column: str) -> Speed:
    """Of the one length."""
    return next(entry for entry in comparison.rows[0].speeds if entry.column == column)


def ratio(times: Sequence[Times], **changes: bool | int) -> Ratio:
    """Of `new`, where the four starts take these times in their order."""
    made = planned(**changes)  # type: ignore[arg-type]  # the two keywords of `planned`
    names = [arm.name for arm in made.arms]
    found = speed(compared(made, dict(zip(names, times, strict=True))), "new").ratio
    assert found is not None
    return found


def near(seconds: float) -> Times:
    """Times that differ a little from repeat to repeat."""
    return lambda repeat: seconds * (1 + repeat / 1000)


def test_starts_go_there_and_back() -> None:
    """An order and its reverse, each column with two starts."""
    comparison = compared(planned(), dict.fromkeys(NAMES, near(1.0)))

    assert comparison.order == NAMES
    assert [[s.arm for s in column.starts] for column in comparison.columns] == [
        ["old", "old.again"],
        ["new", "new.again"],
    ]


NAMES = ("old", "new", "new.again", "old.again")


def test_a_column_that_is_faster_on_every_start_is_called_faster() -> None:
    """Twice as fast: a ratio of 2, ten pairs, the interval around it."""
    found = ratio([near(1.0), near(0.5), near(0.5), near(1.0)])

    assert (found.word, found.median) == ("faster", pytest.approx(2.0, rel=0.01))
    assert found.interval is not None
    assert found.interval.low > 1.9
    assert found.interval.coverage == pytest.approx(0.9785, abs=1e-4)


def test_slower_is_said_in_the_same_way() -> None:
    """The ratio is of speeds."""
    found = ratio([near(1.0), near(1.25), near(1.25), near(1.0)])

    assert (found.word, found.median) == ("slower", pytest.approx(0.8))


def test_without_a_difference_none_is_shown() -> None:
    """The interval contains 1."""
    noisy = [1.0, 1.2, 0.8, 1.1, 0.9]
    found = ratio([lambda n: 1.0, *[lambda n: noisy[n - 1]] * 2, lambda n: 1.0])

    assert (found.word, found.reason) == ("no difference shown", "the interval contains 1")


def test_a_drift_is_not_taken_for_a_difference() -> None:
    """The machine grows slower with every start: each pair of the way there says `old`."""
    found = ratio([near(1.0), near(1.1), near(1.2), near(1.3)])

    assert found.word in ("no difference shown", "cannot say")


def test_starts_that_do_not_agree_are_named_as_the_reason() -> None:
    """All pairs by number favour `new`, but its slow start loses against the base's fast one."""
    found = ratio([near(1.0), near(0.9), near(1.5), near(2.0)])

    assert (found.word, found.reason) == (
        "cannot say", "the starts do not agree on which is faster",
    )  # fmt: skip
    assert len(found.by_starts) == 4


def test_a_stack_that_differs_as_much_from_itself_is_not_called_faster() -> None:
    """Every start of `new` beats every start of `old`, by less than `old` gained from the first."""
    found = ratio([near(2.0), near(0.95), near(0.95), near(1.0)])

    assert (found.word, found.reason) == (
        "cannot say", "the starts of one stack differ as much among themselves",
    )  # fmt: skip
    assert all(entry > 1 for entry in found.by_starts)


def test_one_start_with_too_few_repeats_cannot_say() -> None:
    """Five pairs have no interval at 95 %."""
    found = ratio([near(1.0), near(0.5)], there_and_back=False)

    assert (found.word, found.interval) == ("cannot say", None)
    assert found.reason == "5 pairs are too few for an interval at 95%"


def test_one_start_with_six_repeats_can() -> None:
    """The interval is of repeats then; that another start may differ is said beside it."""
    found = ratio([near(1.0), near(0.5)], there_and_back=False, repeats=6)

    assert found.word == "faster"


def test_requests_that_are_no_measurement_leave_their_pair() -> None:
    """The rest is still paired by repeat, and the reason is kept."""
    made = planned()
    gone: Times = lambda n: None if n == 2 else 0.5  # noqa: E731 - a script of one line
    comparison = compared(
        made, {"old": near(1.0), "new": gone, "new.again": near(0.5), "old.again": near(1.0)}
    )
    found = speed(comparison, "new")

    assert found.excluded == ("cold-2: it was not cold",)
    assert found.first_token_s is not None
    assert found.first_token_s.n == 9
    assert found.ratio is not None
    assert found.ratio.reason.startswith("9 pairs")


def test_a_start_without_any_measurement_is_not_agreement() -> None:
    """The other start's five pairs are too few, and nothing is filled in."""
    nothing: Times = lambda n: None  # noqa: E731 - a script of one line

    found = ratio([near(1.0), near(0.5), nothing, near(1.0)])

    assert found.word == "cannot say"


def test_drift_is_the_last_start_against_the_first() -> None:
    """Of one column; above 1 is faster."""
    comparison = compared(
        planned(),
        {"old": near(2.0), "new": near(1.0), "new.again": near(1.0), "old.again": near(1.0)},
    )

    assert speed(comparison, "old").drift == pytest.approx(2.0)
    assert speed(comparison, "new").drift == pytest.approx(1.0)
    assert speed(comparison, "old").ratio is None


def test_the_warm_up_counts_nowhere() -> None:
    """It took an hour in all of these tests."""
    comparison = compared(planned(), dict.fromkeys(NAMES, near(1.0)))
    found = speed(comparison, "old").first_token_s

    assert found is not None
    assert (found.n, found.greatest) == (10, pytest.approx(1.005))
    assert [column.draft_tokens for column in comparison.columns] == [100, 100]


def arm_verdict(*severities: str) -> ArmVerdict:
    """A judged start whose log says this against it."""
    verdict = Scenario().judge().arms[1]
    findings = tuple(
        Finding.model_validate(
            {
                "name": "x", "severity": severity, "phase": "serving", "line": 1,
                "summary": "s", "excerpt": "e",
            }
        )
        for severity in severities
    )  # fmt: skip
    return verdict.model_copy(update={"log_findings": findings})


@pytest.mark.parametrize(
    ("severities", "outcome", "crashed", "errors"),
    [
        ((), Completed(), False, 0),
        (("warning", "error", "error"), Completed(), False, 2),
        (("fatal", "fatal"), Completed(), True, 0),
        ((), Failed(stage="probe", error="ServerDiedError: it ended"), True, 0),
        ((), Failed(stage="probe", error="ProbeError: HTTP 500"), False, 0),
    ],
)
def test_a_crash_is_told_by_the_log_or_by_the_servers_end(
    severities: Sequence[str],
    outcome: Outcome,
    crashed: bool,  # noqa: FBT001 - a parameter of the table above
    errors: int,
) -> None:
    """A failed request alone is none."""
    found = start_line(arm_verdict(*severities), outcome, log_lines=5, preemptions=None)

    assert (found.crashed, found.errors, found.preemptions) == (crashed, errors, None)


def test_a_run_that_asks_nothing_of_speed_has_no_comparison() -> None:
    """Its report has no such section."""
    assert Scenario().judge().stacks is None


def test_the_report_has_one_column_a_stack() -> None:
    """And says of each length whether it is faster, in words that the figures carry."""
    comparison = compared(
        planned(), dict(zip(NAMES, [near(1.0), near(0.5), near(0.5), near(1.0)], strict=True))
    )
    section = stacks_section(comparison)
    values = {row.name: row.values for row in section.rows}

    assert speed_sentence(comparison) == "new against old: faster at 20 tokens."
    assert values["starts"] == ("2", "2")
    assert values["drafts accepted"] == ("30 of 100 (30.0%)", "30 of 100 (30.0%)")
    assert values["decoding, tokens/s"] == ("50.0 (50.0 to 50.0, n 10)",) * 2
    assert [(row.column, row.tokens_per_s) for row in section.speeds] == [
        ("old", "20"),
        ("new", "40"),
    ]
    assert section.lines[0] == (
        "old: 10 lines of log, no crash, 0 errors; 0 preemptions by the counter; completed"
    )


def test_a_column_that_ran_alone_has_times_and_no_ratio() -> None:
    """`--arm` with one stack: its speed is told, against nothing."""
    asked = experiment(
        arms=[{"name": "old", "cell": "contaminated"}], expectations={},
        throughput={"lengths": ["20"], "documents": ["one", "two"], "repeats": 5},
    )  # fmt: skip
    comparison = compared(plan(asked, profile(context_tokens=100)), {"old": near(1.0)})

    assert speed(comparison, "old").first_token_s is not None
    assert [entry.ratio for row in comparison.rows for entry in row.speeds] == [None]
    assert speed_sentence(comparison) == "old ran alone: there is nothing to set beside it."


def test_memory_stands_in_the_columns_where_it_was_sampled() -> None:
    """By start; a GPU that was never read has no row."""
    made = planned()
    plateau = Plateau(
        series="server_resident_bytes", result="flat", reason="r", levels=(), steps=()
    )
    lines = {
        arm.name: line(arm.name).model_copy(update={"memory": (plateau,)}) for arm in made.arms
    }
    comparison = compare_stacks(made, {arm.name: [] for arm in made.arms}, lines)
    assert comparison is not None
    values = {row.name: row.values for row in stacks_section(comparison).rows}

    assert values["memory of the server"] == ("flat, flat", "flat, flat")
    assert "memory of the GPU" not in values
