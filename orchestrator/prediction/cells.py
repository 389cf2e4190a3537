"""A cell, request by request: what each one restores, how it is split, what it leaves behind."""

from collections.abc import Iterator, Sequence

from orchestrator.errors import DefinitionError
from orchestrator.model.prediction import (
    ChunkPrediction,
    RequestPrediction,
    SchedulerSettings,
    Writer,
)
from orchestrator.prediction.caching import Hit, PrefixCache, retains
from orchestrator.prediction.splitting import chunk_end

NOTHING_FOUND = Hit(tokens=0, junction=None, blocks=(), state=None, depends_on_output=False)


def predict_cell(
    requests: Sequence[Sequence[int]], settings: SchedulerSettings, *, max_tokens: int
) -> tuple[RequestPrediction, ...]:
    """Predict requests sent one after the other under one salt, into an empty cache.

    Args:
        requests: Token ids of each prompt, exactly as they are sent.
        settings: Of the server.
        max_tokens: Tokens that each request generates.

    Raises:
        DefinitionError: The scheduler would never finish one of the prompts, or the settings are
            of a kind that no rule here describes.
    """
    _check(settings)
    cache = PrefixCache(settings)
    predictions: list[RequestPrediction] = []
    for index, prompt in enumerate(requests):
        hit = cache.find(prompt) if settings.prefix_caching else NOTHING_FOUND
        chunks = tuple(_chunks(len(prompt), hit, settings))
        writers = [Writer(request=index, start=chunk.start, end=chunk.end) for chunk in chunks]
        saved = [w for w, chunk in zip(writers, chunks, strict=True) if chunk.saves_state]
        cache.keep(prompt, hit, writers, saved)
        cache.keep_generated(prompt, max_tokens)
        predictions.append(
            RequestPrediction(
                cached_tokens=None if hit.depends_on_output else hit.tokens,
                junction=hit.junction,
                chunks=chunks,
                restored_blocks=hit.blocks,
                restored_state=hit.state,
            )
        )
    return tuple(predictions)


def _check(settings: SchedulerSettings) -> None:
    if settings.rule in ("v0.15", "v0.24") and (settings.speculative or settings.every_boundary):
        raise DefinitionError(
            f"scheduler rule {settings.rule}",
            "releases before v0.26 are described without drafts and without the patch only",
        )


def _chunks(prompt_tokens: int, hit: Hit, settings: SchedulerSettings) -> Iterator[ChunkPrediction]:
    start = hit.tokens
    while start < prompt_tokens:
        wanted = min(prompt_tokens, start + settings.token_budget)
        end = _end(start, wanted, prompt_tokens, hit, settings)
        if end <= start:
            raise DefinitionError(
                "--max-num-batched-tokens",
                f"{settings.token_budget} is less than the block of {settings.block_tokens}; "
                f"this scheduler ({settings.rule}) would never finish a prompt of {prompt_tokens}",
            )
        saves = settings.prefix_caching and retains(end, prompt_tokens, hit.junction, settings)
        yield ChunkPrediction(start=start, end=end, saves_state=saves)
        start = end


def _end(start: int, wanted: int, prompt_tokens: int, hit: Hit, settings: SchedulerSettings) -> int:
    if not settings.prefix_caching:
        return wanted
    junction = hit.junction
    if settings.rule == "v0.24" and start != hit.tokens:
        junction = None  # that release hands it to the first chunk only
    return chunk_end(start, wanted, prompt_tokens, junction, settings)
