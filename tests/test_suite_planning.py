"""A suite → cells, salts and an order; items that cannot be right are refused."""

import json
from collections import Counter

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.model.plan import ArmPlan
from orchestrator.planning.launching import Stack
from orchestrator.requesting import request_body
from tests.definitions import ENGINE, profile
from tests.suites import DOCUMENTS, ITEMS, suite, suite_plan


def sent(arm: ArmPlan) -> list[str]:
    """The items of the measured runs, in the order in which they are asked."""
    measured = {cell.id for cell in arm.cells if cell.place == "measured"}
    return [volley[0].prompt for cell, volley in arm.volleys if cell in measured]


def arm_of(name: str, **changes: object) -> ArmPlan:
    """One planned arm."""
    return next(arm for arm in suite_plan(suite(**changes)).arms if arm.name == name)


def test_every_item_is_asked_between_two_references_of_its_own() -> None:
    """First all references, then the runs, then all references again, each cold one apart."""
    arm = arm_of("untouched")
    places = [
        next(c.place for c in arm.cells if c.id == cell) for cell, _ in arm.volleys
    ]  # fmt: skip
    references = [cell.salt for cell in arm.cells if cell.place != "measured"]

    assert places == ["before"] * 4 + ["measured"] * 12 + ["after"] * 4
    assert len(set(references)) == 8


def test_the_orders_are_what_their_names_say() -> None:
    """Grouped item by item, interleaved run by run, shuffled anew in each run."""
    ids = [item.id for item in ITEMS]
    shuffled = sent(arm_of("shuffled"))

    assert sent(arm_of("untouched")) == ids * 3
    assert sent(arm_of("shared")) == [name for name in ids for _ in range(3)]
    assert Counter(shuffled) == Counter(ids * 3)
    assert all(set(shuffled[n : n + 4]) == set(ids) for n in (0, 4, 8))
    assert shuffled != ids * 3
    assert sent(arm_of("shuffled", seed=2)) != shuffled
    assert sent(arm_of("shuffled")) == shuffled


def test_the_runs_of_an_item_are_counted_in_the_order_in_which_they_are_sent() -> None:
    """Run 2 is never asked before run 1, whatever the shuffling."""
    for cell in arm_of("shuffled").cells:
        numbers = [int(probe.id.partition("-")[0]) for probe in cell.probes]
        assert numbers == sorted(numbers)
        assert [probe.repeat for probe in cell.probes] == list(range(1, len(numbers) + 1))


def test_a_document_is_untouched_or_shared_as_the_arm_says() -> None:
    """One salt an item, or one a document; never another arm's."""
    salts = {
        name: {c.document: c.salt for c in arm_of(name).cells if c.place == "measured"}
        for name in ("untouched", "shared")
    }

    assert len(set(salts["untouched"].values())) == 4
    assert salts["shared"]["one.1"] == salts["shared"]["one.2"] != salts["shared"]["two.1"]
    assert not set(salts["untouched"].values()) & set(salts["shared"].values())
    assert {cell.shares_salt for cell in arm_of("shared").cells} == {True, False}
    assert not any(cell.shares_salt for cell in arm_of("untouched").cells)


@pytest.mark.parametrize("enforced", [True, False])
def test_the_schema_is_in_the_prompt_and_enforced_where_the_server_can(enforced: bool) -> None:  # noqa: FBT001 - a case
    """The same prompt either way; the document comes first, so that items share it."""
    plan = suite_plan(launched=profile(structured_output=enforced))
    arm = plan.arms[0]
    probe = arm.cells[0].probes[0]
    body = json.loads(request_body(plan, arm, probe))
    (turn,) = body["messages"]

    assert probe.endpoint == "/v1/chat/completions"
    assert turn["content"].startswith(DOCUMENTS["one"].text)
    assert turn["content"].endswith(json.dumps(ITEMS[0].response_schema))
    assert ("response_format" in body) == enforced
    assert "ignore_eos" not in body
    assert body["cache_salt"] == arm.cells[0].salt
    if enforced:
        assert body["response_format"]["json_schema"]["schema"] == ITEMS[0].response_schema


def test_a_profile_that_cannot_hold_whole_documents_is_sent_their_beginnings() -> None:
    """Limits belong to suite × profile."""
    limits = {"listed": {"document_characters": 40, "max_tokens": 2}}
    plan = suite_plan(suite(limits_for=limits))

    assert plan.max_tokens == 2
    assert plan.chats["one.1"].content.startswith(DOCUMENTS["one"].text[:40] + "\n\n")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"written": "not there"}, "one.1: fields.letters.written: 'not there' does not stand in"),
        ({"value": "other"}, "one.1: fields.letters.value: 'other', but"),
        ({"kind": "date"}, "one.1: fields.letters.value:"),
    ],
)
def test_an_expected_value_that_is_not_the_documents_is_refused(
    changes: dict[str, str], told: str
) -> None:
    """Before anything starts, with the file, the item and the field."""
    field = ITEMS[0].fields["letters"].model_dump() | changes
    wrong = ITEMS[0].model_validate(ITEMS[0].model_dump() | {"fields": {"letters": field}})

    with pytest.raises(DefinitionError, match=r"arms/suites/small\.jsonl") as raised:
        suite_plan(items=(wrong,))
    assert told in str(raised.value)


def test_what_is_sent_must_hold_the_expected_values() -> None:
    """A limit that cuts one off is an error, not a wrong answer."""
    with pytest.raises(DefinitionError, match="does not stand in what is sent"):
        suite_plan(suite(limits={"document_characters": 12, "max_tokens": 2}))


def test_quick_takes_the_items_of_one_document() -> None:
    """So that sharing it is still tested."""
    plan = suite_plan(selection="quick")

    assert plan.suite is not None
    assert [item.id for item in plan.suite.items] == ["one.1", "one.2"]


def test_the_room_in_the_cache_is_counted_once_a_salt() -> None:
    """The runs of an item need no more of it than its first."""
    plan = suite_plan()
    once = sum(len(plan.chats[item.id].content) for item in ITEMS)

    assert {arm.declared.prompt_tokens for arm in plan.arms} == {3 * once}


def test_a_suite_on_two_stacks_enforces_and_scores_what_both_can() -> None:
    """Each arm on its own profile; the prompts are the same, or nothing could be compared."""
    profiles = [
        profile(name=name, structured_output=enforced, model_trained=True)
        for name, enforced in (("old", True), ("new", False))
    ]
    stacks = [Stack(profile=launched, engine=ENGINE) for launched in profiles]
    arms = [
        {"name": f"on-{name}", "order": "interleaved", "documents": "untouched", "profile": name}
        for name in ("old", "new")
    ]
    plan = suite_plan(suite(arms=arms), profiles[0], stacks=stacks)

    assert plan.suite is not None
    assert [arm.profile for arm in plan.arms] == ["old", "new"]
    assert plan.profile == "old, new"
    assert not plan.suite.structured_output
    assert plan.suite.model_trained
    assert all(chat.response_format is None for chat in plan.chats.values())
