"""Metrics pages of real servers: the right numbers, nothing invented, nothing raised."""

import math
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.metrics import (
    CACHE_CONFIG_SERIES,
    SERIES,
    delta,
    read_cache_config,
    read_metrics,
)
from orchestrator.model.metrics import CacheConfig, MetricsReading

FOLDER = Path(__file__).parent / "fixtures" / "metrics"
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.metrics"))}
CACHING_ON = PAGES["0.26.0-h200-caching-on-mtp"]
CACHING_OFF = PAGES["0.26.0-h200-caching-off-mtp"]
PREEMPTED = PAGES["0.29.0-cpu-preemption"]


def test_a_page_of_vllm_0_26_is_read_whole() -> None:
    """Every field that the page has, and None for the one that this version does not export."""
    assert read_metrics(CACHING_ON) == MetricsReading(
        prefix_cache_queries_tokens=38408,
        prefix_cache_hits_tokens=11520,
        preemptions=0,
        requests_finished=58,
        requests_running=0,
        requests_waiting=0,
        kv_cache_usage_ratio=0,
        draft_tokens=2668,
        accepted_draft_tokens=0,
        prompt_tokens=38408,
        prompt_tokens_cached=11520,
        prompt_tokens_recomputed=None,
        generation_tokens=1392,
        iteration_tokens_count=1392,
        prefill_time_s=22.41723578199958,
        time_to_first_token_s=22.593420267105103,
    )


def test_preemptions_are_counted_although_no_log_line_says_so() -> None:
    """A server under pressure preempted 25 times; a server without speculation has no drafts."""
    reading = read_metrics(PREEMPTED)

    assert reading.preemptions == 25
    assert reading.draft_tokens is None


def test_caching_that_is_off_reads_zero_and_not_none() -> None:
    """The counters are there and stand at zero: that is a measurement."""
    reading = read_metrics(CACHING_OFF)

    assert (reading.prefix_cache_queries_tokens, reading.prefix_cache_hits_tokens) == (0, 0)


def test_old_names_are_read_where_the_new_ones_are_missing() -> None:
    """Before 0.9 the counters were called `gpu_…`."""
    old = CACHING_ON.replace("vllm:prefix_cache_", "vllm:gpu_prefix_cache_").replace(
        "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"
    )

    assert read_metrics(old) == read_metrics(CACHING_ON)


def test_old_and_new_names_on_one_page_are_not_added() -> None:
    """For a time both were printed, for the same tokens."""
    both = CACHING_ON + CACHING_ON.replace("vllm:prefix_cache_", "vllm:gpu_prefix_cache_")

    assert read_metrics(both).prefix_cache_hits_tokens == 11520


def test_engines_are_added_and_the_fullest_cache_is_told() -> None:
    """Two engines' counters are summed; a sum of ratios would be no ratio."""
    first = CACHING_ON.replace(
        'vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.0',
        'vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.75',
    )
    two = first + CACHING_ON.replace('engine="0"', 'engine="1"')

    reading = read_metrics(two)

    assert reading.generation_tokens == 2 * 1392
    assert reading.requests_finished == 2 * 58
    assert reading.kv_cache_usage_ratio == 0.75


def test_series_with_longer_names_are_other_series() -> None:
    """`…_total` is not `…_created`, and waiting requests are not waiting ones by reason."""
    page = (
        'vllm:num_preemptions_created{engine="0"} 1.7e+09\n'
        'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 3.0\n'
    )

    assert read_metrics(page) == MetricsReading()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "many", ""])
def test_a_value_that_is_no_number_is_none(value: str) -> None:
    """Neither zero nor an exception."""
    page = f'vllm:num_preemptions_total{{engine="0"}} {value}\nvllm:prompt_tokens_total 5.0\n'

    reading = read_metrics(page)

    assert (reading.preemptions, reading.prompt_tokens) == (None, 5)


def test_a_difference_needs_both_sides() -> None:
    """A field that either page lacks is None in the difference; a counter that fell is negative."""
    before = MetricsReading(prompt_tokens=100, preemptions=2, draft_tokens=5)
    after = MetricsReading(prompt_tokens=180, preemptions=0, generation_tokens=8)

    assert delta(before, after) == MetricsReading(prompt_tokens=80, preemptions=-2)


def test_the_resolved_cache_settings_are_typed() -> None:
    """Numbers are numbers, flags are flags, and the engine's "None" is None."""
    assert read_cache_config(CACHING_ON) == CacheConfig(
        block_size_tokens=288,
        enable_prefix_caching=True,
        mamba_block_size=16,
        mamba_cache_mode="align",
        num_gpu_blocks=49412,
        cache_dtype="auto",
        mamba_cache_dtype="auto",
        mamba_ssm_cache_dtype="auto",
        kv_cache_size_tokens=10940083,
        kv_cache_max_concurrency=1335.4594594594594,
        kv_cache_memory_bytes=None,
        gpu_memory_utilization_ratio=0.15,
        prefix_cache_retention_interval_tokens=None,
        prefix_caching_hash_algo="sha256",
        prefix_match_unit_tokens=None,
        user_specified_block_size=False,
    )


def test_turning_caching_off_turns_the_mamba_mode_off() -> None:
    """What the log does not say when the flag is given, the page does."""
    settings = read_cache_config(CACHING_OFF)

    assert settings is not None
    assert (settings.enable_prefix_caching, settings.mamba_cache_mode) == (False, "none")


def test_a_page_without_cache_settings_says_nothing_about_them() -> None:
    """A page of a server that is not ready, or of no vLLM at all."""
    assert read_cache_config("") is None
    assert read_cache_config("# TYPE vllm:cache_config_info gauge\n") is None


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES.keys())
def test_reading_costs_a_fraction_of_a_request(page: str) -> None:
    """A page is read before and after each request: well below the 60 ms of the fastest one."""
    started = time.process_time()
    for _ in range(20):
        read_metrics(page)
    each_s = (time.process_time() - started) / 20

    assert each_s < 0.02  # about 0.0002 s; parsing all 600 lines takes 0.02 s


NAMES = [name for names in SERIES.values() for name in names]
TEXT = st.text(max_size=30)
SAMPLE_LINES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from([*NAMES, CACHE_CONFIG_SERIES]),
    st.one_of(st.just(""), st.just("{"), TEXT.map("{{{}}}".format), TEXT),
    st.sampled_from([" ", "", "\t", "  "]),
    st.one_of(TEXT, st.floats().map(str), st.just("9" * 5_000), st.just("1 2 3")),
)


@given(page=st.lists(st.one_of(SAMPLE_LINES, TEXT), max_size=12).map("\n".join))
def test_any_page_gives_a_reading(page: str) -> None:
    """Malformed text gives None fields, never an exception, and never a number that is none."""
    reading = read_metrics(page)
    read_cache_config(page)

    values = [value for _, value in reading if value is not None]
    assert all(math.isfinite(value) for value in values)
    assert isinstance(delta(reading, reading), MetricsReading)


@given(label=TEXT, value=TEXT)
def test_any_cache_label_gives_settings(label: str, value: str) -> None:
    """A label that no version ever had, or a value of another type, is left out."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    names = ["block_size", "gpu_memory_utilization", "enable_prefix_caching", "mamba_cache_mode"]
    page = "".join(f'{CACHE_CONFIG_SERIES}{{{name}="{escaped}"}} 1.0\n' for name in names)

    settings = read_cache_config(page + label)

    assert settings is None or settings.num_gpu_blocks is None
