"""A probe as it happened: the raw bytes both ways, and when."""

from dataclasses import dataclass
from datetime import datetime

from orchestrator.model.plan import ProbePlan
from orchestrator.model.record import Record


class Arrival(Record):
    """A block of a streamed answer, as it came."""

    bytes: int
    """Of the answer's body, received until then."""

    at_s: float
    """Since the request's first byte was sent."""


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

    arrivals: tuple[Arrival, ...] = ()
    """Of an answer that was streamed; an answer in one piece has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and whatever came back, uninterpreted."""

    times: ExchangeTimes
    request: bytes
    response: bytes
    """The body as received; the part that came when `times.error` is set."""
