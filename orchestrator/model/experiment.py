"""An experiment: a question in words, with the documents, sizes and arms that answer it."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.profile import EnvironmentName, Name
from orchestrator.model.record import Record
from orchestrator.model.secrets import Arguments

ArmCell = Literal["reference", "contaminated", "reversed", "primed"]
"""B × N alone; A, then B × N; B, A, then B × N; the document, A, then B × N."""

CellKind = Literal[ArmCell, "suite"]
"""The same, and the runs of one item of a suite (`model/suite.py`)."""

Purpose = Literal["reproduce", "check"]
Switch = Literal["on", "off"]

Expectation = Literal["stable", "diverged", "mostly-diverged", "batch-equal", "batch-dependent"]
"""Of an arm: every cell stable; at least one diverged; more than half of them diverged. Of an arm
with `concurrency`: no cell's answers depend on the company; at least one's do."""


AGAIN = ".again"
"""Ends the name of an arm's second start."""


class Task(Record):
    """What one request asks of a document."""

    question: str = Field(min_length=1)
    response_schema: str = Field(min_length=2)
    """A JSON Schema, as text; part of the prompt."""


class Document(Record):
    """A document with the two tasks that share it."""

    name: Name
    title: str
    language: Literal["hu", "en", "de"]
    kind: Literal["invoice", "contract", "letter"]
    text: str = Field(min_length=1)
    a: Task
    b: Task


class Sizes(Record):
    """Lengths in tokens, as expressions of the block size such as `"2*block - 4"`."""

    shared: str
    """How much A and B have in common, from the first token on."""

    b: str

    a: tuple[str, ...] = Field(min_length=1)
    """Eligible lengths of A. A plain run takes the first, `--full` takes all."""

    scan: bool = False
    """The lengths of A are what is asked about: every run takes all of them."""

    prime: str | None = None
    """How much of the document a `primed` cell sends first."""


class Throughput(Record):
    """Cold requests of exact lengths, sent after the cells of every start."""

    lengths: tuple[str, ...] = tuple(f"limit // {part}" for part in (32, 16, 8, 4, 2, 1))
    """Size expressions, the shortest first. `limit` is the longest prompt that the profile's
    server takes: its `context_tokens` less the tokens that are generated."""

    documents: tuple[Name, ...] = Field(min_length=1)
    """Whose text the prompts are cut from, each at a place of its own."""

    repeats: int = Field(default=5, ge=2)
    """Of each length on each start, after one that warms up and is not counted."""

    max_tokens: int = Field(default=32, ge=2, le=4096)
    """Generated tokens of each: what the speed of decoding is measured on."""

    hold_s: float = Field(default=0.0, ge=0)
    """Least time from the first request of a length to the next length, so that the memory is
    sampled often enough to be told from noise: once a second, twelve samples are needed."""


class ServerSettings(Record):
    """What an arm makes of its profile's server: one configuration, on a start of its own."""

    name: Name

    profile: Name | None = None
    """The launch profile of this arm: for experiments that set stacks side by side. All arms
    name one, or none does, and the command line says it."""

    prefix_caching: Switch = "on"

    speculation: Switch = "on"
    """`off` leaves the profile's `speculation` arguments out."""

    token_budget: str | None = None
    """Tokens of one scheduler step, as a size expression; the profile's when absent."""

    context: str | None = None
    """Tokens of the longest request, as a size expression: what `{context}` stands for in the
    command line; the profile's when absent. Its cache must have room for one such request."""

    patch: Name | None = None
    """File in `arms/patches/`, applied to a copy of the engine's package for this start. The one
    named `sham` changes no meaning: it shows that the copy alone removes nothing."""

    extra_args: Arguments = ()
    """Appended to the profile's command line."""

    environment: dict[EnvironmentName, str] = Field(default_factory=dict)

    block_size_tokens: int | None = Field(default=None, gt=0)
    """Only where this arm's configuration changes the grid; sizes stay the reference arm's."""


RESERVED_NAMES = ("latest", "nightly")
"""What `runs/` has beside the folders of the experiments."""


def profiles_of(arms: Sequence[ServerSettings]) -> tuple[str, ...]:
    """The profiles that arms name, in order, each once."""
    return tuple(dict.fromkeys(arm.profile for arm in arms if arm.profile is not None))


def check_profiles(arms: Sequence[ServerSettings]) -> None:
    """Either every arm says its profile, or the command line says it for all.

    Raises:
        ValueError: Some do and some do not.
    """
    if len({arm.profile is None for arm in arms}) > 1:
        raise ValueError("arms: either every arm names its profile, or none does")


class Arm(ServerSettings):
    """A server configuration, and the cells that are measured on it."""

    cell: ArmCell
    """The kind of the measured cells. Reference cells stand before and after them."""

    every_boundary: bool = False
    """For the prediction: the patch makes every crossed block boundary end a chunk."""

    concurrency: int = Field(default=1, ge=1, le=64)
    """How many requests of a measured cell are sent at once, each under a salt of its own.
    `repeats` then counts these volleys. Above 1 the arm gets a verdict of its own kind."""

    @model_validator(mode="after")
    def _company_is_all_that_differs(self) -> Self:
        if self.concurrency > 1 and self.cell != "reference":
            raise ValueError('concurrency: needs cell = "reference": nothing comes before B')
        return self


class Experiment(Record):
    """What is asked, of which documents, with which arms."""

    name: Name
    question: str
    """In words; the report's first line."""

    documents: tuple[Name, ...] = Field(min_length=1)
    """The panel, in order. `--quick` takes the first."""

    warm_up_document: Name
    """Only for readiness and warm-up, so that these touch nothing of the panel."""

    sizes: Sizes

    sizes_for: dict[Name, Sizes] = Field(default_factory=dict)
    """Instead of `sizes`, for profiles on which other lengths show the effect."""

    repeats: int = Field(default=10, ge=2)
    """How often B is sent in a measured cell."""

    reference_repeats: int = Field(default=3, ge=2)
    """How often B is sent in a reference cell: once cold, then from the cache."""

    reference_cells: bool = True
    """Off for a strict reproduction of the article; then nothing is said against a reference."""

    warm_up: bool = True
    """Two unrelated requests of A's and B's exact lengths before the first cell."""

    max_tokens: int = Field(gt=0, le=4096)
    """Generated tokens of every probe; end-of-sequence is ignored, so all are of one length."""

    top_logprobs: int = Field(default=20, ge=1, le=100)

    seed: int = Field(default=0, ge=0)
    """Orders the cells of a start."""

    arms: tuple[Arm, ...] = Field(min_length=1)

    throughput: Throughput | None = None
    """What is measured of speed; nothing when absent."""

    there_and_back: bool = False
    """Every arm has a second start, in the reverse order: what drifts with time shows between an
    arm's two starts, and stands on both sides of a comparison."""

    control: Name | None = None
    """The arm that the prices and speeds of the others are set against."""

    expectations: dict[Name, dict[Name, Expectation]] = Field(default_factory=dict)
    """Profile to arm to what is expected. A profile that is listed makes the purpose
    `reproduce`, any other one `check`."""

    @model_validator(mode="after")
    def _names_are_unique_and_known(self) -> Self:
        if self.name in RESERVED_NAMES:
            raise ValueError(f"name: {self.name} is taken in runs/ by what is no experiment")
        arms = [arm.name for arm in self.arms]
        for what, names in (("arms", arms), ("documents", list(self.documents))):
            if len(set(names)) != len(names):
                raise ValueError(f"{what}: a name stands twice")
        if self.warm_up_document in self.documents:
            raise ValueError("warm_up_document: must not be one of the panel's documents")
        if self.control is not None and self.control not in arms:
            raise ValueError("control: there is no such arm")
        if self.sizes.prime is None and any(arm.cell == "primed" for arm in self.arms):
            raise ValueError("sizes.prime: a primed cell needs it")
        for profile, expected in self.expectations.items():
            for arm in expected:
                if arm not in arms:
                    raise ValueError(f"expectations.{profile}.{arm}: there is no such arm")
        return self

    @model_validator(mode="after")
    def _arms_make_starts(self) -> Self:
        if self.there_and_back and any(arm.name.endswith(AGAIN) for arm in self.arms):
            raise ValueError(f"arms: a name that ends in {AGAIN} is that of a second start")
        check_profiles(self.arms)
        return self

    @property
    def stacks(self) -> tuple[str, ...]:
        """The profiles that the arms name, in order; empty where the command line says it."""
        return profiles_of(self.arms)

    def sizes_on(self, profile: str) -> tuple[str, Sizes]:
        """The sizes for a profile, and the key they stand under."""
        if profile in self.sizes_for:
            return f"sizes_for.{profile}", self.sizes_for[profile]
        return "sizes", self.sizes

    def purpose(self, profile: str) -> Purpose:
        """`reproduce` where this profile's outcome is written down, else `check`."""
        return "reproduce" if profile in self.expectations else "check"
