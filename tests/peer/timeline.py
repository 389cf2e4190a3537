"""What the stopwatches noted → how long each stretch of a job took."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal

from pydantic import JsonValue

from orchestrator.model.record import Record
from tests.peer.work import MAX_TOKENS

OWN_FIELDS = frozenset({"stream", "stream_options", "repetition_penalty"})
"""Of a request, that `vllm bench serve` always sends and we never do. 1.0 penalises nothing."""


class Event(Record):
    """One line of a stopwatch; times in seconds of CLOCK_MONOTONIC."""

    event: Literal["started", "serving", "answered"]
    at_s: float
    path: str | None = None
    arrived_s: float | None = None
    status: int | None = None
    asked: dict[str, JsonValue] | None = None
    """A completion's fields."""


class Stretches(Record):
    """One server's life, in seconds; `None`: it did not come to that."""

    loading_s: float | None
    """From the process's start to being able to answer: vLLM's own, alike for both tools."""

    noticed_s: float | None
    """From then to the tool's first request of any kind."""

    first_request_s: float | None
    """From being able to answer to the first measured request."""

    measuring_s: float | None
    """From then to the last measured answer."""

    between_ms: float | None
    """From an answer to the next measured request, the median, in milliseconds."""

    leaving_s: float | None
    """From the last measured answer to the start of the next server, or the end of the job."""


def read_events(text: str) -> list[Event]:
    """Parse a stopwatch file.

    Raises:
        pydantic.ValidationError: A line is no event.
    """
    return [Event.from_json(line) for line in text.splitlines()]


def measured(events: Sequence[Event]) -> list[Event]:
    """The requests that are the work: a readiness probe asks for one token only."""
    return [e for e in events if e.asked is not None and e.asked["max_tokens"] == MAX_TOKENS]


def requests(events: Sequence[Event]) -> list[list[dict[str, JsonValue]]]:
    """What each server was asked for, in order, without the fields that only one tool sends.

    A salt is told by its number on its server: which requests share one matters, its text does not.
    """
    return [_requests(measured(life)) for life in _lives(events)]


def _requests(work: Sequence[Event]) -> list[dict[str, JsonValue]]:
    asked = [event.asked or {} for event in work]
    salts = list(dict.fromkeys(str(fields.get("cache_salt")) for fields in asked))
    return [
        {name: value for name, value in fields.items() if name not in OWN_FIELDS}
        | {"cache_salt": salts.index(str(fields.get("cache_salt")))}
        for fields in asked
    ]


def stretches(events: Sequence[Event], *, ended_s: float) -> list[Stretches]:
    """Each server's, in the order of their starts.

    Args:
        events: Of one job.
        ended_s: When the job ended.
    """
    lives = list(_lives(events))
    next_starts = [life[0].at_s for life in lives[1:]] + [ended_s]
    return [
        _stretches(life, measured(life), left_s)
        for life, left_s in zip(lives, next_starts, strict=True)
    ]


def _lives(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    starts = [place for place, event in enumerate(events) if event.event == "started"]
    for first, beyond in pairwise([*starts, len(events)]):
        yield events[first:beyond]


def _stretches(life: Sequence[Event], work: Sequence[Event], left_s: float) -> Stretches:
    started_s = life[0].at_s
    serving_s = next((event.at_s for event in life if event.event == "serving"), None)
    asked_s = next((event.arrived_s for event in life if event.event == "answered"), None)
    first_s = work[0].arrived_s if work else None
    last_s = work[-1].at_s if work else None
    gaps_s = [_from(one.at_s, other.arrived_s) for one, other in pairwise(work)]
    return Stretches(
        loading_s=_from(started_s, serving_s),
        noticed_s=_from(serving_s, asked_s),
        first_request_s=_from(serving_s, first_s),
        measuring_s=_from(first_s, last_s),
        between_ms=1000 * median(gap for gap in gaps_s if gap is not None) if gaps_s else None,
        leaving_s=_from(last_s, left_s),
    )


def _from(begin_s: float | None, end_s: float | None) -> float | None:
    return None if begin_s is None or end_s is None else end_s - begin_s
