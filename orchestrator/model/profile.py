"""A launch profile: one way to start one inference server."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from orchestrator.model.container import AbsolutePath, ImagePin, Platform, Resources
from orchestrator.model.host_limits import HostLimits
from orchestrator.model.record import Record
from orchestrator.model.secrets import Arguments

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
"""Lower-case letters, digits, dot and hyphen: safe as a file name, and never a path."""

EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class PreparedInterpreter(Record):
    """An engine that the project's own files prepare in the cache folder on first use."""

    kind: Literal["prepared"]

    recipe: Name
    """Folder under `launch_profiles/engines/`."""

    model: Name = "tiny-hybrid"
    """One of the models that the recipe's `make_model.py` makes."""


class FoundInterpreter(Record):
    """A vLLM that is installed already, to serve a model that the project's own files make."""

    kind: Literal["found"]

    python: str
    """The interpreter: a program on PATH, or an absolute path. Where PYTHONPATH is set, the
    engine gets it."""

    recipe: Name
    """Folder under `launch_profiles/engines/`: its tokenizer and its model, not its environment."""

    model: Name = "tiny-hybrid"
    """One of the models that the recipe's `make_model.py` makes."""


class OwnInterpreter(Record):
    """A vLLM that is installed already, with a model and a tokenizer of the user's own."""

    kind: Literal["own"]

    python: str
    """Absolute path of the interpreter."""

    model_dir: str
    """Absolute path of the model's folder."""

    tokenizer_file: str
    """Absolute path of the `tokenizer.json` that the server will use."""


class MiniatureInterpreter(Record):
    """The engine that comes with this project, under the interpreter that runs us."""

    kind: Literal["miniature"]

    tokenizer_of: Name
    """The recipe under `launch_profiles/engines/` whose tokenizer it uses."""


Interpreter = Annotated[
    PreparedInterpreter | FoundInterpreter | OwnInterpreter | MiniatureInterpreter,
    Field(discriminator="kind"),
]


class PrefixCachingArgs(Record):
    """The arguments that switch prefix caching; an arm chooses one of the two."""

    on: Arguments
    off: Arguments


class ReadyLimits(Record):
    """How long to wait until a server is able to answer."""

    total_timeout_s: float = Field(gt=0)
    """From the start of the process to the first real answer."""

    no_progress_timeout_s: float = Field(gt=0)
    """Without a new byte in the log."""

    poll_interval_s: float = Field(default=0.1, gt=0, le=5)


class StopLimits(Record):
    """How long to wait until a server is gone."""

    grace_s: float = Field(gt=0)
    """From SIGTERM to SIGKILL of the whole group."""


class LaunchProfile(Record):
    """How to launch one inference server; what the kinds below have in common."""

    name: Name
    description: str

    same_engine_as: Name | None = None
    """A profile with this engine in another runtime: its sizes and expectations in experiments are
    this one's too."""

    vllm_version: str
    """As the server's `/version` must report it."""

    scheduler_release: str | None = None
    """The vLLM release whose scheduler the engine follows, where that is not `vllm_version`."""

    served_model_name: str

    block_size_tokens: int = Field(gt=0)
    """The grid. Sizes are resolved with it offline; the server's own word must be the same."""

    speculative_tokens: int = Field(default=0, ge=0)
    """Draft tokens a step (MTP, EAGLE); 0 without. The scheduler's rule depends on it."""

    max_num_batched_tokens: int = Field(gt=0)
    """The token budget of one scheduler step."""

    context_tokens: int | None = Field(default=None, gt=0)
    """Prompt and answer together, as `args` set it with `{context}` (`--max-model-len`); for
    experiments that send prompts as long as the server takes."""

    retention_tokens: int | None = Field(default=None, ge=0)
    """`--prefix-cache-retention-interval` where `args` set it; absent: the release's default."""

    prompt_prefix: str = ""
    """Opens every prompt: the part of the chat template before the document."""

    prompt_suffix: str = ""
    """Ends every prompt: the part of the chat template after the question."""

    args: Arguments
    """The server's command line after the interpreter; `{port}`, `{model}`, `{tokenizer}`,
    `{context}` and `{budget}` are filled in, the last with `max_num_batched_tokens` or the arm's
    own."""

    speculation: Arguments = ()
    """The arguments that switch speculation on."""

    structured_output: bool = False
    """Whether the server enforces a JSON Schema (`response_format`) in chat completions."""

    model_trained: bool = False
    """Whether what the model says can be right or wrong. A suite's scores are withheld otherwise:
    of a model with random weights they would say nothing."""

    prefix_caching: PrefixCachingArgs

    environment: dict[EnvironmentName, str] = Field(default_factory=dict)
    """Set for the server, over what it inherits or its image sets."""

    heartbeat_timeout_s: float = Field(gt=0)
    """How long none of the server's counters may move while a request is awaited."""

    request_timeout_s: float = Field(gt=0)
    """For one probe, from its first byte to the answer's last."""

    expected_start_s: float = Field(gt=0)
    """For `plan`: how long a start took where it was measured."""

    ready: ReadyLimits
    stop: StopLimits
    host: HostLimits = HostLimits()

    @property
    def listed_as(self) -> str:
        """The name under which experiments list sizes and expectations for it."""
        return self.same_engine_as or self.name


class ProcessProfile(LaunchProfile):
    """A server that is a process of this machine, under an interpreter of its own."""

    kind: Literal["process"]
    interpreter: Interpreter

    inherit: tuple[EnvironmentName, ...] = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
    """Variables taken from our environment; every other one is absent for the server."""


class PreparedModel(Record):
    """The model and tokenizer that the project's own files prepare in the cache folder."""

    kind: Literal["prepared"]

    recipe: Name
    """Folder under `launch_profiles/engines/`."""

    model: Name = "tiny-hybrid"
    """One of the models that the recipe's `make_model.py` makes."""


class OwnModel(Record):
    """A model that is there already. Its folder may be a snapshot in a Hugging Face cache."""

    kind: Literal["own"]
    model_dir: AbsolutePath
    tokenizer_file: AbsolutePath


class TokenizerOnly(Record):
    """No model: what the miniature wants."""

    kind: Literal["tokenizer"]

    tokenizer_of: Name
    """The recipe under `launch_profiles/engines/` whose tokenizer it uses."""


Model = Annotated[PreparedModel | OwnModel | TokenizerOnly, Field(discriminator="kind")]


class DockerProfile(LaunchProfile):
    """A server that is a container, from an image that is pinned."""

    kind: Literal["docker"]
    image: ImagePin
    platform: Platform
    """Of the image and of the engine's machine alike: emulation is refused."""

    program: str
    """In place of the image's entrypoint; `args` follow it. `python3`, `vllm` …"""

    python: str = "python3"
    """The image's interpreter that can import the engine: with it the image is looked into."""

    model: Model
    """On the engine's machine; mounted read-only."""

    offline: bool = True
    """HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE: what is not there is an error, not a download."""

    resources: Resources


PROFILE_KINDS: dict[str, type[ProcessProfile] | type[DockerProfile]] = {
    "process": ProcessProfile,
    "docker": DockerProfile,
}
"""By the key `kind`."""

AnyProfile = ProcessProfile | DockerProfile
