"""What a nightly calls a run, its exit code, and which old runs it may remove."""

import re
from pathlib import Path

import pytest

from orchestrator.adapters.nightlies import nightly_names, only_nightly, save_nightly
from orchestrator.errors import HostError
from orchestrator.model.comparison import Comparison, ComparisonResult
from orchestrator.model.nightly import (
    EntryResult,
    Nightly,
    NightlyConfig,
    NightlyEntry,
    StartResult,
    Word,
)
from orchestrator.model.verdict import ArmVerdict, RunVerdict
from orchestrator.nightly.retention import superfluous
from orchestrator.nightly.words import exit_code, sentence_of, word_of
from orchestrator.reporting.nightly import nightly_line
from orchestrator.reporting.pages import nightly_page
from tests.scenarios import Scenario
from tests.test_listing import entry
from tests.test_run_store import NOW


def verdict(result: str, code: int, **arms: str) -> RunVerdict:
    """A run with this result, whose arms have these verdicts."""
    judged = Scenario().judge()
    changed = [
        ArmVerdict.model_validate(arm.model_dump() | {"verdict": arms.get(arm.arm, arm.verdict)})
        for arm in judged.arms
    ]
    values = {name: getattr(judged, name) for name in RunVerdict.model_fields}
    return RunVerdict(**(values | {"result": result, "exit_code": code, "arms": tuple(changed)}))


def compared(result: ComparisonResult, *, fixed: tuple[str, ...] = ()) -> Comparison:
    """What the comparison with the baseline came to."""
    return Comparison(
        run="run", baseline="baseline", run_engine="vLLM 2", baseline_engine="vLLM 1",
        result=result, exit_code=0, sentence=f"{result.capitalize()}.", differing=(), unknown=(),
        perhaps_fixed=fixed, cells=1, not_compared=(), changes=(), cold=(), digests_compared=0,
    )  # fmt: skip


GOOD = verdict("as expected", 0)
BAD = verdict("not as expected", 1)
FIXED = verdict("not as expected", 1, contaminated="stable")
FAILED = verdict("failed", 4, clean="inconclusive")
UNSURE = verdict("inconclusive", 3, clean="inconclusive")


@pytest.mark.parametrize(
    ("run", "comparison", "word"),
    [
        (GOOD, compared("unchanged"), "unchanged"),
        (GOOD, compared("changed"), "changed"),
        (BAD, compared("regressed"), "regressed"),
        # A failure is never a regression, unless a cell that was measured got worse.
        (FAILED, compared("failed"), "infrastructure failure"),
        (FAILED, compared("not comparable"), "infrastructure failure"),
        (FAILED, compared("regressed"), "regressed"),
        (UNSURE, compared("inconclusive"), "inconclusive"),
        (UNSURE, compared("not comparable"), "inconclusive"),
        (GOOD, compared("inconclusive"), "inconclusive"),
        # A control that stops diverging fails its expectation, and is no regression.
        (FIXED, compared("changed", fixed=("contaminated",)), "changed: perhaps fixed upstream"),
        (
            FIXED,
            compared("not comparable", fixed=("contaminated",)),
            "changed: perhaps fixed upstream",
        ),
        # Not comparable cell by cell: the experiment's own expectation still counts.
        (GOOD, compared("not comparable"), "not comparable"),
        (BAD, compared("not comparable"), "regressed"),
    ],
)
def test_a_run_is_called_by_what_is_definite(
    run: RunVerdict, comparison: Comparison, word: Word
) -> None:
    """Against a baseline that was as expected."""
    assert word_of(run, GOOD, comparison) == word


def test_a_bad_result_that_the_baseline_had_too_is_no_regression() -> None:
    """An affected server stays affected: nothing got worse overnight."""
    assert word_of(BAD, BAD, compared("not comparable")) == "not comparable"
    assert word_of(BAD, BAD, compared("unchanged")) == "unchanged"


def test_a_fixed_control_does_not_hide_an_arm_that_got_worse() -> None:
    """The clean arm was stable in the baseline, and diverges now."""
    run = verdict("not as expected", 1, clean="diverged", contaminated="stable")

    assert word_of(run, GOOD, compared("not comparable", fixed=("contaminated",))) == "regressed"


def test_the_sentence_says_what_the_word_rests_on() -> None:
    """The comparison; or the arm that failed; or both runs' own results."""

    def told(run: RunVerdict, comparison: Comparison) -> str:
        return sentence_of(word_of(run, GOOD, comparison), run, GOOD, comparison)

    assert told(GOOD, compared("unchanged")) == "Unchanged."
    assert told(FAILED, compared("failed")).startswith("clean: ")
    assert told(BAD, compared("not comparable")).endswith(
        "The baseline was as expected. Not comparable."
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["unchanged", "inconclusive", "infrastructure failure", "regressed"], 1),
        (["unchanged", "inconclusive", "infrastructure failure", "not finished"], 4),
        (["unchanged", "inconclusive"], 3),
        (["unchanged", "not comparable"], 3),
        (["unchanged", "changed", "changed: perhaps fixed upstream"], 0),
    ],
)
def test_the_exit_code_is_that_of_the_gravest(words: list[Word], code: int) -> None:
    """1 if anything regressed, else 4, else 3, else 0."""
    assert exit_code(words) == code


def test_only_what_nightlies_made_is_removed_and_the_newest_stay() -> None:
    """Counted by experiment and profile."""
    runs = [entry(day, nightly="n") for day in range(1, 6)]
    runs += [entry(day, nightly="n", profile="other") for day in (1, 2)]

    assert superfluous(runs, keep=2, baselines=(), tonight="m") == runs[:3]
    assert superfluous(runs, keep=7, baselines=(), tonight="m") == []


def test_no_run_of_this_night_is_removed_before_anybody_has_read_of_it() -> None:
    """Two entries of one experiment and profile are one history, and may be more than are kept."""
    runs = [entry(1, nightly="before"), *(entry(day, nightly="tonight") for day in (2, 3, 4))]

    assert superfluous(runs, keep=1, baselines=(), tonight="tonight") == runs[:1]


def test_a_baseline_a_run_by_hand_and_a_running_one_are_never_removed() -> None:
    """Nor is the newest of an experiment and profile; a killed one may go."""
    baseline, by_hand, running, killed, newest = (
        entry(1, nightly="n"),
        entry(2),
        entry(3, nightly="n", state="running"),
        entry(4, nightly="n", state="killed"),
        entry(5, nightly="n"),
    )

    removed = superfluous(
        [newest, killed, running, by_hand, baseline], keep=1, baselines=[baseline.name], tonight="m"
    )

    assert removed == [killed]


def test_a_second_nightly_is_told_who_has_the_lock(tmp_path: Path) -> None:
    """And gets it when the first one is gone."""
    with only_nightly(tmp_path):
        with (
            pytest.raises(HostError, match=r"another nightly is going on .*: process \d+"),
            only_nightly(tmp_path),
        ):
            pass
        (tmp_path / "nightly" / ".holder.json").unlink()
        with pytest.raises(HostError, match="has not said"), only_nightly(tmp_path):
            pass
    with only_nightly(tmp_path):
        pass


def nightly(*words: Word) -> Nightly:
    """One entry a word."""
    results = tuple(
        EntryResult(
            entry=NightlyEntry(experiment=f"small-{number}", profile="listed", baseline="b"),
            starts=(
                StartResult(
                    run=None, report=None, word=word, sentence=f"<b>\nWhy {word}", comparison=None
                ),
            ),
        )
        for number, word in enumerate(words)
    )
    return Nightly(
        name="2026-09-14T18-02-11Z",
        started_at=NOW,
        ended_at=NOW,
        config=NightlyConfig(entries=tuple(result.entry for result in results)),
        results=results,
        removed=(),
        exit_code=exit_code(words),
    )


def test_the_line_names_the_gravest_entry_and_fits_a_chat() -> None:
    """One line, whatever stands in the reason."""
    line = nightly_line(nightly("unchanged", "infrastructure failure", "regressed"), "page")

    assert line == (
        "vllm-arms nightly 2026-09-14T18-02-11Z: 1 regressed, 1 infrastructure failure, "
        "1 unchanged; small-2 on listed: <b> Why regressed (page)"
    )
    assert nightly_line(nightly("unchanged"), "page").endswith("1 unchanged (page)")
    long = nightly_line(nightly("regressed", *["changed"] * 90), "page")
    assert len(long) < 420


def test_an_entry_is_as_good_as_its_worst_start() -> None:
    """Of several fresh starts, one that regressed is one too many."""
    starts = nightly("unchanged", "inconclusive", "changed").results
    whole = EntryResult(
        entry=starts[0].entry, starts=tuple(start for result in starts for start in result.starts)
    )

    assert whole.word == "inconclusive"


def test_a_page_is_kept_once_and_escapes_what_it_shows(tmp_path: Path) -> None:
    """Its record lies beside it; what is there is never written over."""
    made = nightly("regressed")
    page = save_nightly(tmp_path, made, nightly_page(made))

    assert "&lt;b&gt;" in page.read_text()
    assert re.findall(r"<h1>(.*)</h1>", page.read_text()) == ["1 regressed"]
    assert Nightly.from_json((page.parent / "nightly.json").read_bytes()) == made
    assert nightly_names(tmp_path) == [made.name]
    with pytest.raises(FileExistsError):
        save_nightly(tmp_path, made, "another")
