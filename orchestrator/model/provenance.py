"""What an arm's server was made of, so that two runs can be told to be of the same thing.

`None` is everywhere: it could not be found out. It never means that there is none of it.
"""

from orchestrator.model.record import Record


class ImageFacts(Record):
    """The image of a container, as the engine has it."""

    declared: str
    """The profile's pin: a digest, an id, or a tag that was resolved to `id` for this run."""

    id: str
    digests: tuple[str, ...]
    """`NAME@sha256:…`; empty for an image that was built on this engine."""

    tags: tuple[str, ...]
    platform: str
    created: str | None


class EngineHost(Record):
    """The machine of a Docker Engine."""

    engine_version: str
    kernel: str
    operating_system: str
    architecture: str


class CacheFolder(Record):
    """A folder of compiled code before the start."""

    files: int
    size_bytes: int


class Installation(Record):
    """What the server's interpreter finds; read from files, nothing of it was imported."""

    python: str
    packages: dict[str, str]
    """Of vLLM and what its numbers depend on: distribution to version; those that are there."""

    vllm_folder: str | None
    vllm_commit: str | None
    """As the build left it: in `vllm/_version.py`, or in the variable VLLM_BUILD_COMMIT."""

    torch_cuda: str | None
    torch_commit: str | None
    compiled: dict[str, CacheFolder | None]
    """The folders that vLLM, Inductor and Triton keep compiled code in; `None`: there is none."""


class ModelFacts(Record):
    """A model's folder, by its list of files: their names and sizes, not their contents."""

    folder: str
    revision: str | None
    """Of a snapshot in a Hugging Face cache."""

    files: int
    size_bytes: int
    list_sha256: str
    """Over `NAME SIZE` and a line feed for each file, in the order of the names."""


class GpuFacts(Record):
    """One GPU of this machine."""

    name: str
    driver: str


class ArmProvenance(Record):
    """Everything that an arm's numbers may depend on, and that is no probe."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    """As given to the server; the values of those that may hold a secret are replaced."""

    patched_files: dict[str, str]
    """Each file that a patch changed, to its SHA-256 afterwards; empty without a patch."""

    image: ImageFacts | None
    """`None`: the server is a process."""

    engine_host: EngineHost | None
    """`None`: likewise."""

    installation: Installation | None
    model: ModelFacts | None
    kernel: str
    """Of the machine that the orchestrator ran on."""

    gpus: tuple[GpuFacts, ...] | None
    """Of the server's machine. `None`: no nvidia-smi, or it does not answer."""
