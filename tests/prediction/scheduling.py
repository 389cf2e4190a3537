"""Settings and prompts that several of these tests use."""

from collections.abc import Sequence

import hypothesis

from orchestrator.model.prediction import CellPrediction, RequestPrediction, SchedulerSettings
from orchestrator.prediction.origins import compare_with_reference
from orchestrator.prediction.pairs import pair_prompts

MAX_TOKENS = 8

UNHURRIED = hypothesis.settings(deadline=None)
"""These tests are about values; a busy machine is no failure."""

CPU_MTP = SchedulerSettings(
    rule="v0.27",
    block_tokens=32,
    token_budget=2048,
    prefix_caching=True,
    speculative=True,
    retention_tokens=None,
)
"""vLLM for CPU 0.29.0 with drafts, as in the recorded servers."""

CPU_PLAIN = SchedulerSettings(
    rule="v0.27",
    block_tokens=32,
    token_budget=2048,
    prefix_caching=True,
    speculative=False,
    retention_tokens=0,
)
"""The same without drafts; retention is sparse by default there."""

GB10 = SchedulerSettings(
    rule="v0.27",
    block_tokens=1600,
    token_budget=8192,
    prefix_caching=True,
    speculative=True,
    retention_tokens=None,
)
"""The article's stack."""


def changed(settings: SchedulerSettings, **changes: object) -> SchedulerSettings:
    """Other settings, validated like the first ones."""
    return SchedulerSettings.model_validate({**settings.model_dump(), **changes})


def contaminated(
    settings: SchedulerSettings, *, a: int, b: int, shared: int, repeats: int = 3
) -> CellPrediction:
    """The cell A, then B `repeats` times, of prompts with these lengths."""
    first, second = pair_prompts(a, b, shared)
    cell = [first, *[second] * repeats]
    return compare_with_reference(cell, second, settings, max_tokens=MAX_TOKENS)


def cached(requests: Sequence[RequestPrediction]) -> list[int | None]:
    """Cached tokens of each request."""
    return [request.cached_tokens for request in requests]


def ends(request: RequestPrediction) -> list[int]:
    """Where a request starts to compute, and where each of its chunks ends."""
    return [request.chunks[0].start, *(chunk.end for chunk in request.chunks)]
