"""Where chunks end. Tables: vLLM's behaviour as published by the article's author."""

from dataclasses import replace

import pytest

from orchestrator.miniature.requests import Request, Wish
from orchestrator.miniature.scheduler import Limits, Scheduler

PUBLISHED = Limits(
    block_size=1600,
    max_num_batched_tokens=8192,
    max_model_len=65536,
    prefix_caching=True,
    num_speculative_tokens=2,
    num_blocks=1000,
)
"""Of the two stacks that he measured."""


def chunk_ends(prompt_tokens: int, limits: Limits) -> list[int]:
    """Schedule one prompt on a fresh server, until all of it is computed."""
    scheduler = Scheduler(limits)
    wish = Wish(prompt=tuple(range(prompt_tokens)), max_tokens=1)
    request = Request("only", wish, limits.block_size, arrived_s=0.0)
    scheduler.waiting.append(request)
    ends = []
    while request.computed < prompt_tokens:
        (chunk,) = scheduler.schedule()
        request.computed = chunk.end
        ends.append(chunk.end)
    return ends


@pytest.mark.parametrize(
    ("prompt_tokens", "ends"),
    [
        (3199, [3199]),
        (3200, [1600, 3200]),
        (4799, [1600, 4799]),
        (4800, [3200, 4800]),
        (9698, [8000, 9698]),
    ],
)
def test_with_drafts_the_last_stop_backs_off_by_a_block(
    prompt_tokens: int, ends: list[int]
) -> None:
    """A chunk that starts on a boundary runs over several; only its end can be saved."""
    assert chunk_ends(prompt_tokens, PUBLISHED) == ends


@pytest.mark.parametrize(
    ("prompt_tokens", "ends"),
    [(1601, [1600, 1601]), (3199, [1600, 3199]), (3201, [3200, 3201]), (3200, [3200])],
)
def test_without_drafts_a_prompt_stops_at_its_last_boundary(
    prompt_tokens: int, ends: list[int]
) -> None:
    """The rest is one more chunk."""
    assert chunk_ends(prompt_tokens, replace(PUBLISHED, num_speculative_tokens=0)) == ends


def test_a_block_wider_than_the_budget_is_computed_in_pieces() -> None:
    """They re-align at each boundary."""
    limits = replace(PUBLISHED, num_speculative_tokens=0, max_num_batched_tokens=1024)

    assert chunk_ends(3300, limits) == [1024, 1600, 2624, 3200, 3300]


def test_without_caching_only_the_budget_clips() -> None:
    """No state is saved, so no boundary matters."""
    assert chunk_ends(9698, replace(PUBLISHED, prefix_caching=False)) == [8192, 9698]


def test_a_budget_is_shared_in_order_of_arrival() -> None:
    """The first request takes what it needs, the second one a clipped rest."""
    scheduler = Scheduler(replace(PUBLISHED, block_size=32, max_num_batched_tokens=160))
    for name in ("first", "second"):
        wish = Wish(prompt=tuple(range(100)), max_tokens=1, salt=name)
        scheduler.waiting.append(Request(name, wish, 32, arrived_s=0.0))

    step = scheduler.schedule()

    assert [(chunk.request.id, chunk.start, chunk.end) for chunk in step] == [
        ("first", 0, 64),
        ("second", 0, 64),
    ]


def test_where_blocks_run_out_the_youngest_request_starts_anew() -> None:
    """The older one goes on; the younger one waits with nothing, in front of the queue."""
    limits = replace(
        PUBLISHED, block_size=32, num_blocks=7, prefix_caching=False, num_speculative_tokens=0
    )
    scheduler = Scheduler(limits)
    old, young = (
        Request(name, Wish(prompt=tuple(range(64)), max_tokens=64), 32, arrived_s=0.0)
        for name in ("old", "young")
    )
    scheduler.waiting.extend([old, young])
    for chunk in scheduler.schedule():
        chunk.request.computed = chunk.end
    assert scheduler.running == [old, young]
    for _ in range(33):  # each now needs two blocks more, and there is one
        for request in (old, young):
            request.tokens.append(1)

    step = scheduler.schedule()

    assert [chunk.request for chunk in step] == [old]
    assert list(scheduler.waiting) == [young]
    assert (young.computed, young.blocks, young.preemptions, scheduler.preemptions) == (0, [], 1, 1)
