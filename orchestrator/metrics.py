"""Prometheus text of a vLLM server → counters, their differences, the resolved cache settings.

A run reads this page before and after every request, so only the lines of the wanted families
reach the parser: 20 lines of the 600 that a page has.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from orchestrator.model.metrics import CacheConfig, MetricsReading, Number

SERIES: dict[str, tuple[str, ...]] = {
    "prefix_cache_queries_tokens": (
        "vllm:prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries_total",
    ),
    "prefix_cache_hits_tokens": (
        "vllm:prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits_total",
    ),
    "preemptions": ("vllm:num_preemptions_total",),
    "requests_finished": ("vllm:request_success_total",),
    "requests_running": ("vllm:num_requests_running",),
    "requests_waiting": ("vllm:num_requests_waiting",),
    "kv_cache_usage_ratio": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "draft_tokens": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted_draft_tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "prompt_tokens_cached": ("vllm:prompt_tokens_cached_total",),
    "prompt_tokens_recomputed": ("vllm:prompt_tokens_recomputed_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
    "iteration_tokens_count": ("vllm:iteration_tokens_total_count",),
    "prefill_time_s": ("vllm:request_prefill_time_seconds_sum",),
    "time_to_first_token_s": ("vllm:time_to_first_token_seconds_sum",),
}
"""Field → the series that carries it, the present name first.

Source: `vllm/v1/metrics/loggers.py`, class PrometheusStatLogger, and
`vllm/v1/spec_decode/metrics.py`. The names with `gpu_` are deprecated since 0.9 and were printed
beside the present ones for a time: the first name that the page has is read, never both.
"""

CACHE_CONFIG_SERIES = "vllm:cache_config_info"


def read_metrics(page: str) -> MetricsReading:
    """The counters of a page; a field that the page lacks, or has no finite number for, is None.

    Lines that are no valid Prometheus text are passed over: any page gives a reading.
    """
    values: dict[str, list[float]] = {}
    for sample, value in _samples(page, _WANTED_LINE):
        values.setdefault(sample.name, []).append(value)
    return MetricsReading(
        **{
            field: _combine(field, next((values[name] for name in names if name in values), []))
            for field, names in SERIES.items()
        }
    )


def counter_lines(page: str) -> str:
    """The lines of a page that `read_metrics` reads, as they are: what is kept of every page."""
    return "".join(line.lstrip("\n") + "\n" for line in _WANTED_LINE.findall("\n" + page))


def delta(before: MetricsReading, after: MetricsReading) -> MetricsReading:
    """What was added between two readings; None where either does not have the field.

    A counter that fell says that the server was started again in between.
    """
    return MetricsReading(
        **{
            field: _difference(getattr(before, field), getattr(after, field))
            for field in MetricsReading.model_fields
        }
    )


def read_cache_config(page: str) -> CacheConfig | None:
    """The first engine's resolved cache settings, or None when the page does not state them."""
    first = next(_samples(page, _CACHE_CONFIG_LINE), None)
    if first is None:
        return None
    labels = first[0].labels
    fields: dict[str, Any] = {
        field: parse(labels[label])
        for field, (label, parse) in _CACHE_CONFIG_LABELS.items()
        if labels.get(label, "None") != "None"
    }
    return CacheConfig(**fields)


def _lines_of(*names: str) -> re.Pattern[str]:
    """Matches whole lines of these series; the leading line feed lets `re` leap between lines."""
    return re.compile(rf"\n(?:{'|'.join(map(re.escape, names))})[ \t{{][^\n]*")


def _samples(page: str, wanted: re.Pattern[str]) -> Iterator[tuple[Sample, float]]:
    for line in wanted.findall("\n" + page):
        try:
            families = list(text_string_to_metric_families(line))
            samples = [
                (sample, float(sample.value)) for each in families for sample in each.samples
            ]
        except (ValueError, OverflowError):  # not in the format; or a number that no double holds
            continue
        yield from samples


def _combine(field: str, values: list[float]) -> Number | None:
    if not values:
        return None
    combined = max(values) if field == "kv_cache_usage_ratio" else sum(values, start=0.0)
    if not all(map(math.isfinite, (*values, combined))):
        return None
    return int(combined) if combined.is_integer() else combined


def _difference(before: Number | None, after: Number | None) -> Number | None:
    if before is None or after is None:
        return None
    return after - before


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _ratio(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _flag(text: str) -> bool | None:
    return {"True": True, "False": False}.get(text)


_CACHE_CONFIG_LABELS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "block_size_tokens": ("block_size", _count),
    "enable_prefix_caching": ("enable_prefix_caching", _flag),
    "mamba_block_size": ("mamba_block_size", _count),
    "mamba_cache_mode": ("mamba_cache_mode", str),
    "num_gpu_blocks": ("num_gpu_blocks", _count),
    "cache_dtype": ("cache_dtype", str),
    "mamba_cache_dtype": ("mamba_cache_dtype", str),
    "mamba_ssm_cache_dtype": ("mamba_ssm_cache_dtype", str),
    "kv_cache_size_tokens": ("kv_cache_size_tokens", _count),
    "kv_cache_max_concurrency": ("kv_cache_max_concurrency", _ratio),
    "kv_cache_memory_bytes": ("kv_cache_memory_bytes", _count),
    "gpu_memory_utilization_ratio": ("gpu_memory_utilization", _ratio),
    "prefix_cache_retention_interval_tokens": ("prefix_cache_retention_interval", _count),
    "prefix_caching_hash_algo": ("prefix_caching_hash_algo", str),
    "prefix_match_unit_tokens": ("prefix_match_unit", _count),
    "user_specified_block_size": ("user_specified_block_size", _flag),
}
"""Field → label and its type. Source: `vllm/config/cache.py`, CacheConfig.metrics_info, which
writes every field of the class with `str`."""

_WANTED_LINE = _lines_of(*(name for names in SERIES.values() for name in names))
_CACHE_CONFIG_LINE = _lines_of(CACHE_CONFIG_SERIES)
