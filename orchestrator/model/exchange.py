"""A probe as it happened: the raw bytes both ways, and when."""

from dataclasses import dataclass
from datetime import datetime

from orchestrator.model.plan import ProbePlan
from orchestrator.model.record import Record


class ExchangeTimes(Record):
    """What is known about an exchange besides its bytes."""

    probe: ProbePlan
    path: str
    started_at: datetime
    """UTC."""

    started_s: float
    """On the monotonic clock of the machine; only differences mean anything."""

    latency_s: float
    """From the first byte sent to the last byte received, or to the error."""

    status: int | None
    """HTTP status; `None` when no response began."""

    error: str | None
    """Why no whole answer came; `None` when one did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and whatever came back, uninterpreted."""

    times: ExchangeTimes
    request: bytes
    response: bytes
    """The body as received; the part that came when `times.error` is set."""
