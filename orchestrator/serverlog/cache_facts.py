"""Messages about the caches: prefix caching, Mamba state, blocks, space.

Paths are below `vllm/`, of 0.29.0 unless a version stands there.
"""

from orchestrator.serverlog.rules import FactRule, count, number

CACHE_FACTS = (
    FactRule(
        source="model_executor/models/config.py, MambaModelConfig.verify_and_update_config",
        starts="Mamba cache mode is set to '",
        rest=r"(?P<mamba_cache_mode>\w+)'",
        parse={"mamba_cache_mode": str},
    ),
    FactRule(
        source="0.16 to 0.28: model_executor/models/config.py, MambaModelConfig",
        starts="Warning: Prefix caching in Mamba cache '",
        rest=r"(?P<mamba_cache_mode>\w+)' mode is currently enabled",
        parse={"mamba_cache_mode": str},
    ),
    FactRule(
        source="model_executor/models/config.py, MambaModelConfig.verify_and_update_config",
        starts="Hybrid or mamba-based model detected without support for prefix caching with Mamba",
        rest=r" cache 'all' mode: falling back to '(?P<mamba_cache_mode>\w+)' mode",
        parse={"mamba_cache_mode": str},
    ),
    FactRule(
        source="0.10 to 0.15: model_executor/models/config.py, MambaModelConfig; vLLM #25752",
        starts="Hybrid or mamba-based model detected: disabling prefix caching",
        says={"prefix_caching_enabled": False},
    ),
    FactRule(
        source="v1/engine/core.py, EngineCore._initialize_kv_caches; config/vllm.py, VllmConfig",
        starts="Disabling prefix caching: ",
        rest=r"(?P<prefix_caching_disabled_because>.+)",
        parse={"prefix_caching_disabled_because": str},
        says={"prefix_caching_enabled": False},
    ),
    FactRule(
        source="platforms/interface.py, Platform._align_hybrid_block_size; 0.11 to 0.20: "
        "model_executor/models/config.py, HybridAttentionMambaModelConfig",
        starts="Setting attention block size to ",
        rest=r"(?P<attention_block_size_tokens>\d+) tokens "
        r"(?P<attention_block_size_because>.*?)\.?$",
        parse={"attention_block_size_tokens": count, "attention_block_size_because": str},
    ),
    FactRule(
        source="platforms/interface.py, Platform._align_hybrid_block_size",
        starts="Padding mamba page size by ",
        rest=r"(?P<mamba_page_padding_percent>[\d.]+)%",
        parse={"mamba_page_padding_percent": number},
    ),
    FactRule(
        source="v1/core/kv_cache_utils.py, get_kv_cache_groups",
        starts="Using block size ",
        rest=r"(?P<hidden_state_block_size_tokens>\d+) for hidden-state cache layer",
        parse={"hidden_state_block_size_tokens": count},
    ),
    FactRule(
        source="v1/core/kv_cache_coordinator.py, HybridKVCacheCoordinator.__init__",
        starts="Disabling fine-grained prefix-cache hits because these KV cache managers require ",
        rest=r"block-aligned lookups: (?P<fine_grained_hits_disabled_by>.*?)\.?$",
        parse={"fine_grained_hits_disabled_by": str},
    ),
    FactRule(
        source="engine/arg_utils.py, EngineArgs.create_engine_config",
        starts="Hybrid model with EAGLE speculative decoding: defaulting ",
        rest=r"prefix_cache_retention_interval to (?P<prefix_cache_retention>\w+) checkpointing",
        parse={"prefix_cache_retention": str},
    ),
    FactRule(
        source="v1/worker/gpu_worker.py, Worker.determine_available_memory",
        starts="Available KV cache memory: ",
        rest=r"(?P<kv_cache_memory_gib>[\d.]+) GiB",
        parse={"kv_cache_memory_gib": number},
    ),
    FactRule(
        source="v1/worker/cpu_worker.py, CPUWorker.determine_available_memory",
        starts="Explicitly set (",
        rest=r"(?P<kv_cache_memory_gib>[\d.]+)/[\d.]+\) GiB for KV cache",
        parse={"kv_cache_memory_gib": number},
    ),
    FactRule(
        source="v1/core/kv_cache_utils.py, update_kv_cache_capacity; on one line since 0.27",
        starts="GPU KV cache size: ",
        rest=r"(?P<kv_cache_tokens>[\d,]+) tokens"
        r"(?:, Maximum concurrency for [\d,]+ tokens per request: (?P<max_concurrency>[\d.]+)x)?",
        parse={"kv_cache_tokens": count, "max_concurrency": number},
    ),
    FactRule(
        source="0.8 to 0.26: v1/core/kv_cache_utils.py",
        starts="Maximum concurrency for ",
        rest=r"[\d,]+ tokens per request: (?P<max_concurrency>[\d.]+)x",
        parse={"max_concurrency": number},
    ),
)
