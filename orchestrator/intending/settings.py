"""The settings that are compared: where each is asked for, and where each source says it.

A source is read only where it states an outcome. `/server_info` also repeats what it was given
(`attention_config.backend` is the flag, whatever was chosen): such a field is not read. Paths and
flags are those of 0.29.0; what another release had instead is said beside it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.intending.launch import Launch, tokens
from orchestrator.intending.self_description import SelfDescription
from orchestrator.model.intent import Setting, Value
from orchestrator.model.metrics import CacheConfig
from orchestrator.model.plan import ArmPlan
from orchestrator.model.serverlog import LogScan


def _nowhere(_: object) -> None:
    """This source does not say it."""


def _itself(value: Value) -> Value:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How one setting is read. A reader gives `None` where there is nothing to read."""

    setting: Setting
    asked: Callable[[ArmPlan, Launch], Value | None]
    log: Callable[[LogScan], Value | None] = _nowhere
    metrics: Callable[[CacheConfig], Value | None] = _nowhere
    page: Callable[[SelfDescription], Value | None] = _nowhere
    same: Callable[[Value], Value] = _itself
    """Maps spellings of one thing to one value."""


def _first(*names: str) -> Callable[[LogScan], Value | None]:
    """The first value of a fact, the target model's; of the first fact that the log has."""
    return lambda log: next((said[0] for name in names if (said := _all(log, name))), None)


def _last(name: str) -> Callable[[LogScan], Value | None]:
    """The last value of a fact, where a later message corrects an earlier one."""
    return lambda log: next(reversed(_all(log, name)), None)


def _all(log: LogScan, name: str) -> list[Value]:
    values = [fact.value for fact in log.facts if fact.name == name]
    switches = {True: "on", False: "off"}
    return [
        switches[value] if isinstance(value, bool) else value
        for value in values
        if isinstance(value, int | str)
    ]


def _backend_asked(_: ArmPlan, launch: Launch) -> Value | None:
    return (
        launch.text("--attention-backend")
        or launch.config("--attention-config", "backend")
        or launch.environment.get("VLLM_ATTENTION_BACKEND")  # ignored since 0.15: vLLM #50292
    )


def _one_backend(value: Value) -> Value:
    """`Flash Attention`, `FLASH_ATTN` and `FLASH_ATTN_VLLM_V1` are one."""
    plain = re.sub(r"[ _]", "", str(value).upper()).removesuffix("VLLMV1")
    return re.sub(r"ATT(?:ENTIO)?N$", "", plain)


def _method_asked(_: ArmPlan, launch: Launch) -> Value | None:
    return launch.config("--speculative-config", "method") or launch.text("--spec-method")


def _method_on_page(page: SelfDescription) -> Value | None:
    return "none" if page.is_null(_SPECULATION) else page.word(f"{_SPECULATION}.method")


def _one_method(value: Value) -> Value:
    """`qwen3_next_mtp` and its like become `mtp` (config/speculative.py, MTPModelTypes)."""
    return "mtp" if str(value).endswith("mtp") else value


def _drafts_asked(_: ArmPlan, launch: Launch) -> Value | None:
    inside = launch.config("--speculative-config", "num_speculative_tokens")
    return launch.tokens("--spec-tokens") if inside is None else inside


def _drafts_on_page(page: SelfDescription) -> Value | None:
    if page.is_null(_SPECULATION):
        return 0
    return page.count(f"{_SPECULATION}.num_speculative_tokens")


_SPECULATION = "speculative_config"


def _retention_asked(_: ArmPlan, launch: Launch) -> Value | None:
    flag = launch.text("--prefix-cache-retention-interval")
    given = flag if flag is not None else launch.environment.get(_RETENTION_VARIABLE)
    if given in ("None", ""):  # engine/arg_utils.py, optional_type
        return "dense"
    return None if given is None else tokens(given)


_RETENTION_VARIABLE = "VLLM_PREFIX_CACHE_RETENTION_INTERVAL"
"""0.23 to 0.29, where the flag takes over (engine/arg_utils.py)."""


def _retention_on_page(page: SelfDescription) -> Value | None:
    """`dense`: every saved state is kept (config/cache.py). 0: only those sure to be resumed at."""
    path = "cache_config.prefix_cache_retention_interval"
    return "dense" if page.is_null(path) else page.count(path)


def _graphs_asked(_: ArmPlan, launch: Launch) -> Value | None:
    if launch.switch("--enforce-eager") == "on":
        return "NONE"  # it overrides the mode: config/vllm.py, VllmConfig.__post_init__
    mode = launch.config("--compilation-config", "cudagraph_mode")
    return mode.upper() if isinstance(mode, str) else _GRAPH_MODES.get((mode,))


def _graphs_on_page(page: SelfDescription) -> Value | None:
    return _GRAPH_MODES.get(page.numbers("compilation_config.cudagraph_mode"))


_GRAPH_MODES: dict[tuple[Value | None, ...] | None, str] = {
    (0,): "NONE",
    (1,): "PIECEWISE",
    (2,): "FULL",
    (2, 0): "FULL_DECODE_ONLY",
    (2, 1): "FULL_AND_PIECEWISE",
}
"""Source: config/compilation.py, CUDAGraphMode."""


def _budget_on_page(page: SelfDescription) -> Value | None:
    """What one step may schedule; smaller than what was asked for where drafts need room."""
    scheduled = page.count("scheduler_config.max_num_scheduled_tokens")
    if scheduled is not None:
        return scheduled
    return page.count("scheduler_config.max_num_batched_tokens")


COMPARISONS = (
    Comparison(
        setting="prefix caching",
        asked=lambda arm, _: arm.prefix_caching,
        log=_last("prefix_caching_enabled"),
        metrics=lambda cache: {True: "on", False: "off", None: None}[cache.enable_prefix_caching],
        page=lambda page: page.switch("cache_config.enable_prefix_caching"),
    ),
    Comparison(
        setting="mamba cache mode",
        asked=lambda _, launch: launch.text("--mamba-cache-mode"),
        log=_last("mamba_cache_mode"),
        metrics=lambda cache: cache.mamba_cache_mode,
        page=lambda page: page.word("cache_config.mamba_cache_mode"),
    ),
    Comparison(
        setting="block size",
        asked=lambda arm, _: arm.declared.block_size_tokens,
        log=_last("attention_block_size_tokens"),
        metrics=lambda cache: cache.block_size_tokens,
        page=lambda page: page.count("cache_config.block_size"),
    ),
    Comparison(
        setting="attention backend",
        asked=_backend_asked,
        log=_first("attention_backend"),
        same=_one_backend,
    ),
    Comparison(
        setting="speculative method",
        asked=_method_asked,
        log=_first("speculative_method"),
        page=_method_on_page,
        same=_one_method,
    ),
    Comparison(
        setting="speculative tokens",
        asked=_drafts_asked,
        log=_first("speculative_tokens"),
        page=_drafts_on_page,
    ),
    Comparison(
        setting="retention interval",
        asked=_retention_asked,
        log=_last("prefix_cache_retention"),
        metrics=lambda cache: cache.prefix_cache_retention_interval_tokens,
        page=_retention_on_page,
    ),
    Comparison(
        setting="eager",
        asked=lambda _, launch: launch.switch("--enforce-eager"),
        log=_first("enforce_eager"),
        page=lambda page: page.switch("model_config.enforce_eager"),
    ),
    Comparison(
        setting="graph mode",
        asked=_graphs_asked,
        log=_last("cuda_graph_mode"),
        page=_graphs_on_page,
    ),
    Comparison(
        setting="max model length",
        asked=lambda _, launch: launch.tokens("--max-model-len"),
        log=_first("context_length_tokens", "max_model_len_tokens"),
        page=lambda page: page.count("model_config.max_model_len"),
    ),
    Comparison(
        setting="token budget",
        asked=lambda _, launch: launch.tokens("--max-num-batched-tokens"),
        log=_first("max_scheduled_tokens", "max_batched_tokens"),
        page=_budget_on_page,
    ),
    Comparison(
        setting="kv cache dtype",
        asked=lambda _, launch: launch.text("--kv-cache-dtype"),
        log=_first("kv_cache_dtype"),
        metrics=lambda cache: cache.cache_dtype,
        page=lambda page: page.word("cache_config.cache_dtype"),
    ),
)
