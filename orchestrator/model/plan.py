"""A plan: an experiment on a launch profile, with nothing left to decide."""

from typing import Literal, Self

from pydantic import Field, JsonValue, field_serializer, model_validator

from orchestrator.model.container import ContainerPlan
from orchestrator.model.experiment import CellKind, Expectation, Purpose, Switch
from orchestrator.model.host_limits import HostLimits
from orchestrator.model.prediction import CellPrediction
from orchestrator.model.profile import Name, ReadyLimits, StopLimits
from orchestrator.model.record import Record
from orchestrator.model.secrets import without_secrets
from orchestrator.model.suite import Language, SuitePlan

Selection = Literal["quick", "plain", "full"]
Place = Literal["before", "measured", "after"]
Role = Literal["ready", "warm-up", "prime", "a", "b", "cold"]

Endpoint = Literal["/v1/completions", "/v1/chat/completions"]
"""The first takes a prompt as token ids, so that nothing between us and the scheduler encodes text
again. The second renders a conversation itself; its answer repeats the ids that came of it."""


class PromptPlan(Record):
    """One prompt, exact in token ids as they are sent."""

    document: str
    token_ids: tuple[int, ...]


class ChatPlan(Record):
    """One prompt of the chat endpoint: the server renders it, so its token ids are the answer's."""

    document: str
    content: str
    """Of the one user's turn."""

    response_format: dict[str, JsonValue] | None
    """As the server takes it; `None` where it enforces no schema."""


class ProbePlan(Record):
    """One request, sent once."""

    id: str
    """Unique on its start; also the name of its files."""

    role: Role
    prompt: str
    """Key of `Plan.prompts`, of `Plan.chats`, or of a cold one's `ThroughputPlan.spans`."""

    salt: str
    endpoint: Endpoint = "/v1/completions"
    repeat: int | None = None
    """Counted from 1 for B and for cold requests, whose 0 warms up and is not counted; `None` for
    every other role."""


class CellPlan(Record):
    """A sequence of probes about one prompt.

    They are sent one after the other, in the order of their ids: those of one cell at a stretch,
    but for a suite, whose runs go through the items.
    """

    id: str
    kind: CellKind
    place: Place
    """Reference cells stand before and after the measured ones."""

    document: str
    """In a suite: the item, since its prompt is what stays the same."""

    a_tokens: int | None
    b_tokens: int | None
    """`None`: the server renders the prompt."""

    salt: str
    """Of its probes. Those of a volley have salts of their own, derived from it."""

    shares_salt: bool = False
    """On purpose under the salt of other cells: its first request may be served from the cache."""

    concurrency: int = 1
    """How many of its probes are sent at once: above 1, a volley at a time."""

    probes: tuple[ProbePlan, ...]
    prediction: CellPrediction | None
    """Made before anything is measured. `None`: no rule of ours covers this configuration."""


class ColdRun(Record):
    """Cold requests of one length, each under a salt of its own, sent one after the other."""

    prompt_tokens: int
    probes: tuple[ProbePlan, ...]
    """The first one warms up."""


class Span(Record):
    """A prompt, cut from the corpus: from `start` on, and over its end from its beginning."""

    start: int
    tokens: int


class ThroughputPlan(Record):
    """What all starts have in common of their cold requests."""

    corpus: tuple[int, ...]
    """Token ids of real text; stored once, since the prompts together are many times as long."""

    spans: dict[str, Span]
    """No two begin with the same block, so none could be served from another's cache even under
    one salt."""

    repeats: int
    max_tokens: int
    hold_s: float


class LaunchPlan(Record):
    """The command of one start; `{port}` is the only part left open."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    """Written without secrets wherever it is stored; only the process that planned knows them."""

    inherit: tuple[str, ...]
    ready: ReadyLimits
    stop: StopLimits
    request_timeout_s: float
    heartbeat_timeout_s: float | None = None
    """`None`: a request is given up after `request_timeout_s` only."""

    container: ContainerPlan | None = None
    """`None`: a process of this machine."""

    host: HostLimits = HostLimits()

    @field_serializer("environment")
    def _stored_environment(self, environment: dict[str, str]) -> dict[str, str]:
        return without_secrets(environment)


class Declared(Record):
    """What the server must turn out to be, or the arm ends."""

    vllm_version: str
    served_model_name: str
    block_size_tokens: int
    tokenizer_sample: str
    """A text whose token ids the server's `/tokenize` must reproduce."""

    tokenizer_ids: tuple[int, ...]
    prompt_tokens: int
    """What must stay below half of the KV cache: of all requests together; of an arm with company,
    of one request that is sent alone."""


class ArmPlan(Record):
    """One start: how it is launched, what it must be, and what is sent, in order."""

    name: Name
    """Also of its folder in the run's."""

    cell: CellKind
    prefix_caching: Switch
    speculation: Switch
    patch: str | None
    launch: LaunchPlan
    declared: Declared
    ready_probe: ProbePlan
    warm_up: tuple[ProbePlan, ...]
    cells: tuple[CellPlan, ...]

    cold: tuple[ColdRun, ...] = ()
    """By length, the shortest first; after the cells."""

    profile: str | None = None
    """Where the experiment's arms name their own; else the plan's."""

    of_arm: str | None = None
    """The experiment's arm that this is another start of; `None` on the first one."""

    @property
    def column(self) -> str:
        """The experiment's arm, on whichever start."""
        return self.of_arm or self.name

    @property
    def volleys(self) -> list[tuple[str, tuple[ProbePlan, ...]]]:
        """What is sent at once, with its cell's id, in the order of the probes' numbers.

        One probe each, but in a cell with `concurrency`.
        """
        told = [
            (cell.id, cell.probes[first : first + cell.concurrency])
            for cell in self.cells
            for first in range(0, len(cell.probes), cell.concurrency)
        ]
        return sorted(told, key=lambda volley: int(volley[1][0].id.partition("-")[0]))


class DocumentPin(Record):
    """Which text a document's name stood for."""

    name: str
    language: Language
    kind: str
    sha256: str


class Plan(Record):
    """Saved and hashed before anything starts."""

    format: Literal[1] = 1
    experiment: str
    question: str
    profile: str
    engine: str
    """What answers, as its `/version` must say: a vLLM release, or `MINIATURE: not vLLM`."""

    engine_identity: str
    purpose: Purpose
    expectations: dict[str, Expectation]
    selection: Selection
    seed: int
    block_size_tokens: int
    speculative_tokens: int
    shared_tokens: int | None
    """This one and the next: `None` in a suite, whose prompts the server renders."""

    b_tokens: int | None
    a_tokens: tuple[int, ...]
    repeats: int
    reference_repeats: int
    max_tokens: int
    top_logprobs: int
    documents: tuple[DocumentPin, ...]
    prompts: dict[str, PromptPlan]
    chats: dict[str, ChatPlan] = Field(default_factory=dict)
    suite: SuitePlan | None = None
    arms: tuple[ArmPlan, ...]
    control: str | None
    expected_start_s: float
    throughput: ThroughputPlan | None = None

    @model_validator(mode="after")
    def _names_lead_somewhere(self) -> Self:
        """A plan that was stored may be a stranger's."""
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names) or not names:
            raise ValueError("arms: there is none, or two of them have one name")
        if self.control is not None and self.control not in names:
            raise ValueError(f"control: no arm is named {self.control}")
        return self

    def prompt_ids(self, key: str) -> tuple[int, ...]:
        """The token ids of a probe's prompt."""
        if self.throughput is None or key not in self.throughput.spans:
            return self.prompts[key].token_ids
        span, corpus = self.throughput.spans[key], self.throughput.corpus
        return tuple(corpus[(span.start + i) % len(corpus)] for i in range(span.tokens))
