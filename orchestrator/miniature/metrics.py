"""The metrics page, with this engine's numbers.

What this engine has no such thing as (external caches, images, sleeping) stays at the value that
vLLM shows for it.
"""

from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from .engine import Engine, Progress
from .metric_families import COUNTERS, DRAFT_COUNTERS, GAUGES, HISTOGRAMS, Family
from .requests import Request
from .settings import Settings

_LABELS = ("engine", "model_name")


class Metrics:
    """Counts what the engine does."""

    def __init__(self, settings: Settings) -> None:
        self.registry = CollectorRegistry()
        GCCollector(self.registry)
        PlatformCollector(self.registry)
        ProcessCollector(registry=self.registry)
        self._values = ("0", settings.served_model_name)
        self._counters: dict[tuple[str, str | None], Counter] = {}
        self._gauges: dict[tuple[str, str | None], Gauge] = {}
        self._histograms = {
            name: self._histogram(name, family) for name, family in HISTOGRAMS.items()
        }
        drafts = settings.limits.num_speculative_tokens
        for name, family in (COUNTERS | (_draft_counters(drafts) if drafts else {})).items():
            self._add_counter(name, family)
        for name, family in GAUGES.items():
            self._add_gauge(name, family)
        self._gauges["engine_sleep_state", "awake"].set(1)
        self._add_cache_config(settings)
        self._counted: dict[tuple[str, str | None], float] = {}

    def observe(self, engine: Engine, progress: Sequence[Progress]) -> None:
        """Take in a step. Called on the engine's thread."""
        scheduler = engine.scheduler
        self._gauges["num_requests_running", None].set(len(scheduler.running))
        self._gauges["num_requests_waiting", None].set(len(scheduler.waiting))
        self._gauges["num_requests_waiting_by_reason", "capacity"].set(len(scheduler.waiting))
        self._gauges["kv_cache_usage_perc", None].set(scheduler.cache.usage)
        self._raise_to("prefix_cache_queries", None, scheduler.queried_tokens)
        self._raise_to("prefix_cache_hits", None, scheduler.hit_tokens)
        self._raise_to("num_preemptions", None, scheduler.preemptions)
        if engine.limits.num_speculative_tokens:
            self._observe_drafts(engine)
        made = [item for item in progress if item.added]
        for item in made:
            self._observe_tokens(item)
            if item.request.finish_reason is not None:
                self._observe_end(item.request)
        if made:  # vLLM does not count a step that only computed a part of a prompt
            tokens = sum(len(item.added) + _prefilled(item) for item in made)
            self._histograms["iteration_tokens_total"].observe(tokens)

    def _observe_drafts(self, engine: Engine) -> None:
        counts = engine.draft_counts
        self._raise_to("spec_decode_num_drafts", None, counts.steps)
        self._raise_to("spec_decode_num_draft_tokens", None, counts.proposed)
        accepted = counts.accepted_by_position
        self._raise_to("spec_decode_num_accepted_tokens", None, sum(accepted))
        for position, count in enumerate(accepted):
            self._raise_to("spec_decode_num_accepted_tokens_per_pos", str(position), count)

    def _observe_tokens(self, item: Progress) -> None:
        request, added = item.request, len(item.added)
        self._count("generation_tokens", None, added)
        prompt = _prefilled(item)
        if prompt:
            cached = request.cached_tokens or 0
            self._count("prompt_tokens", None, prompt)
            self._count("prompt_tokens_cached", None, cached)
            self._count("prompt_tokens_by_source", "local_compute", prompt - cached)
            self._count("prompt_tokens_by_source", "local_cache_hit", cached)
            self._seconds("time_to_first_token_seconds", request.arrived_s, request.first_token_s)

    def _observe_end(self, request: Request) -> None:
        prompt, generated = len(request.wish.prompt), len(request.generated)
        self._count("request_success", request.finish_reason, 1)
        sizes = {
            "request_prompt_tokens": prompt,
            "request_generation_tokens": generated,
            "request_max_num_generation_tokens": generated,
            "request_params_n": 1,
            "request_params_max_tokens": request.wish.max_tokens,
            "request_prefill_kv_computed_tokens": prompt - (request.cached_tokens or 0),
        }
        for name, size in sizes.items():
            self._histograms[name].observe(size)
        first, last, scheduled = request.first_token_s, request.last_token_s, request.scheduled_s
        self._seconds("e2e_request_latency_seconds", request.arrived_s, last)
        self._seconds("request_queue_time_seconds", request.arrived_s, scheduled)
        self._seconds("request_inference_time_seconds", scheduled, last)
        self._seconds("request_prefill_time_seconds", scheduled, first)
        self._seconds("request_decode_time_seconds", first, last)
        if first is not None and last is not None:
            per_token = (last - first) / max(generated - 1, 1)
            self._histograms["request_time_per_output_token_seconds"].observe(per_token)
            for _ in range(generated - 1):
                self._histograms["inter_token_latency_seconds"].observe(per_token)

    def _count(self, name: str, label: str | None, amount: float) -> None:
        self._counters[name, label].inc(amount)

    def _raise_to(self, name: str, label: str | None, total: float) -> None:
        """Bring a counter up to a total that the engine keeps."""
        key = (name, label)
        self._counters[key].inc(total - self._counted.get(key, 0))
        self._counted[key] = total

    def _seconds(self, name: str, start: float | None, end: float | None) -> None:
        if start is not None and end is not None:
            self._histograms[name].observe(end - start)

    def _add_counter(self, name: str, family: Family) -> None:
        metric = Counter(f"vllm:{name}", family.help, _names(family), registry=self.registry)
        for value in family.values or (None,):
            labels = (*self._values, value) if value is not None else self._values
            self._counters[name, value] = metric.labels(*labels)

    def _add_gauge(self, name: str, family: Family) -> None:
        metric = Gauge(f"vllm:{name}", family.help, _names(family), registry=self.registry)
        for value in family.values or (None,):
            labels = (*self._values, value) if value is not None else self._values
            self._gauges[name, value] = metric.labels(*labels)

    def _histogram(self, name: str, family: Family) -> Histogram:
        return Histogram(
            f"vllm:{name}", family.help, _LABELS, buckets=family.buckets, registry=self.registry
        ).labels(*self._values)

    def _add_cache_config(self, settings: Settings) -> None:
        config = {"engine": "0", **cache_config(settings)}
        Gauge(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            list(config),
            registry=self.registry,
        ).labels(**config).set(1)


_MEANINGLESS_HERE: dict[str, object] = {
    "cache_dtype": "auto",
    "gpu_memory_utilization": 0.92,
    "is_attention_free": False,
    "kv_cache_dtype_skip_layers": [],
    "kv_cache_layout": None,
    "kv_cache_memory_bytes": None,
    "kv_offloading_backend": "native",
    "kv_offloading_size": None,
    "kv_sharing_fast_prefill": False,
    "mamba_cache_dtype": "auto",
    "mamba_page_size_padded": None,
    "mamba_ssm_cache_dtype": "float32",
    "num_cpu_blocks": None,
    "prefix_match_unit": None,
    "replayssm_buffer_len": 16,
    "skip_page_size_padded": None,
    "sliding_window": None,
    "use_kda_recoverssm": False,
    "use_replayssm": False,
    "user_specified_mamba_block_size": False,
}
"""Labels of `vllm:cache_config_info`, as recorded."""


def cache_config(settings: Settings) -> dict[str, str]:
    """The resolved cache settings, as vLLM's metric writes them: `str` of every field."""
    limits = settings.limits
    resolved: dict[str, object] = {
        "_block_size_resolved": True,
        "block_size": limits.block_size,
        "enable_prefix_caching": limits.prefix_caching,
        "kv_cache_max_concurrency": settings.max_concurrency,
        "kv_cache_size_tokens": settings.cache_size_tokens,
        "mamba_block_size": settings.mamba_block_size,
        "mamba_cache_mode": settings.mamba_cache_mode,
        "num_gpu_blocks": limits.num_blocks,
        "num_gpu_blocks_override": settings.given.get("num_gpu_blocks_override"),
        "prefix_cache_retention_interval": settings.retention_interval,
        "prefix_caching_hash_algo": "sha256",
        "user_specified_block_size": "block_size" in settings.given,
    }
    return {name: str(value) for name, value in (_MEANINGLESS_HERE | resolved).items()}


def _draft_counters(count: int) -> dict[str, Family]:
    positions = tuple(str(position) for position in range(count))
    per_position = Family("Accepted tokens per draft position.", "position", positions)
    return DRAFT_COUNTERS | {"spec_decode_num_accepted_tokens_per_pos": per_position}


def _prefilled(item: Progress) -> int:
    """Tokens of the prompt, if this step gave the first generated token."""
    first = len(item.request.generated) == len(item.added)
    return len(item.request.wish.prompt) if first else 0


def _names(family: Family) -> tuple[str, ...]:
    return _LABELS if family.label is None else (*_LABELS, family.label)
