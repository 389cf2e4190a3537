"""One step of the engine: schedule, compute, choose tokens, save states, draft."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .arithmetic import FloatArray
from .cache import Block, Key, Writing
from .model import Chunk, Computed, Model
from .oracle import Truth, describe
from .requests import Generated, Request, Wish
from .sampling import choose
from .scheduler import Limits, Scheduled, Scheduler

_TRUTHS_KEPT = 1000
"""Finished requests that the oracle remembers: more than any test sends to one engine."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a step added to a request; the request says whether it is finished."""

    request: Request
    added: tuple[Generated, ...]


@dataclass(slots=True)
class DraftCounts:
    """Over the engine's life."""

    steps: int
    """Steps that verified drafts, per request."""

    proposed: int
    accepted_by_position: list[int]


class Engine:
    """Model, cache and queues. Used by one thread."""

    def __init__(
        self,
        model: Model,
        limits: Limits,
        *,
        seed: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self.scheduler = Scheduler(limits)
        self.draft_counts = DraftCounts(0, 0, [0] * limits.num_speculative_tokens)
        self.computed_prompt_tokens = 0
        self.generated_tokens = 0
        self.truths: OrderedDict[str, Truth] = OrderedDict()
        self._model = model
        self._clock = clock
        self._generator = np.random.default_rng(seed)

    def add(self, request_id: str, wish: Wish) -> Request:
        """Queue a request."""
        request = Request(request_id, wish, self.limits.block_size, arrived_s=self._clock())
        self.scheduler.waiting.append(request)
        return request

    def abort(self, request: Request) -> None:
        """Give a request up; nothing more will come of it."""
        request.finish_reason = "abort"
        self.scheduler.remove(request)

    def step(self) -> list[Progress]:
        """Compute one chunk of each request that was scheduled."""
        step = self.scheduler.schedule()
        if not step:
            return []
        now = self._clock()
        for scheduled in step:
            if scheduled.request.scheduled_s is None:
                scheduled.request.scheduled_s = now
        computed = self._model.compute([self._chunk(scheduled) for scheduled in step])
        progress = [
            Progress(scheduled.request, self._advance(scheduled, result))
            for scheduled, result in zip(step, computed, strict=True)
        ]
        for made in progress:
            if made.request.finish_reason is not None:
                self._finish(made.request)
        return progress

    def _chunk(self, scheduled: Scheduled) -> Chunk:
        request = scheduled.request
        sequence = request.tokens + request.drafts
        return Chunk(
            tokens=np.array(sequence[scheduled.start : scheduled.end], np.int64),
            start=scheduled.start,
            state=_state(request),
            blocks=_contents(request.blocks),
            token_by_token=scheduled.token_by_token,
        )

    def _advance(self, scheduled: Scheduled, computed: Computed) -> tuple[Generated, ...]:
        request, start = scheduled.request, scheduled.start
        known = len(request.tokens)
        self.computed_prompt_tokens += max(min(scheduled.end, len(request.wish.prompt)) - start, 0)
        added = () if scheduled.end < known else self._generate(scheduled, computed.hidden)
        self.generated_tokens += len(added)
        end = min(scheduled.end, len(request.tokens) - 1) if added else scheduled.end
        self._note(scheduled, end)
        request.drafts = []
        if self.limits.num_speculative_tokens:
            request.drafts = self._draft(request, computed.hidden[: end - start], start)
        request.state = computed.states[end - start - 1 if scheduled.token_by_token else -1]
        request.computed = end
        if self.limits.prefix_caching:
            self._save_state(scheduled, computed.states)
            self._offer_blocks(request)
        return added

    def _generate(self, scheduled: Scheduled, hidden: FloatArray) -> tuple[Generated, ...]:
        """Choose the next token; while it is the drafted one, the one after it as well."""
        request = scheduled.request
        known = len(request.tokens)
        drafts = request.drafts[: scheduled.end - known]
        logits = self._model.logits(hidden[known - 1 - scheduled.start :])
        added: list[Generated] = []
        for row, guess in zip(logits, [*drafts, None], strict=True):
            added.append(self._choose(request, row))
            request.append(added[-1])
            self._judge_end(request)
            if added[-1].token != guess or request.finish_reason is not None:
                break
        self._count_drafts(drafts, added)
        return tuple(added)

    def _choose(self, request: Request, logits: FloatArray) -> Generated:
        wish = request.wish
        generator = self._generator
        if wish.seed is not None:
            generator = np.random.default_rng((wish.seed, len(request.generated)))
        return choose(
            logits,
            temperature=wish.temperature,
            top_logprobs=wish.top_logprobs,
            generator=generator,
        )

    def _judge_end(self, request: Request) -> None:
        now = self._clock()
        request.first_token_s = request.first_token_s or now
        request.last_token_s = now
        wish, count = request.wish, len(request.generated)
        if request.tokens[-1] in wish.stop_tokens and count >= wish.min_tokens:
            request.finish_reason = "stop"
        elif count >= wish.max_tokens or len(request.tokens) >= self.limits.max_model_len:
            request.finish_reason = "length"

    def _count_drafts(self, drafts: list[int], added: list[Generated]) -> None:
        if not drafts:
            return
        self.draft_counts.steps += 1
        self.draft_counts.proposed += len(drafts)
        for position, (guess, chosen) in enumerate(zip(drafts, added, strict=False)):
            self.draft_counts.accepted_by_position[position] += guess == chosen.token

    def _draft(self, request: Request, hidden: FloatArray, start: int) -> list[int]:
        """Run the draft head over what was computed, then over its own guesses.

        The first pass is needed even when nothing is to be guessed: it stores the head's keys and
        values.
        """
        count = min(
            self.limits.num_speculative_tokens, self.limits.max_model_len - 1 - len(request.tokens)
        )
        end = start + len(hidden)
        following = request.tokens[start + 1 : end + 1]
        guesses: list[int] = []
        while following:
            chunk = Chunk(
                tokens=np.array(following, np.int64),
                start=start,
                state=_state(request),
                blocks=_contents(request.blocks),
                token_by_token=False,
            )
            hidden = self._model.draft(hidden, chunk)[-1:]
            if end < len(request.tokens) - 1 or len(guesses) >= count:
                break
            guesses.append(int(np.argmax(self._model.logits(hidden)[0])))
            following, start = guesses[-1:], end + len(guesses) - 1
        return guesses[:count]

    def _note(self, scheduled: Scheduled, end: int) -> None:
        """Write down who computed what, for the oracle."""
        request, size = scheduled.request, self.limits.block_size
        writing = Writing(request.id, scheduled.start, end)
        request.chunks.append((scheduled.start, end))
        for block in request.blocks[scheduled.start // size : -(-end // size)]:
            block.writings.append(writing)

    def _save_state(self, scheduled: Scheduled, states: list[FloatArray]) -> None:
        """Keep the state at the last block boundary that the step reached, if it has one."""
        request, size = scheduled.request, self.limits.block_size
        block, request.checkpoint = request.checkpoint, None
        if block is None:
            return
        boundary = request.computed // size * size
        inside = boundary - scheduled.start - 1
        exact = scheduled.token_by_token or boundary == request.computed
        if inside >= 0 and exact and self._retained(request, boundary):
            block.content = states[inside if scheduled.token_by_token else -1]
            block.writings = [Writing(request.id, scheduled.start, boundary)]
            self.scheduler.cache.offer(Key("state", request.hashes[boundary // size - 1]), block)
        self.scheduler.cache.release([block])

    def _retained(self, request: Request, boundary: int) -> bool:
        """Whether a state at this boundary is kept.

        With drafts every one is. Without, vLLM's `prefix_cache_retention_interval` is 0 by
        default: only the boundary that a repetition of the prompt resumes from, and a junction.
        """
        if self.limits.num_speculative_tokens:
            return True
        size = self.limits.block_size
        replay = (len(request.wish.prompt) - 1) // size * size
        return boundary in (replay, request.restored.junction)

    def _offer_blocks(self, request: Request) -> None:
        full = request.computed // self.limits.block_size
        for prefix_hash, block in zip(request.hashes[:full], request.blocks, strict=False):
            self.scheduler.cache.offer(Key("keys-values", prefix_hash), block)

    def _finish(self, request: Request) -> None:
        self.truths[request.id] = describe(request, self.limits.block_size)
        if len(self.truths) > _TRUTHS_KEPT:
            self.truths.popitem(last=False)
        self.scheduler.remove(request)


def _state(request: Request) -> FloatArray:
    """A scheduled request has one; the type allows for requests that wait."""
    if request.state is None:
        raise RuntimeError(f"{request.id} was scheduled without a state")
    return request.state


def _contents(blocks: list[Block]) -> list[FloatArray]:
    return [block.content for block in blocks if block.content is not None]
