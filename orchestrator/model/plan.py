"""A plan: an experiment on a launch profile, with nothing left to decide."""

from typing import Literal

from orchestrator.model.container import ContainerPlan
from orchestrator.model.experiment import CellKind, Expectation, Purpose, Switch
from orchestrator.model.host_limits import HostLimits
from orchestrator.model.prediction import CellPrediction
from orchestrator.model.profile import ReadyLimits, StopLimits
from orchestrator.model.record import Record

Selection = Literal["quick", "plain", "full"]
Place = Literal["before", "measured", "after"]
Role = Literal["ready", "warm-up", "prime", "a", "b"]


class PromptPlan(Record):
    """One prompt, exact in token ids as they are sent."""

    document: str
    token_ids: tuple[int, ...]


class ProbePlan(Record):
    """One request, sent once."""

    id: str
    """Unique on its start; also the name of its files."""

    role: Role
    prompt: str
    """Key of `Plan.prompts`."""

    salt: str
    repeat: int | None = None
    """Counted from 1 for B; `None` for every other role."""


class CellPlan(Record):
    """A sequence of probes under one salt, sent one after the other."""

    id: str
    kind: CellKind
    place: Place
    """Reference cells stand before and after the measured ones."""

    document: str
    a_tokens: int | None
    b_tokens: int
    salt: str
    probes: tuple[ProbePlan, ...]
    prediction: CellPrediction | None
    """Made before anything is measured. `None`: no rule of ours covers this configuration."""


class LaunchPlan(Record):
    """The command of one start; `{port}` is the only part left open."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    inherit: tuple[str, ...]
    ready: ReadyLimits
    stop: StopLimits
    request_timeout_s: float
    heartbeat_timeout_s: float | None = None
    """`None`: a request is given up after `request_timeout_s` only."""

    container: ContainerPlan | None = None
    """`None`: a process of this machine."""

    host: HostLimits = HostLimits()


class Declared(Record):
    """What the server must turn out to be, or the arm ends."""

    vllm_version: str
    served_model_name: str
    block_size_tokens: int
    tokenizer_sample: str
    """A text whose token ids the server's `/tokenize` must reproduce."""

    tokenizer_ids: tuple[int, ...]
    prompt_tokens: int
    """Of all cells together: must stay below half of the KV cache."""


class ArmPlan(Record):
    """One start: how it is launched, what it must be, and what is sent, in order."""

    name: str
    cell: CellKind
    prefix_caching: Switch
    speculation: Switch
    patch: str | None
    launch: LaunchPlan
    declared: Declared
    ready_probe: ProbePlan
    warm_up: tuple[ProbePlan, ...]
    cells: tuple[CellPlan, ...]


class DocumentPin(Record):
    """Which text a document's name stood for."""

    name: str
    language: str
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
    shared_tokens: int
    b_tokens: int
    a_tokens: tuple[int, ...]
    repeats: int
    reference_repeats: int
    max_tokens: int
    top_logprobs: int
    documents: tuple[DocumentPin, ...]
    prompts: dict[str, PromptPlan]
    arms: tuple[ArmPlan, ...]
    control: str | None
    expected_start_s: float
