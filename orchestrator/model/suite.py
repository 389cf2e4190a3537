"""An extraction suite: items over documents, asked several times, in a stated order."""

from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from orchestrator.model.experiment import (
    Expectation,
    Purpose,
    ServerSettings,
    check_profiles,
    profiles_of,
)
from orchestrator.model.profile import Name
from orchestrator.model.record import Record

FieldKind = Literal["text", "date", "amount"]
Language = Literal["hu", "en", "de"]

Order = Literal["grouped", "interleaved", "shuffled"]
"""All runs of an item, then the next item; run after run through all items; the same, each run in
a seeded order of its own."""

Sharing = Literal["untouched", "shared"]
"""Each item under a salt of its own, so that no other item has touched its document; or one salt a
document, so that all its items share what the cache keeps of it."""


class ExpectedField(Record):
    """What an answer must say in one field."""

    kind: FieldKind

    written: str = Field(min_length=1)
    """As the document writes it, letter for letter."""

    value: str = Field(min_length=1)
    """As the normaliser must read it: a text in small letters, a date as 2026-11-30, an amount as
    `1234.56 EUR`."""


class SuiteItem(Record):
    """One question about one document, with the answer that is right."""

    id: Name
    document: Name
    question: str = Field(min_length=1)

    response_schema: dict[str, JsonValue]
    """A JSON Schema; part of the prompt, and enforced where the server can."""

    fields: dict[str, ExpectedField] = Field(min_length=1)

    @model_validator(mode="after")
    def _schema_has_the_fields(self) -> Self:
        known = self.response_schema.get("properties")
        if not isinstance(known, dict) or set(known) != set(self.fields):
            raise ValueError("fields: are not the properties of response_schema")
        return self


class SuiteLimits(Record):
    """How much of a document is sent, and how much is answered."""

    document_characters: int | None = Field(default=None, gt=0)
    """From the document's beginning; the whole document when absent. Every expected value must
    stand in what is left."""

    max_tokens: int = Field(gt=0, le=4096)
    """Generated tokens at most; an answer may end before."""


class SuiteArm(ServerSettings):
    """A server configuration, and how the items come to it."""

    order: Order
    documents: Sharing


class SuiteExperiment(Record):
    """What is asked, of which items, in which arms. A file of `arms/` with the key `items`."""

    name: Name
    question: str
    """In words; the report's first line."""

    items: Name
    """File in `arms/suites/`, JSON lines."""

    warm_up_document: Name
    """Only for readiness and warm-up."""

    runs: int = Field(default=3, ge=2, le=26)
    """How often each item is asked on a start, between its two references. A run has a letter."""

    limits: SuiteLimits

    limits_for: dict[Name, SuiteLimits] = Field(default_factory=dict)
    """Instead of `limits`, for profiles whose server cannot hold that much."""

    top_logprobs: int = Field(default=20, ge=1, le=100)

    seed: int = Field(default=0, ge=0)
    """Of the shuffled orders."""

    arms: tuple[SuiteArm, ...] = Field(min_length=1)

    expectations: dict[Name, dict[Name, Expectation]] = Field(default_factory=dict)
    """Profile to arm to what is expected, as in any other experiment."""

    @model_validator(mode="after")
    def _names_are_unique_and_known(self) -> Self:
        arms = [arm.name for arm in self.arms]
        if len(set(arms)) != len(arms):
            raise ValueError("arms: a name stands twice")
        check_profiles(self.arms)
        for profile, expected in self.expectations.items():
            for arm in set(expected) - set(arms):
                raise ValueError(f"expectations.{profile}.{arm}: there is no such arm")
        return self

    @property
    def stacks(self) -> tuple[str, ...]:
        """The profiles that the arms name, in order; empty where the command line says it."""
        return profiles_of(self.arms)

    def limits_on(self, profile: str) -> SuiteLimits:
        """The limits for a profile."""
        return self.limits_for.get(profile, self.limits)

    def purpose(self, profile: str) -> Purpose:
        """`reproduce` where this profile's outcome is written down, else `check`."""
        return "reproduce" if profile in self.expectations else "check"


class SuitePlan(Record):
    """The suite of a run, as it is asked and judged."""

    items: tuple[SuiteItem, ...]
    runs: int
    arms: tuple[SuiteArm, ...]

    structured_output: bool
    """Whether the server enforces the response schemas."""

    model_trained: bool
    """Otherwise answers are compared with each other only, and never scored."""
