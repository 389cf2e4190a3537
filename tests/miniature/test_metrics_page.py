"""The metrics page against those of real servers."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from .servers import RunningServer

_METRICS = Path(__file__).parents[1] / "fixtures" / "metrics"

PROMPT = list(range(100, 120))


def families(text: str) -> set[tuple[str, str, str, tuple[str, ...]]]:
    """Name, kind, help and label names of every series of a page."""
    return {
        (sample.name, family.type, family.documentation, tuple(sorted(sample.labels)))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_metrics_page_has_every_recorded_series(server: RunningServer) -> None:
    """The same names, kinds, help texts, labels and buckets; nothing less, nothing else."""
    server.complete(PROMPT)
    server.http.get("/v1/models")
    plain = (_METRICS / "0.29.0-cpu-caching-on-no-spec.metrics").read_text(encoding="utf-8")
    with_drafts = (_METRICS / "0.26.0-h200-caching-on-mtp.metrics").read_text(encoding="utf-8")
    drafts = {family for family in families(with_drafts) if "spec_decode" in family[0]}

    page = server.http.get("/metrics").text

    assert families(page) == families(plain) | drafts
    assert buckets(page) == buckets(plain)


def buckets(text: str) -> dict[str, set[str]]:
    """Bucket limits of each histogram."""
    found: dict[str, set[str]] = {}
    for name, limit in re.findall(r'^([\w:]+)_bucket\{[^}]*?le="([^"]+)"', text, re.MULTILINE):
        found.setdefault(name, set()).add(limit)
    return found


def counter(page: str, name: str) -> float:
    """The sum of a metric's series."""
    return sum(
        float(value) for value in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", page, re.MULTILINE)
    )


def test_counters_count(server: RunningServer) -> None:
    """Queries, hits and tokens of three requests, the later two of which hit."""
    names = (
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:prompt_tokens_total",
        "vllm:prompt_tokens_cached_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
        "vllm:time_to_first_token_seconds_count",
        "vllm:iteration_tokens_total_sum",
    )
    before = server.http.get("/metrics").text

    for _ in range(3):
        server.complete(list(range(200, 280)), cache_salt="counters")

    after = server.http.get("/metrics").text
    added = [counter(after, name) - counter(before, name) for name in names]
    assert added == [240, 64, 240, 64, 6, 3, 3, 246]
    sources = [
        source_tokens(after, source) - source_tokens(before, source)
        for source in ("local_compute", "local_cache_hit", "external_kv_transfer")
    ]
    assert sources == [176, 64, 0]


def source_tokens(page: str, source: str) -> float:
    """Prompt tokens of one source."""
    series = rf'^vllm:prompt_tokens_by_source_total{{.*source="{source}"}} (\S+)$'
    found = re.search(series, page, re.MULTILINE)
    assert found is not None
    return float(found[1])
