"""What an engine consists of on disk, and what a running one says about itself."""

from pydantic import Field

from orchestrator.model.container import ContainerPlan
from orchestrator.model.record import Record


class EngineFiles(Record):
    """Where the parts of an engine are."""

    python: str
    """The program that the command line begins with; in a container, as found there."""

    model_dir: str
    """As the server sees it."""

    tokenizer_file: str
    """On this machine: prompts are made with it."""

    served_tokenizer_file: str | None = None
    """As the server sees it, where that is another path."""

    container: ContainerPlan | None = None
    """`None`: the server is a process of this machine."""

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
    """What keeps the server together: `pid-namespace`, `user-and-pid-namespace`, `session`, or
    `container`."""

    ready_after_s: float
    """From the start of the process to the end of the first real answer."""
