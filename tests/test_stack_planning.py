"""Arms with profiles of their own, each on two starts."""

from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.plan import Plan
from orchestrator.planning.launching import Stack
from orchestrator.planning.plans import make_plan
from tests.definitions import ENGINE, document, encode, experiment, profile

ARMS = [
    {"name": "old", "cell": "contaminated", "profile": "first"},
    {"name": "new", "cell": "contaminated", "profile": "second"},
]


def stacks(**second: Any) -> list[Stack]:  # noqa: ANN401 - any field
    """Two profiles with different grids, releases and engines."""
    values = {"name": "second", "vllm_version": "0.28.0", "block_size_tokens": 32} | second
    other = EngineFiles(**(ENGINE.model_dump() | {"python": "/other/python", "identity": "e-2"}))
    return [
        Stack(profile=profile(name="first", vllm_version="0.29.0"), engine=ENGINE),
        Stack(profile=profile(**values), engine=other),
    ]


def planned(
    used: Sequence[Stack] = (),
    arms: Sequence[str] = (),
    **changes: Any,  # noqa: ANN401 - any field
) -> Plan:
    """The plan of both arms, there and back."""
    values = {"arms": ARMS, "there_and_back": True, "control": "old", "expectations": {}}
    asked = experiment(**(values | changes))
    names = [*asked.documents, asked.warm_up_document]
    used = used or stacks()
    return make_plan(
        asked,
        used[0].profile,
        {name: document(name, number) for number, name in enumerate(names)},
        used[0].engine,
        encode=encode,
        selection="plain",
        arms=arms,
        stacks=used,
    )


def test_every_arm_runs_on_its_own_profile_and_again_in_reverse() -> None:
    """Command, release and grid are its profile's own."""
    made = planned()

    assert [(arm.name, arm.column, arm.profile) for arm in made.arms] == [
        ("old", "old", "first"),
        ("new", "new", "second"),
        ("new.again", "new", "second"),
        ("old.again", "old", "first"),
    ]
    assert [arm.launch.argv[0] for arm in made.arms[:2]] == ["/engine/python", "/other/python"]
    assert [arm.declared.vllm_version for arm in made.arms[:2]] == ["0.29.0", "0.28.0"]
    assert [arm.declared.block_size_tokens for arm in made.arms[:2]] == [16, 32]
    assert (made.profile, made.engine) == ("first, second", "vLLM 0.29.0, vLLM 0.28.0")
    assert made.engine_identity == "engine-1, e-2"


def test_both_starts_of_an_arm_are_sent_the_same() -> None:
    """Requests, salts and order."""
    made = planned()

    assert made.arms[0].cells == made.arms[3].cells
    assert made.arms[0].launch == made.arms[3].launch


def test_sizes_come_from_the_first_profiles_grid() -> None:
    """Resolved once: the stacks are sent the same token ids (rule 12)."""
    made = planned(sizes={"shared": "block", "b": "2*block", "a": ["block + 8"]})

    assert (made.shared_tokens, made.b_tokens, made.a_tokens) == (16, 32, (24,))


def test_an_expectation_of_an_arm_holds_for_each_of_its_starts() -> None:
    """Under the first profile's name."""
    made = planned(expectations={"first": {"old": "diverged"}})

    assert made.expectations == {"old": "diverged", "old.again": "diverged"}
    assert made.purpose == "reproduce"


def test_one_arm_alone_has_its_two_starts_and_no_base() -> None:
    """`--arm` chooses among stacks."""
    made = planned(arms=["new"])

    assert [arm.name for arm in made.arms] == ["new", "new.again"]
    assert (made.profile, made.control) == ("second", None)


def test_without_a_way_back_nothing_is_sent_twice() -> None:
    """As ever."""
    assert [arm.name for arm in planned(there_and_back=False).arms] == ["old", "new"]


@pytest.mark.parametrize("key", ["prompt_prefix", "prompt_suffix"])
def test_profiles_with_other_texts_around_a_document_are_refused(key: str) -> None:
    """Their prompts would not be the same request."""
    with pytest.raises(DefinitionError, match=f"{key} of second is not that of first"):
        planned(stacks(**{key: "<|user|>"}))


def test_an_experiment_with_half_of_its_profiles_is_refused() -> None:
    """Either the file says it or the command line."""
    with pytest.raises(ValueError, match="either every arm names its profile, or none does"):
        experiment(arms=[ARMS[0], {"name": "new", "cell": "contaminated"}], expectations={})


def test_an_arm_cannot_have_the_name_of_another_ones_second_start() -> None:
    """Their files would be one another's."""
    arms = [{"name": name, "cell": "contaminated"} for name in ("old", "old.again")]

    with pytest.raises(ValueError, match=r"ends in \.again is that of a second start"):
        experiment(arms=arms, expectations={}, there_and_back=True)
