"""Every metric of a vLLM server: name, kind, help text, labels, buckets.

Source: /metrics of vLLM 0.29.0 (and, for drafts, 0.26.0), as recorded.
"""

from typing import NamedTuple

_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)
_REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0),
    *(240.0, 480.0, 960.0, 1920.0, 7680.0),
)


class Family(NamedTuple):
    """One metric; all have the labels `engine` and `model_name` as well."""

    help: str
    label: str | None = None
    values: tuple[str, ...] = ()
    """Of the label; each is shown from the start."""

    buckets: tuple[float, ...] = ()


COUNTERS = {
    "estimated_flops_per_gpu": Family(
        "Estimated number of floating point operations per GPU (for Model Flops "
        "Utilization calculations)."
    ),
    "estimated_read_bytes_per_gpu": Family(
        "Estimated number of bytes read from memory per GPU (for Model Flops "
        "Utilization calculations)."
    ),
    "estimated_write_bytes_per_gpu": Family(
        "Estimated number of bytes written to memory per GPU (for Model Flops "
        "Utilization calculations)."
    ),
    "prefix_cache_queries": Family("Prefix cache queries, in terms of number of queried tokens."),
    "prefix_cache_hits": Family("Prefix cache hits, in terms of number of cached tokens."),
    "external_prefix_cache_queries": Family(
        "External prefix cache queries from KV connector cross-instance cache sharing, "
        "in terms of number of queried tokens."
    ),
    "external_prefix_cache_hits": Family(
        "External prefix cache hits from KV connector cross-instance cache sharing, in "
        "terms of number of cached tokens."
    ),
    "mm_cache_queries": Family("Multi-modal cache queries, in terms of number of queried items."),
    "mm_cache_hits": Family("Multi-modal cache hits, in terms of number of cached items."),
    "num_preemptions": Family("Cumulative number of preemption from the engine."),
    "prompt_tokens": Family("Number of prefill tokens processed."),
    "prompt_tokens_cached": Family("Number of cached prompt tokens (local + external)."),
    "generation_tokens": Family("Number of generation tokens processed."),
    "prompt_tokens_by_source": Family(
        "Number of prompt tokens by source.",
        label="source",
        values=("local_compute", "local_cache_hit", "external_kv_transfer"),
    ),
    "request_success": Family(
        "Count of successfully processed requests.",
        label="finished_reason",
        values=("stop", "length", "abort", "error", "repetition"),
    ),
}
DRAFT_COUNTERS = {
    "spec_decode_num_drafts": Family("Number of spec decoding drafts."),
    "spec_decode_num_draft_tokens": Family("Number of draft tokens."),
    "spec_decode_num_accepted_tokens": Family("Number of accepted tokens."),
}
GAUGES = {
    "num_requests_running": Family("Number of requests in model execution batches."),
    "num_requests_waiting": Family("Number of requests waiting to be processed."),
    "kv_cache_usage_perc": Family("KV-cache usage. 1 means 100 percent usage."),
    "num_requests_waiting_by_reason": Family(
        (
            "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for "
            "scheduling capacity; 'deferred' = deferred by transient constraints (LoRA "
            "budget, KV transfer, blocked status). Sum of all reasons equals "
            "vllm:num_requests_waiting."
        ),
        label="reason",
        values=("capacity", "deferred"),
    ),
    "engine_sleep_state": Family(
        (
            "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means "
            "engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 "
            "means sleep level 2."
        ),
        label="sleep_state",
        values=("awake", "weights_offloaded", "discard_all"),
    ),
}
HISTOGRAMS = {
    "request_prompt_tokens": Family("Number of prefill tokens processed.", buckets=_TOKENS),
    "request_generation_tokens": Family("Number of generation tokens processed.", buckets=_TOKENS),
    "iteration_tokens_total": Family(
        "Histogram of number of tokens per engine_step.", buckets=_STEP_TOKENS
    ),
    "request_max_num_generation_tokens": Family(
        "Histogram of maximum number of requested generation tokens.", buckets=_TOKENS
    ),
    "request_params_n": Family("Histogram of the n request parameter.", buckets=(1, 2, 5, 10, 20)),
    "request_params_max_tokens": Family(
        "Histogram of the max_tokens request parameter.", buckets=_TOKENS
    ),
    "time_to_first_token_seconds": Family(
        "Histogram of time to first token in seconds.", buckets=_FIRST_TOKEN_S
    ),
    "inter_token_latency_seconds": Family(
        "Histogram of inter-token latency in seconds.", buckets=_TOKEN_S
    ),
    "request_time_per_output_token_seconds": Family(
        "Histogram of time_per_output_token_seconds per request.", buckets=_TOKEN_S
    ),
    "e2e_request_latency_seconds": Family(
        "Histogram of e2e request latency in seconds.", buckets=_REQUEST_S
    ),
    "request_queue_time_seconds": Family(
        "Histogram of time spent in WAITING phase for request.", buckets=_REQUEST_S
    ),
    "request_inference_time_seconds": Family(
        "Histogram of time spent in RUNNING phase for request.", buckets=_REQUEST_S
    ),
    "request_prefill_time_seconds": Family(
        "Histogram of time spent in PREFILL phase for request.", buckets=_REQUEST_S
    ),
    "request_decode_time_seconds": Family(
        "Histogram of time spent in DECODE phase for request.", buckets=_REQUEST_S
    ),
    "request_prefill_kv_computed_tokens": Family(
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        buckets=_TOKENS,
    ),
}
