"""Messages of a start: version, configuration, model, kernels, compilation, graphs.

Paths are below `vllm/`, of 0.29.0 unless a version stands there.
"""

from collections.abc import Callable

from orchestrator.model.serverlog import Value
from orchestrator.serverlog.rules import FactRule, count, flag, number

_ENGINE = "Initializing a V1 LLM engine (v"
_ENGINE_V0 = "Initializing a V0 LLM engine (v"
_CONFIG_SOURCE = "v1/engine/core.py, EngineCore.__init__; config/vllm.py, VllmConfig.__str__"


def _config(fact: str, expression: str, parse: Callable[[str], Value]) -> FactRule:
    """One field of the engine's own configuration line: the outcome, not what was asked for."""
    return FactRule(
        source=_CONFIG_SOURCE,
        starts=_ENGINE,
        rest=rf".*?[ ({{]{expression}",
        parse={fact: parse},
    )


START_FACTS = (
    FactRule(
        source="entrypoints/serve/utils/api_utils.py, log_version_and_model; since 0.15",
        starts=" ▄▄ ▄█ █     █     █ ▀▄▀ █  version ",
        rest=r"(?P<vllm_version>\S+)",
        parse={"vllm_version": str},
        phase="start",
        continues=True,
    ),
    FactRule(
        source="0.8 to 0.14: entrypoints/openai/api_server.py, setup_server",
        starts="vLLM API server version ",
        rest=r"(?P<vllm_version>\S+)",
        parse={"vllm_version": str},
        phase="start",
    ),
    FactRule(
        source="entrypoints/serve/utils/api_utils.py, log_non_default_args",
        starts="non-default args: ",
        rest=r"(?P<arguments_given>\{.*)",
        parse={"arguments_given": str},
    ),
    FactRule(
        source="config/model.py, ModelConfig.__post_init__",
        starts="Resolved architecture: ",
        rest=r"(?P<architecture>\w+)",
        parse={"architecture": str},
    ),
    FactRule(
        source="config/model.py, ModelConfig.get_and_verify_max_len",
        starts="Using max model len ",
        rest=r"(?P<max_model_len_tokens>\d+)",
        parse={"max_model_len_tokens": count},
    ),
    FactRule(
        source="config/scheduler.py, SchedulerConfig.__post_init__",
        starts="Chunked prefill is enabled with max_num_batched_tokens=",
        rest=r"(?P<max_batched_tokens>\d+)",
        parse={"max_batched_tokens": count},
    ),
    FactRule(
        source="config/vllm.py, VllmConfig._set_max_num_scheduled_tokens",
        starts="max_num_scheduled_tokens is set to ",
        rest=r"(?P<max_scheduled_tokens>\d+) based on the speculative decoding settings",
        parse={"max_scheduled_tokens": count},
    ),
    FactRule(
        source="config/vllm.py, VllmConfig.__post_init__",
        starts="Asynchronous scheduling is enabled.",
        says={"async_scheduling": True},
    ),
    FactRule(
        source="config/vllm.py, VllmConfig.__post_init__",
        starts="Cudagraph is disabled under eager mode",
        says={"cuda_graphs": False},
    ),
    FactRule(
        source=_CONFIG_SOURCE,
        starts=_ENGINE,
        rest=r"(?P<engine_version>[^)]+)\)",
        parse={"engine_version": str},
        says={"engine_generation": "V1"},
    ),
    FactRule(
        source="0.8 to 0.10: engine/llm_engine.py, LLMEngine.__init__",
        starts=_ENGINE_V0,
        rest=r"(?P<engine_version>[^)]+)\)",
        parse={"engine_version": str},
        says={"engine_generation": "V0"},
    ),
    _config(
        "prefix_caching_enabled",
        "enable_prefix_caching=(?P<prefix_caching_enabled>True|False)",
        flag,
    ),
    FactRule(
        source="0.8 to 0.10: engine/llm_engine.py, LLMEngine.__init__",
        starts=_ENGINE_V0,
        rest=r".*? enable_prefix_caching=(?P<prefix_caching_enabled>True|False)",
        parse={"prefix_caching_enabled": flag},
    ),
    _config("context_length_tokens", r"max_seq_len=(?P<context_length_tokens>\d+)", count),
    _config("dtype", r"dtype=torch\.(?P<dtype>\w+)", str),
    _config("quantization", r"quantization=(?P<quantization>[\w-]+)", str),
    _config("kv_cache_dtype", r"kv_cache_dtype=(?P<kv_cache_dtype>\w+)", str),
    _config("load_format", r"load_format=(?P<load_format>[\w.]+)", str),
    _config("enforce_eager", "enforce_eager=(?P<enforce_eager>True|False)", flag),
    _config("seed", r"seed=(?P<seed>\d+)", count),
    _config(
        "speculative_method",
        r"speculative_config=SpeculativeConfig\(method='(?P<speculative_method>\w+)'",
        str,
    ),
    _config("speculative_tokens", r"num_spec_tokens=(?P<speculative_tokens>\d+)", count),
    _config("cuda_graph_mode", r"'cudagraph_mode': <CUDAGraphMode\.(?P<cuda_graph_mode>\w+)", str),
)

MODEL_FACTS = (
    FactRule(
        source="model_executor/model_loader/default_loader.py, DefaultModelLoader.load_weights",
        starts="Loading weights took ",
        rest=r"(?P<weights_loading_s>[\d.]+) seconds",
        parse={"weights_loading_s": number},
    ),
    FactRule(
        source="v1/worker/gpu_model_runner.py, GPUModelRunner.load_model",
        starts="Model loading took ",
        rest=r"(?P<model_memory_gib>[\d.]+) Gi?B(?: memory)?"
        r" and (?P<model_loading_s>[\d.]+) seconds",
        parse={"model_memory_gib": number, "model_loading_s": number},
    ),
    FactRule(
        source="platforms/cuda.py, CudaPlatformBase.get_attn_backend_cls",
        starts="Using ",
        rest=r"(?P<attention_backend>\w+) attention backend out of potential backends",
        parse={"attention_backend": str},
    ),
    FactRule(
        source="0.8 to 0.12: platforms/cuda.py, CudaPlatformBase.get_attn_backend_cls",
        starts="Using ",
        rest=r"(?P<attention_backend>[\w ]+) backend on V1 engine",
        parse={"attention_backend": str},
    ),
    FactRule(
        source="v1/attention/backends/flash_attn.py, FlashAttentionImpl.__init__",
        starts="Using FlashAttention version ",
        rest=r"(?P<flash_attention_version>\d+)",
        parse={"flash_attention_version": count},
    ),
    FactRule(
        source="model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py, module functions",
        starts="Using ",
        rest=r"(?P<gdn_prefill_kernel>[\w/ ]+) GDN prefill kernel",
        parse={"gdn_prefill_kernel": str},
    ),
    FactRule(
        source="model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py, QwenGatedDeltaNet",
        starts="GDN decode kernel: ",
        rest=r"(?P<gdn_decode_kernel>.+)",
        parse={"gdn_decode_kernel": str},
    ),
    FactRule(
        source="compilation/backends.py, VllmBackend.__call__",
        starts="Using cache directory: ",
        rest=r"(?P<compile_cache_folder>\S+) for vLLM's torch.compile",
        parse={"compile_cache_folder": str},
    ),
    FactRule(
        source="compilation/backends.py, CompilerManager.compile; 0.8 to 0.12 without a range",
        starts="Directly load the compiled graph(s) for ",
        says={"compiled_graphs_from_cache": True},
    ),
    FactRule(
        source="compilation/backends.py, CompilerManager.compile; 0.8 to 0.12 without a range",
        starts="Compiling a graph for ",
        says={"compiled_graphs_from_cache": False},
    ),
    FactRule(
        source="compilation/decorators.py, module functions",
        starts="Directly load AOT compilation from path ",
        says={"compiled_graphs_from_cache": True},
    ),
    FactRule(
        source="compilation/decorators.py, class decorated by support_torch_compile",
        starts="saved AOT compiled function to ",
        says={"compiled_graphs_from_cache": False},
    ),
    FactRule(
        source="compilation/monitor.py, monitor_torch_compile; 0.8 to 0.15: takes",
        starts="torch.compile t",
        rest=r"(?:ook|akes) (?P<torch_compile_s>[\d.]+) s in total",
        parse={"torch_compile_s": number},
    ),
    FactRule(
        source="v1/worker/gpu_model_runner.py, GPUModelRunner.capture_model",
        starts="Graph capturing finished in ",
        rest=r"(?P<graph_capturing_s>\d+) secs, took (?P<graph_memory_gib>[\d.]+) GiB",
        parse={"graph_capturing_s": count, "graph_memory_gib": number},
        says={"cuda_graphs": True},
    ),
    FactRule(
        source="v1/engine/core.py, EngineCore._initialize_kv_caches",
        starts="init engine (profile, create kv cache, warmup model) took ",
        rest=r"(?P<engine_initialisation_s>[\d.]+) s",
        parse={"engine_initialisation_s": number},
    ),
)
