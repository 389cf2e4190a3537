"""What an engine consists of on disk, and what a running one says about itself."""

from pydantic import Field

from orchestrator.model.record import Record


class EngineFiles(Record):
    """Where the parts of an engine are."""

    python: str
    model_dir: str
    tokenizer_file: str
    environment: dict[str, str] = Field(default_factory=dict)
    """What the engine needs beyond the profile's own environment."""

    identity: str
    """Changes when the engine, its model or its tokenizer does."""


class EngineFacts(Record):
    """What a ready server said about itself, before the first probe. `None`: it did not say."""

    vllm_version: str
    served_model_name: str
    model_root: str | None
    block_size_tokens: int | None
    prefix_caching: bool | None
    mamba_cache_mode: str | None
    kv_cache_tokens: int | None
    """Capacity of the KV cache."""

    port: int
    isolation: str
    """`pid-namespace`, `user-and-pid-namespace` or `session`: what keeps the server together."""

    ready_after_s: float
    """From the start of the process to the end of the first real answer."""
