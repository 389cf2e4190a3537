"""Where prefill chunks end: published chunk tables, and what each rule changed."""

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.model.prediction import SchedulerSettings
from orchestrator.prediction.cells import predict_cell
from tests.prediction.scheduling import CPU_PLAIN, GB10, changed, ends


def cold(settings: SchedulerSettings, prompt_tokens: int) -> list[int]:
    """Where the chunks of a prompt end that nothing was sent before."""
    (request,) = predict_cell([range(prompt_tokens)], settings, max_tokens=1)
    return ends(request)


@pytest.mark.parametrize(
    ("prompt_tokens", "expected"),
    [
        (3199, [0, 3199]),
        (3200, [0, 1600, 3200]),
        (4799, [0, 1600, 4799]),
        (4800, [0, 3200, 4800]),
        (9698, [0, 8000, 9698]),
    ],
)
def test_with_drafts_a_prefill_stops_one_block_before_its_last_boundary(
    prompt_tokens: int, expected: list[int]
) -> None:
    """The chunk tables that were published with the article's measurements."""
    assert cold(GB10, prompt_tokens) == expected


@pytest.mark.parametrize(
    ("prompt_tokens", "expected"),
    [(1601, [0, 1600, 1601]), (3199, [0, 1600, 3199]), (3201, [0, 3200, 3201])],
)
def test_without_drafts_a_prefill_stops_at_its_last_boundary(
    prompt_tokens: int, expected: list[int]
) -> None:
    """The same tables without speculation."""
    assert cold(changed(GB10, speculative=False), prompt_tokens) == expected


def test_a_block_wider_than_the_budget_is_computed_in_pieces_that_realign() -> None:
    """From v0.27 on a chunk that starts inside a block ends at the block's end."""
    narrow = changed(GB10, speculative=False, token_budget=1024)

    assert cold(narrow, 3300) == [0, 1024, 1600, 2624, 3200, 3300]


def test_a_chunk_that_starts_inside_a_block_ends_with_it_even_beyond_the_last_checkpoint() -> None:
    """v0.26 lets it run on to the end of the prompt there."""
    narrow = changed(GB10, token_budget=1024)

    assert cold(narrow, 1700) == [0, 1024, 1600, 1700]
    assert cold(changed(narrow, rule="v0.26"), 1700) == [0, 1024, 1700]


def test_before_v0_27_such_a_prompt_is_never_finished() -> None:
    """The scheduler floors the chunk to nothing, for ever; a prediction must say so."""
    narrow = changed(GB10, rule="v0.26", token_budget=1024)

    with pytest.raises(DefinitionError, match="would never finish a prompt of 3300"):
        cold(narrow, 3300)


def test_a_prompt_below_the_last_checkpoint_is_one_chunk_even_where_the_budget_is_narrow() -> None:
    """v0.26 floors only what ends before the last checkpoint, and there is none."""
    narrow = changed(GB10, rule="v0.26", token_budget=1024)

    assert cold(narrow, 1000) == [0, 1000]


def test_the_patch_ends_a_chunk_at_each_boundary() -> None:
    """The article's one line: chunk bounds depend on the position alone."""
    assert cold(changed(GB10, every_boundary=True), 4799) == [0, 1600, 3200, 4799]


def test_a_prompt_of_whole_blocks_keeps_its_end_free_since_v0_32() -> None:
    """A resent prompt recomputes its last token, so a state at its very end is never found."""
    assert cold(CPU_PLAIN, 96) == [0, 96]
    assert cold(changed(CPU_PLAIN, rule="v0.32"), 96) == [0, 64, 96]


def test_hashes_that_look_ahead_make_the_back_off_needless() -> None:
    """v0.33 drops no block with drafts, so the last boundary is a checkpoint again."""
    assert cold(changed(GB10, rule="v0.32"), 4799) == [0, 1600, 4799]
    assert cold(changed(GB10, rule="v0.33"), 4799) == [0, 3200, 4799]


def test_without_prefix_caching_only_the_budget_splits() -> None:
    """Align mode is on only where states are cached."""
    off = changed(GB10, prefix_caching=False)

    assert cold(off, 9698) == [0, 8192, 9698]
