"""Messages of a server that is ready, that serves, and that is told to stop.

Paths are below `vllm/`, of 0.29.0 unless a version stands there.
"""

from orchestrator.serverlog.rules import FactRule, count, number

SERVING_FACTS = (
    FactRule(
        source="entrypoints/launchers/api_server/entry.py; 0.8 to 0.19: server N, or server",
        starts="Starting vLLM ",
        rest=r"(?P<ready>(?:API )?server .*)",
        parse={"ready": lambda rest: f"Starting vLLM {rest}"},
    ),
    FactRule(
        source="uvicorn/lifespan/on.py, LifespanOn.startup",
        starts="Application startup complete.",
        says={"startup_complete": True},
        phase="serving",
    ),
    FactRule(
        source="entrypoints/launchers/launcher.py, serve_http",
        starts="[shutdown] API server: shutdown triggered",
        says={"shutdown_begun": True},
        phase="stop",
    ),
    FactRule(
        source="v1/engine/core.py, EngineCoreProc.run_engine_core",
        starts="[shutdown] EngineCore: trigger received signal=",
        rest=r"(?P<engine_stopped_by>\w+)",
        parse={"engine_stopped_by": str},
    ),
    FactRule(
        source="uvicorn/server.py, Server.shutdown",
        starts="Shutting down",
        rest="$",
        says={"shutdown_begun": True},
        phase="stop",
    ),
    FactRule(
        source="v1/core/block_pool.py, BlockPool.reset_prefix_cache",
        starts="Successfully reset prefix cache",
        says={"prefix_cache_reset": True},
    ),
    FactRule(
        source="v1/metrics/loggers.py, LoggingStatLogger.log",
        starts="Engine ",
        rest=r"\d+: Avg prompt throughput: .*?"
        r"(?:, Preemptions: (?P<recent_preemptions>\d+))?"
        r", GPU KV cache usage: (?P<kv_cache_usage_percent>[\d.]+)%"
        r", Prefix cache hit rate: (?P<prefix_hit_rate_percent>[\d.]+)%"
        r"(?:, Corrupted: (?P<recent_corrupted_requests>\d+) reqs)?",
        parse={
            "recent_preemptions": count,
            "kv_cache_usage_percent": number,
            "prefix_hit_rate_percent": number,
            "recent_corrupted_requests": count,
        },
        rolling=True,
    ),
    FactRule(
        source="v1/spec_decode/metrics.py, SpecDecodingLogging.log",
        starts="SpecDecoding metrics: ",
        rest=r"(?:.*?Mean acceptance length: (?P<mean_acceptance_length>[\d.]+))?"
        r".*?Accepted: (?P<recent_accepted_draft_tokens>\d+) tokens"
        r", Drafted: (?P<recent_draft_tokens>\d+) tokens",
        parse={
            "mean_acceptance_length": number,
            "recent_accepted_draft_tokens": count,
            "recent_draft_tokens": count,
        },
        rolling=True,
    ),
)
