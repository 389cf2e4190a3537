"""Experiment × profile → plan."""

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.model.plan import Plan
from orchestrator.planning.plans import plan_hash
from orchestrator.sizing import common_prefix
from tests.definitions import experiment, plan, profile


def lengths(made: Plan, key: str) -> int:
    """Tokens of a prompt."""
    return len(made.prompts[key].token_ids)


def test_prompts_have_their_exact_sizes_and_share_exactly_the_shared_part() -> None:
    """A at each length, B, and the unrelated warm-up of both lengths."""
    made = plan(selection="full")

    assert (lengths(made, "one/a31"), lengths(made, "one/a48"), lengths(made, "one/b")) == (
        31, 48, 40,
    )  # fmt: skip
    assert common_prefix(made.prompts["one/a31"].token_ids, made.prompts["one/b"].token_ids) == 20
    assert {lengths(made, key) for key in made.prompts if "warm-up" in key} == {31, 48, 40}
    assert {made.prompts[key].document for key in made.prompts if "warm-up" in key} == {"warm"}


def test_the_readiness_probe_is_shorter_than_a_block_and_alone_under_its_salt() -> None:
    """It must leave nothing in the cache that a cell could find."""
    made = plan()
    for arm in made.arms:
        salts = [cell.salt for cell in arm.cells] + [probe.salt for probe in arm.warm_up]
        assert lengths(made, arm.ready_probe.prompt) < made.block_size_tokens
        assert arm.ready_probe.salt not in salts


def test_every_cell_has_a_salt_of_its_own() -> None:
    """Rule 3: a document comes back under another salt only."""
    cells = [cell for arm in plan(selection="full").arms for cell in arm.cells]

    assert len({cell.salt for cell in cells}) == len(cells)
    assert all({probe.salt for probe in cell.probes} == {cell.salt} for cell in cells)


def test_measured_cells_stand_between_the_references_of_their_document() -> None:
    """Rule 1, for every document on every start."""
    for arm in plan(selection="full").arms:
        places = [cell.place for cell in arm.cells]
        assert places == sorted(places, key=["before", "measured", "after"].index)
        for place in ("before", "after"):
            assert {c.document for c in arm.cells if c.place == place} == {"one", "two"}


def test_a_contaminated_cell_sends_a_once_and_then_b_n_times() -> None:
    """Strictly in this order, with the repeats counted from 1."""
    arm = plan().arms[1]
    measured = next(cell for cell in arm.cells if cell.place == "measured")

    assert [probe.role for probe in measured.probes] == ["a", "b", "b", "b", "b"]
    assert [probe.repeat for probe in measured.probes] == [None, 1, 2, 3, 4]


def test_probe_ids_are_unique_and_in_the_order_of_sending() -> None:
    """They name the files, and `analyze` reads the files in their order."""
    for arm in plan(selection="full").arms:
        sent = [arm.ready_probe, *arm.warm_up, *(p for cell in arm.cells for p in cell.probes)]
        ids = [probe.id for probe in sent]
        assert len(set(ids)) == len(ids)
        assert sorted(ids) == ids


@pytest.mark.parametrize(
    ("selection", "cells", "documents"),
    [("quick", 3, ["one"]), ("plain", 6, ["one", "two"]), ("full", 8, ["one", "two"])],
)
def test_the_selection_decides_how_much_of_the_panel_is_measured(
    selection: str, cells: int, documents: list[str]
) -> None:
    """`quick` one document and length, `plain` one length, `full` everything."""
    made = plan(selection=selection)  # type: ignore[arg-type]

    assert len(made.arms[1].cells) == cells
    assert [pin.name for pin in made.documents] == [*documents, "warm"]


def test_the_same_definitions_make_the_same_plan() -> None:
    """The hash in a run's name stands for everything that was sent."""
    assert plan_hash(plan()) == plan_hash(plan())
    assert plan_hash(plan()) != plan_hash(plan(experiment(seed=1)))


def test_a_seed_orders_the_cells() -> None:
    """Rule 13: stored, seeded, and another order for another seed."""
    orders = {
        tuple(cell.id for cell in plan(experiment(seed=seed)).arms[1].cells) for seed in range(8)
    }

    assert len(orders) > 1


def test_an_arm_turns_caching_and_keeps_the_rest_of_the_command() -> None:
    """The model's folder is filled in; the port stays open until the start."""
    clean, _, off = plan().arms

    assert clean.launch.argv == (
        "/engine/python", "serve", "--port", "{port}", "--model", "/engine/model", "--caching",
    )  # fmt: skip
    assert off.launch.argv[-1] == "--no-caching"
    assert clean.launch.environment == {"FROM_ENGINE": "1", "FROM_PROFILE": "1"}


def test_the_purpose_follows_from_the_listed_expectations() -> None:
    """`reproduce` for a profile that is listed, `check` for any other."""
    other = plan(launched=profile(name="other"))

    assert plan().purpose == "reproduce"
    assert (other.purpose, other.expectations) == ("check", {})


def test_expectations_of_arms_that_are_left_out_are_left_out() -> None:
    """`--arm` must not make a run fail for what it did not measure."""
    assert plan(arms=["clean"]).expectations == {"clean": "stable"}


def test_sizes_resolve_once_against_the_profiles_grid() -> None:
    """Rule 12: an arm that changes the grid declares its own, and keeps the sizes."""
    arms = [
        {"name": "clean", "cell": "reference"},
        {"name": "other-grid", "cell": "contaminated", "block_size_tokens": 24},
    ]
    sizes = {"shared": "block + 4", "b": "2*block + 8", "a": ["2*block - 1"]}
    made = plan(experiment(arms=arms, sizes=sizes, expectations={}))

    assert lengths(made, "one/b") == 40
    assert [arm.declared.block_size_tokens for arm in made.arms] == [16, 24]


def test_a_profile_may_have_sizes_of_its_own() -> None:
    """Which lengths show the effect depends on the machine; the table is named in errors."""
    own = {"listed": {"shared": "18", "b": "38", "a": ["30"]}}
    broken = {"listed": {"shared": "18", "b": "38", "a": ["17"]}}
    made = plan(experiment(sizes_for=own))

    assert (made.shared_tokens, made.b_tokens, made.a_tokens) == (18, 38, (30,))
    assert plan(experiment(sizes_for=own), profile(name="other")).shared_tokens == 20
    with pytest.raises(DefinitionError, match=r"sizes_for\.listed\.a: one: 17 tokens leave no"):
        plan(experiment(sizes_for=broken))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sizes": {"shared": "20", "b": "block*", "a": ["31"]}}, r"sizes\.b"),
        ({"sizes": {"shared": "20", "b": "40", "a": ["31", "30+1"]}}, r"sizes\.a: two entries"),
        ({"sizes": {"shared": "20", "b": "4000", "a": ["31"]}}, r"sizes\.b: one: .* too short"),
    ],
)
def test_a_size_that_cannot_be_reached_names_file_and_key(
    changes: dict[str, object], told: str
) -> None:
    """Exit 2, before anything starts."""
    with pytest.raises(DefinitionError, match=rf"arms/small\.toml: {told}"):
        plan(experiment(**changes))


def test_questions_that_begin_alike_are_refused() -> None:
    """A and B would share more than the plan says."""
    with pytest.raises(
        DefinitionError, match=r"one\.toml: .* have 21 tokens in common instead of 20"
    ):
        plan(b_question="Any?")


def test_an_unknown_arm_is_an_error_that_lists_the_known_ones() -> None:
    """The flag is named, and what would be right."""
    with pytest.raises(DefinitionError, match=r"--arm nope.*clean, contaminated, caching-off"):
        plan(arms=["nope"])


def test_an_unknown_release_has_no_prediction_and_a_known_one_has() -> None:
    """Never a prediction by a rule that nobody has read for that release."""
    unknown = plan().arms[1].cells
    known = plan(launched=profile(vllm_version="0.29.0")).arms[1].cells

    assert all(cell.prediction is None for cell in unknown)
    measured = next(cell for cell in known if cell.place == "measured")
    assert measured.prediction is not None
    assert measured.prediction.eligible == "eligible"
    assert len(measured.prediction.requests) == len(measured.probes)


def test_an_arm_may_serve_shorter_requests() -> None:
    """Its context is a size, and stands where its command line says `{context}`."""
    arms = [
        {"name": "usual", "cell": "reference", "extra_args": ["--longest", "{context}"]},
        {
            "name": "short", "cell": "reference", "context": "5*block",
            "extra_args": ["--longest", "{context}"],
        },
    ]  # fmt: skip
    made = plan(experiment(arms=arms, expectations={}), profile(context_tokens=512))

    assert [arm.launch.argv[-2:] for arm in made.arms] == [
        ("--longest", "512"),
        ("--longest", "80"),
    ]


@pytest.mark.parametrize(
    ("arm", "told"),
    [
        ({"context": "5*block"}, r"no argument has \{context\}"),
        ({"context": "5*", "extra_args": ["{context}"]}, "is no size"),
    ],
)
def test_a_context_that_cannot_be_used_names_file_and_key(
    arm: dict[str, object], told: str
) -> None:
    """It would be ignored in silence otherwise."""
    asked = experiment(arms=[{"name": "short", "cell": "reference", **arm}], expectations={})

    with pytest.raises(DefinitionError, match=rf"arms/small\.toml: arms\.short\.context: .*{told}"):
        plan(asked)


def test_a_start_needs_room_for_all_its_requests_and_with_company_for_one_that_is_alone() -> None:
    """Nothing of a volley is restored, so its cache may be too small for it."""
    arms = [
        {"name": "alone", "cell": "reference"},
        {"name": "company", "cell": "reference", "concurrency": 4},
    ]
    alone, company = plan(experiment(arms=arms, expectations={})).arms

    b, documents, repeats, reference_repeats = 40, 2, 4, 2
    assert alone.declared.prompt_tokens == documents * (repeats + 2 * reference_repeats) * b
    assert company.declared.prompt_tokens == b
