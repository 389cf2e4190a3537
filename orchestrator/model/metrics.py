"""Counters of a vLLM server, as its /metrics page states them."""

from orchestrator.model.record import Record

Number = int | float


class MetricsReading(Record):
    """One reading, or the difference of two. None: the page does not have it; never zero.

    Counters of several engines are summed.
    """

    prefix_cache_queries_tokens: Number | None = None
    prefix_cache_hits_tokens: Number | None = None

    preemptions: Number | None = None
    """The only trace of a preemption: the V1 engine logs none. A preempted request that is
    computed again counts as cache hits (vLLM #25780), so hits are clean only where this is 0."""

    requests_finished: Number | None = None
    """For whatever reason, abort and error included."""

    requests_running: Number | None = None
    requests_waiting: Number | None = None

    kv_cache_usage_ratio: Number | None = None
    """From 0 to 1; the fullest engine's, where there are several."""

    draft_tokens: Number | None = None
    accepted_draft_tokens: Number | None = None
    prompt_tokens: Number | None = None
    prompt_tokens_cached: Number | None = None
    prompt_tokens_recomputed: Number | None = None
    generation_tokens: Number | None = None

    iteration_tokens_count: Number | None = None
    """Engine steps that were reported so far. On 0.29.0 it stood still for a chunked prefill of
    63 chunks in 6.3 s, so alone it is no heartbeat (`adapters/heartbeat.py`)."""

    prefill_time_s: Number | None = None
    """Sum over all requests so far, from the first scheduling to the first token."""

    time_to_first_token_s: Number | None = None
    """Sum over all requests so far, from arrival to the first token."""


class CacheConfig(Record):
    """The engine's resolved cache settings. None: absent, or "None" in the engine's own words."""

    block_size_tokens: int | None = None
    enable_prefix_caching: bool | None = None

    mamba_block_size: int | None = None
    """In tokens. What the scheduler splits on may be `block_size_tokens` all the same: with a
    flag not given, this one was seen at 16 beside a grid of 288 or 384."""

    mamba_cache_mode: str | None = None
    num_gpu_blocks: int | None = None
    cache_dtype: str | None = None
    mamba_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    kv_cache_size_tokens: int | None = None
    kv_cache_max_concurrency: float | None = None
    kv_cache_memory_bytes: int | None = None
    gpu_memory_utilization_ratio: float | None = None
    prefix_cache_retention_interval_tokens: int | None = None
    prefix_caching_hash_algo: str | None = None
    prefix_match_unit_tokens: int | None = None
    user_specified_block_size: bool | None = None
