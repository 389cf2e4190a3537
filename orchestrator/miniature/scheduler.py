"""Which request computes how many tokens in the next step.

Follows vLLM 0.29.0, v1/core/sched/scheduler.py: running requests first, then waiting ones, each
clipped to the token budget; where blocks run out, the request that came last gives up its own
and starts anew later. In align mode a prefill chunk is clipped once more, since the recurrent
state can be saved only where a chunk ends on a block boundary.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .cache import Block, Cache, longest_hit
from .requests import Request
from .weights import STATE_SHAPE, block_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the command line decides about scheduling."""

    block_size: int
    max_num_batched_tokens: int
    max_model_len: int
    prefix_caching: bool
    num_speculative_tokens: int
    num_blocks: int
    max_num_seqs: int = 128
    """vLLM's own default for a CPU."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A chunk of one request, with every block that it needs."""

    request: Request
    start: int
    end: int
    """Beyond the known tokens where drafts are to be verified."""

    token_by_token: bool
    """Generating, not computing a prompt."""


def chunk_end(request: Request, start: int, end: int, limits: Limits) -> int:
    """Clip a chunk so that it ends where a state must be saved; `start` when it must wait.

    The expression for the boundary is, letter for letter, the one in vLLM's
    `_mamba_block_aligned_split`: the patch that is tried on the real engine applies here as well.
    """
    if start >= request.prefill_end:
        return end
    block_size, num_tokens = limits.block_size, len(request.tokens)
    last_cache_position = num_tokens - num_tokens % block_size
    if limits.num_speculative_tokens:
        last_cache_position = max(last_cache_position - block_size, 0)
    if end < request.prefill_end:
        aligned = end // block_size * block_size
        # A block wider than the budget is computed in pieces that re-align at its end.
        if aligned > start or block_size <= limits.max_num_batched_tokens:
            end = aligned
    junction = request.restored.junction
    next_block_boundary = (start // block_size + 1) * block_size
    stops = (
        next_block_boundary if start % block_size != 0 else 0,
        last_cache_position,
        start + (junction - start) // block_size * block_size if start < junction < end else 0,
    )
    return max(min((stop for stop in stops if start < stop < end), default=end), start)


class Scheduler:
    """The queues, and the blocks of every request in them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.cache = Cache(limits.num_blocks)
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.preemptions = 0
        self.queried_tokens = 0
        self.hit_tokens = 0

    def schedule(self) -> list[Scheduled]:
        """Choose the chunks of one step, within the budget."""
        budget = self.limits.max_num_batched_tokens
        step: list[Scheduled] = []
        for request in self._still_running():
            chunk = self._chunk(request, request.computed, budget)
            if chunk is not None and self._allocate_or_preempt(chunk):
                step.append(chunk)
                budget -= chunk.end - chunk.start
        while self.waiting and budget and len(self.running) < self.limits.max_num_seqs:
            admitted = self._admit(self.waiting[0], budget)
            if admitted is None:
                break
            self.running.append(self.waiting.popleft())
            step.append(admitted)
            budget -= admitted.end - admitted.start
        return step

    def remove(self, request: Request) -> None:
        """Take out a request that is finished or given up."""
        if request in self.running:
            self.running.remove(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        self._release(request)

    def preempt_last(self) -> None:
        """Let the youngest running request start anew later."""
        request = self.running.pop()
        self._release(request)
        request.computed, request.drafts, request.chunks = 0, [], []
        request.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(request)

    def _still_running(self) -> Iterator[Request]:
        """In order of arrival, without those that are preempted on the way."""
        for request in tuple(self.running):
            if request in self.running:
                yield request

    def _chunk(self, request: Request, start: int, budget: int) -> Scheduled | None:
        limits = self.limits
        end = min(
            len(request.tokens) + len(request.drafts), start + budget, limits.max_model_len - 1
        )
        if limits.prefix_caching:
            end = chunk_end(request, start, end, limits)
        if end <= start:
            return None
        return Scheduled(request, start, end, token_by_token=start >= request.prefill_end)

    def _admit(self, request: Request, budget: int) -> Scheduled | None:
        """Start a waiting request from the longest prefix that the cache has of it."""
        limits = self.limits
        hit = longest_hit(
            self.cache,
            request.hashes if limits.prefix_caching else [],
            limits.block_size,
            limit=len(request.tokens) - 1,
            drop_last=limits.num_speculative_tokens > 0,
        )
        request.restored = hit
        chunk = self._chunk(request, hit.tokens, budget)
        if chunk is None:
            return None
        for block in hit.blocks:
            self.cache.hold(block)
        request.blocks = list(hit.blocks)
        if not self._allocate(chunk):
            self._release(request)
            return None
        request.computed = hit.tokens
        request.state = np.zeros(STATE_SHAPE, np.float32)
        if hit.state is not None and hit.state.content is not None:
            request.state = hit.state.content
        self._count(request, hit.tokens)
        return chunk

    def _count(self, request: Request, hit_tokens: int) -> None:
        """Hits of a first admission; what a resumed request finds is its own (vLLM #25780)."""
        if request.preemptions == 0 and self.limits.prefix_caching:
            self.queried_tokens += len(request.tokens)
            self.hit_tokens += hit_tokens
        if request.cached_tokens is None:
            request.cached_tokens = hit_tokens

    def _allocate_or_preempt(self, chunk: Scheduled) -> bool:
        while not self._allocate(chunk):
            last = self.running[-1]
            self.preempt_last()
            if last is chunk.request:
                return False
        return True

    def _allocate(self, chunk: Scheduled) -> bool:
        """Take every block that the chunk may fill, or none at all."""
        limits, request = self.limits, chunk.request
        drafts = limits.num_speculative_tokens
        reach = min(chunk.end + drafts, limits.max_model_len)
        rows = -(-reach // limits.block_size) - len(request.blocks)
        places = 0 if request.places else 1 + drafts
        boundary = chunk.end // limits.block_size > chunk.start // limits.block_size
        saves = limits.prefix_caching and boundary and request.checkpoint is None
        if self.cache.free < rows + places + saves:
            return False
        for block in self.cache.take(rows):
            block.content = np.zeros(block_shape(limits.block_size), np.float32)
            request.blocks.append(block)
        request.places += self.cache.take(places)
        if saves:
            (request.checkpoint,) = self.cache.take(1)
        return True

    def _release(self, request: Request) -> None:
        """Give everything back, the end of the sequence to be evicted first."""
        blocks: list[Block] = [*request.places, *reversed(request.blocks)]
        if request.checkpoint is not None:
            blocks.insert(0, request.checkpoint)
        self.cache.release(blocks)
        request.blocks, request.places, request.checkpoint, request.state = [], [], None, None
