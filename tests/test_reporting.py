"""Scan and price tables of constructed runs."""

import pytest

from orchestrator.model.plan import ArmPlan, CellPlan, ProbePlan
from orchestrator.pricing import advice, prices
from orchestrator.reporting.figures import later_ratio
from orchestrator.reporting.markdown import markdown
from orchestrator.reporting.scan import scans
from tests.answers import moved
from tests.conftest import PROJECT, Call
from tests.definitions import experiment, plan, profile
from tests.scenarios import Reply, Scenario, affected, plain

FULL = plan(launched=profile(vllm_version="0.29.0"), selection="full")


def by_length(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
    """Affected at 31 tokens of A; at 48 only B's first repeat differs."""
    reply = affected(arm, cell, probe)
    if cell.a_tokens == 48:
        reply = plain(arm, cell, probe)
        if arm.name == "contaminated" and probe.repeat == 1:
            reply.lists = moved(1)
    return reply


def test_a_scan_has_a_row_a_length_and_a_sign_a_document() -> None:
    """With A's predicted chunks, and the last one's remainders."""
    verdict = Scenario(script=by_length, plan=FULL).judge()
    scan = next(entry for entry in scans(FULL, verdict) if entry.arm == "contaminated")

    assert scan.documents == ("one", "two")
    assert [row.a_tokens for row in scan.rows] == [31, 48]
    assert scan.rows[0].signs == ("+", "+")
    assert scan.rows[1].signs == ("1", "1")
    assert scan.rows[0].blocks == "1 blocks + 15"
    assert scan.rows[0].chunks == "0-31"
    assert scan.rows[0].last_chunk.startswith("31 (mod 4/8/16/32/64/128: 3/7/15/31/31/31)")


def test_one_length_is_no_scan() -> None:
    """There is nothing to set it beside."""
    assert scans(plan(), Scenario().judge()) == []


def test_an_arm_alone_has_no_price() -> None:
    """`--arm` may leave the control out: then a report has no table of prices."""
    alone = plan(experiment(control="contaminated"), arms=["clean"])

    assert prices(Scenario(plan=alone).judge(), "contaminated") == ()


def test_prices_are_medians_of_paired_repeats() -> None:
    """An arm that takes twice as long costs a ratio of two; the control has no ratio."""

    def slow(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = plain(arm, cell, probe)
        reply.prefill_s = 0.02 * (2 if arm.name == "caching-off" else 1) * (probe.repeat or 1)
        return reply

    priced = Scenario(script=slow, plan=plan(experiment(control="contaminated")))
    control, clean, off = prices(priced.judge(), "contaminated")

    assert (control.arm, control.first_ratio) == ("contaminated", None)
    assert control.first_prefill_s is not None
    assert abs(control.first_prefill_s - 0.02) < 1e-9
    assert off.first_ratio is not None
    assert off.later_ratio is not None
    assert abs(off.first_ratio - 2) < 1e-6
    assert abs(off.later_ratio - 2) < 1e-6
    assert later_ratio(off) == "2.00 (2.00 to 2.00)"
    assert later_ratio(control) == "–"
    assert off.pairs == 8
    assert (clean.pairs, clean.first_ratio) == (0, None)


def test_the_advice_names_what_did_not_diverge_with_its_price() -> None:
    """Those that keep their hits first, the cheapest of them first; then caching off."""
    arms = [
        {"name": "control", "cell": "contaminated"},
        {"name": "slow", "cell": "contaminated"},
        {"name": "fast", "cell": "contaminated"},
        {"name": "off", "cell": "contaminated", "prefix_caching": "off"},
    ]
    cost = {"control": 1.0, "slow": 3.0, "fast": 2.0, "off": 0.5}

    def told(*diverging: str, of: int = 4) -> str:
        def reply(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
            answer = (affected if arm.name in diverging else plain)(arm, cell, probe)
            answer.prefill_s = 0.01 * cost[arm.name]
            return answer

        made = plan(experiment(arms=arms[:of], control="control", expectations={}))
        return advice(prices(Scenario(script=reply, plan=made).judge(), "control"))

    assert told("control") == (
        "control diverged in 2 of 2 cells. Without divergence: "
        "fast (cache hits kept, later repeats' prefill takes 2.00 × the time); "
        "slow (cache hits kept, later repeats' prefill takes 3.00 × the time); "
        "off (no cache hits, later repeats' prefill takes 0.50 × the time)."
    )
    assert "Without divergence: off (no cache hits" in told("control", "slow", "fast")
    assert told("control", "slow", "fast", of=3).endswith("and so did every other arm.")
    assert told().startswith("Nothing to work around")


def test_an_arm_that_was_not_measured_is_no_advice_and_an_unmeasured_price_is_not_cheap() -> None:
    """Unknown is not equal, and missing is not zero."""
    arms = [{"name": name, "cell": "contaminated"} for name in ("control", "mute", "quick", "dear")]

    def reply(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        answer = (affected if arm.name == "control" else plain)(arm, cell, probe)
        answer.prefill_s = {"quick": None, "dear": 0.03}.get(arm.name, 0.01)
        if arm.name == "mute":
            answer.cached = None
        return answer

    made = plan(experiment(arms=arms, control="control", expectations={}))
    told = advice(prices(Scenario(script=reply, plan=made).judge(), "control"))

    assert "mute (" not in told
    assert told.endswith(" Nothing can be said of: mute.")
    assert told.index("dear (") < told.index("quick (")


def test_an_arm_that_stayed_eligible_is_named_last_and_with_a_warning() -> None:
    """Unseen is not excluded."""
    made = plan(
        experiment(
            arms=[
                {"name": "control", "cell": "contaminated"},
                {"name": "same", "cell": "contaminated"},
                {"name": "whole", "cell": "contaminated", "every_boundary": True},
            ],
            control="control",
            expectations={},
        ),
        profile(vllm_version="0.29.0"),
    )

    def reply(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        return (affected if arm.name == "control" else plain)(arm, cell, probe)

    told = advice(prices(Scenario(script=reply, plan=made).judge(), "control"))

    assert told.index("whole (") < told.index("same (")
    assert "though 2 cells stayed eligible" in told


def test_a_price_that_was_not_measured_is_absent() -> None:
    """Missing is not zero."""
    verdict = Scenario(plan=plan(experiment(control="contaminated"))).judge()

    assert all(price.first_prefill_s is None for price in prices(verdict, "contaminated"))
    report = markdown(plan(experiment(control="contaminated")), verdict, command="x")
    assert "| contaminated | 2 of 2 | 16 | – | – | – | – | – | 0 |" in report


def test_the_report_shows_scan_and_price_where_there_are_any() -> None:
    """And no empty heading where there are none."""
    scanned = markdown(FULL, Scenario(script=by_length, plan=FULL).judge(), command="x")
    plain_run = markdown(plan(), Scenario().judge(), command="x")

    assert "| 31 | 1 blocks + 15 | 0-31 |" in scanned
    assert "## By the length of A" not in plain_run
    assert "## Price" not in plain_run


def test_nothing_from_a_definition_becomes_markup() -> None:
    """A text with a pipe, a tag or a link stays text."""
    hostile = plan(experiment(question="x | <script>alert(1)</script> [a](http://x)"))
    report = markdown(hostile, Scenario(plan=hostile).judge(), command="`x`")

    assert "<script>" not in report
    assert "[a](" not in report


@pytest.mark.parametrize("form", ["md", "html", "comment"])
def test_a_report_of_stacks_begins_with_which_is_faster_and_has_one_kind_of_ratio(
    call: Call, form: str
) -> None:
    """Speeds, with their intervals: prices, which are times and rise the other way, stay out."""
    run = PROJECT / "docs" / "evidence" / "cpu-boundary-price"
    code, output, _ = call("report", run, "--format", form)
    head = output[output.index("Affected.") :][:900]

    assert code == 0
    assert "Which is faster?" in head
    assert "patched against sham-patch: slower at " in head
    assert "× the speed" in output
    assert "later, × the time" not in output
    assert "above 1 is faster" in output
