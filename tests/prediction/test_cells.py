"""Cells against what real servers answered."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import DefinitionError
from orchestrator.model.prediction import SchedulerSettings
from orchestrator.prediction.cells import predict_cell
from tests.prediction.scheduling import (
    CPU_MTP,
    CPU_PLAIN,
    GB10,
    MAX_TOKENS,
    UNHURRIED,
    cached,
    changed,
    contaminated,
    ends,
)

PUBLISHED = json.loads((Path(__file__).parent / "published-pairs.json").read_text("utf-8"))

H200_MTP = changed(CPU_MTP, rule="v0.26", block_tokens=288, token_budget=8192)
H200_PLAIN = changed(H200_MTP, block_tokens=272, speculative=False)
"""vLLM 0.26.0 on an H200, as recorded; retention is dense there."""


@pytest.mark.parametrize("cell", PUBLISHED["cells_with_cached_tokens"], ids=lambda c: c["name"])
def test_the_published_cells_have_their_cached_tokens(cell: dict[str, int]) -> None:
    """Measured by the article's author on a GB10, through the server's own report."""
    lengths = {"a": cell["a_tokens"], "b": cell["b_tokens"], "shared": cell["shared_tokens"]}
    prediction = contaminated(GB10, **lengths, repeats=4)

    assert cached(prediction.requests[1:]) == cell["cached_tokens"]


@pytest.mark.parametrize("every_boundary", [False, True])
@pytest.mark.parametrize("a", [572, 575, 576, 581, 855, 860, 869])
def test_with_drafts_b_always_resumes_at_one_block(a: int, every_boundary: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """On vLLM 0.26.0, B of 2 blocks + 100, shared 1.5 blocks: cached 0, 288, 288, 288, 288."""
    settings = changed(H200_MTP, every_boundary=every_boundary)
    prediction = contaminated(settings, a=a, b=676, shared=432, repeats=5)

    assert cached(prediction.requests) == [0, 0, 288, 288, 288, 288]


@pytest.mark.parametrize(
    ("a", "expected"),
    [(540, [272, 544, 544]), (543, [272, 544, 544]), (544, [0, 544, 544]), (549, [0, 544, 544])],
)
def test_without_drafts_the_first_run_of_b_may_resume_at_a_s_state(
    a: int, expected: list[int]
) -> None:
    """On vLLM 0.26.0 without speculation, B of 2 blocks + 100, shared 1.5 blocks."""
    prediction = contaminated(H200_PLAIN, a=a, b=644, shared=408)

    assert cached(prediction.requests[1:]) == expected


@pytest.mark.parametrize("a", [50, 62])
def test_a_state_of_a_is_found_by_the_first_run_of_b(a: int) -> None:
    """On vLLM for CPU 0.29.0 without speculation, B = 100, shared 40: cached 32, 96, 96, 96."""
    prediction = contaminated(CPU_PLAIN, a=a, b=100, shared=40, repeats=4)

    assert cached(prediction.requests[1:]) == [32, 96, 96, 96]


def test_keys_and_values_without_a_state_are_no_hit_but_a_junction() -> None:
    """A = 70 leaves keys and values at 32 and a state only at 64, beyond what B shares.

    B's first run finds nothing, and is stopped where the shared keys and values end.
    """
    first, second, *_ = contaminated(CPU_PLAIN, a=70, b=100, shared=40).requests[1:]

    assert (first.cached_tokens, first.junction, ends(first)) == (0, 32, [0, 32, 96, 100])
    assert first.checkpoints == (32, 96)
    assert second.cached_tokens == 96


def test_with_drafts_the_last_matching_block_is_given_back() -> None:
    """Shared 40 is one block: after the drop nothing is left, so there is no junction either."""
    first = contaminated(CPU_MTP, a=70, b=100, shared=40).requests[1]

    assert (first.cached_tokens, first.junction) == (0, None)


def test_a_prompt_of_whole_blocks_recomputes_its_last_block() -> None:
    """The last token is always computed anew, for its logits."""
    dense = changed(CPU_PLAIN, retention_tokens=None)
    requests = predict_cell([range(96)] * 2, dense, max_tokens=MAX_TOKENS)

    assert requests[0].checkpoints == (96,)
    assert cached(requests) == [0, 0]
    assert requests[1].junction == 64


def test_sparse_retention_with_drafts_keeps_nothing_that_is_ever_found() -> None:
    """v0.29 with the interval set to 0: the state one block back is dropped at once.

    The repeat finds a junction there instead, and its own stop is kept.
    """
    sparse = changed(CPU_MTP, retention_tokens=0)
    requests = predict_cell([range(100)] * 3, sparse, max_tokens=MAX_TOKENS)

    assert cached(requests) == [0, 0, 64]
    assert [request.checkpoints for request in requests] == [(), (64,), ()]


def test_since_v0_30_sparse_retention_keeps_what_a_repeat_resumes_at() -> None:
    """The retained boundary follows the block that drafts drop."""
    sparse = changed(CPU_MTP, rule="v0.30", retention_tokens=0)

    assert cached(predict_cell([range(100)] * 2, sparse, max_tokens=MAX_TOKENS)) == [0, 64]


def test_an_interval_keeps_states_in_between() -> None:
    """Two blocks: of four chunk ends every second one stays, and the one to resume at."""
    every_two = changed(CPU_PLAIN, retention_tokens=64, token_budget=32)
    (request,) = predict_cell([range(170)], every_two, max_tokens=MAX_TOKENS)

    assert ends(request) == [0, 32, 64, 96, 128, 160, 170]
    assert request.checkpoints == (64, 128, 160)


def test_a_block_that_looks_ahead_needs_the_token_after_it() -> None:
    """v0.33 with drafts: sharing 64 tokens exactly is sharing one block, 65 is two."""
    settings = changed(CPU_MTP, rule="v0.33")
    at_the_boundary = contaminated(settings, a=100, b=100, shared=64).requests[1]
    one_further = contaminated(settings, a=100, b=100, shared=65).requests[1]

    assert (at_the_boundary.junction, one_further.junction) == (32, 64)


def test_writers_name_request_and_chunk() -> None:
    """B's repeat restores A's keys and values beside the state that B saved itself."""
    second = contaminated(CPU_MTP, a=62, b=80, shared=40).requests[2]

    assert [[(w.request, w.start, w.end) for w in parts] for parts in second.restored_blocks] == [
        [(0, 0, 62)]
    ]
    assert second.restored_state is not None
    assert second.restored_state.model_dump() == {"request": 1, "start": 0, "end": 32}


def test_a_block_cut_by_the_budget_has_several_writers() -> None:
    """Each chunk that computed a part of it is named."""
    narrow = changed(CPU_PLAIN, token_budget=20)
    second = predict_cell([range(70)] * 2, narrow, max_tokens=MAX_TOKENS)[1]

    assert [(w.start, w.end) for w in second.restored_blocks[1]] == [(32, 52), (52, 64)]


def test_without_prefix_caching_nothing_is_found_or_kept() -> None:
    """Zero, which the plan may compare; what the server answers is the server's word."""
    off = changed(CPU_MTP, prefix_caching=False)
    requests = predict_cell([range(100)] * 2, off, max_tokens=MAX_TOKENS)

    assert cached(requests) == [0, 0]
    assert requests[0].checkpoints == ()


def test_a_prompt_that_goes_on_where_another_generated_is_unknown() -> None:
    """A turn of a chat: whether the block in between is found depends on the generated tokens."""
    first, longer = range(60), range(100)

    within = predict_cell([first, longer], CPU_PLAIN, max_tokens=4)
    beyond = predict_cell([first, longer], CPU_PLAIN, max_tokens=5)

    assert cached(within) == [0, 32]
    assert cached(beyond) == [0, None]


def test_what_follows_an_unknown_request_is_unknown_where_they_share() -> None:
    """The unknown request may have resumed later and saved fewer states."""
    first, longer, other = range(60), range(100), [*range(40), *range(900, 1000)]

    requests = predict_cell([first, longer, longer, other], CPU_PLAIN, max_tokens=8)

    assert cached(requests) == [0, None, None, 32]


def test_a_request_that_may_have_stopped_elsewhere_leaves_its_states_in_doubt() -> None:
    """The second stops at a junction that depends on what the first generated.

    The third shares only what lies before: whether a state is there is not known either.
    """
    sparse = changed(CPU_MTP, retention_tokens=0)
    third = [*range(70), *range(900, 960)]

    assert cached(predict_cell([range(92), range(140), third], sparse, max_tokens=4)) == [0, 0, 32]
    assert cached(predict_cell([range(92), range(140), third], sparse, max_tokens=8)) == [
        0,
        None,
        None,
    ]


def test_what_was_generated_elsewhere_decides_nothing() -> None:
    """The same beginning of a block after another prefix is another block."""
    other = [*range(500, 532), *range(32, 140)]

    assert cached(predict_cell([range(60), other], CPU_PLAIN, max_tokens=8)) == [0, 0]


def test_the_last_block_of_a_prompt_has_no_hash_that_looks_ahead() -> None:
    """v0.33 with drafts: the token after it is not there yet, so its state is not cached."""
    ahead = changed(CPU_MTP, rule="v0.33")

    assert predict_cell([range(96)], ahead, max_tokens=1)[0].checkpoints == (64,)


def test_v0_24_stops_only_the_first_chunk_at_a_junction() -> None:
    """From v0.26 on any chunk stops there."""
    narrow = changed(CPU_PLAIN, rule="v0.24", token_budget=96)
    a = [*range(130), *range(900, 970)]
    b = range(300)

    assert ends(predict_cell([a, b], narrow, max_tokens=1)[1]) == [0, 96, 192, 288, 300]
    later = changed(narrow, rule="v0.26")
    assert ends(predict_cell([a, b], later, max_tokens=1)[1]) == [0, 96, 128, 224, 288, 300]


@pytest.mark.parametrize("changes", [{"speculative": True}, {"every_boundary": True}])
def test_what_was_never_checked_is_refused(changes: dict[str, bool]) -> None:
    """Releases before v0.26 are described without drafts and without the patch only."""
    with pytest.raises(DefinitionError, match=r"releases before v0\.26"):
        predict_cell([range(10)], changed(CPU_PLAIN, rule="v0.24", **changes), max_tokens=1)


LENGTHS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 90)), min_size=1, max_size=5)
SETTINGS = st.builds(
    SchedulerSettings,
    rule=st.sampled_from(["v0.27", "v0.30", "v0.32", "v0.33"]),
    block_tokens=st.sampled_from([8, 16]),
    token_budget=st.integers(3, 300),
    prefix_caching=st.just(value=True),
    speculative=st.booleans(),
    retention_tokens=st.sampled_from([None, 0, 32]),
)


@UNHURRIED
@given(lengths=LENGTHS, settings=SETTINGS)
def test_chunks_cover_what_was_not_restored(
    lengths: list[tuple[int, int]], settings: SchedulerSettings
) -> None:
    """From the hit to the end of the prompt, without gaps; a hit ends at a saved state."""
    prompts = [
        [*range(shared), *(1000 * index + i for i in range(own))]
        for index, (shared, own) in enumerate(lengths, start=1)
    ]
    for request, prompt in zip(predict_cell(prompts, settings, max_tokens=1), prompts, strict=True):
        bounds = ends(request)
        assert (
            bounds[0]
            == request.cached_tokens
            == settings.block_tokens * len(request.restored_blocks)
        )
        assert bounds[-1] == len(prompt)
        assert all(left < right for left, right in pairwise(bounds))
        if request.restored_state is not None:
            assert request.restored_state.end == request.cached_tokens
