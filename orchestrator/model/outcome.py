"""How an arm ended: a union, so that a failed arm has no half-filled result."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from orchestrator.model.record import Record

Stage = Literal["start", "wait", "warm-up", "probe", "stop"]


class Completed(Record):
    """Every probe was answered, and the server ended when it was told to."""

    kind: Literal["completed"] = "completed"


class Failed(Record):
    """The arm stopped early. What it received until then is on disk."""

    kind: Literal["failed"] = "failed"
    stage: Stage
    error: str
    """Class name and message of what ended it."""


Outcome = Annotated[Completed | Failed, Field(discriminator="kind")]

OUTCOME: TypeAdapter[Completed | Failed] = TypeAdapter(Outcome)
