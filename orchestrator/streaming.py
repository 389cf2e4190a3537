"""The raw bytes of a streamed completion → when its tokens came, and what it says of itself. Pure.

Which bytes came when is recorded as they arrive (`ExchangeTimes.arrivals`), and nothing is parsed
then: so the time of a token does not contain our parsing of the one before.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sseclient import SSEClient

from orchestrator.errors import ProbeError
from orchestrator.model.exchange import Arrival

_DONE = "[DONE]"

TOGETHER_S = 0.0002
"""Tokens that arrive closer than this had been waiting, and were read together. No engine makes a
step in a fifth of a millisecond; on busy machines backlogs were read at 10 to 50 µs an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedAnswer:
    """What a streamed completion came to."""

    first_token_s: float
    """From the first byte sent to the block that completed the first event with a token."""

    last_token_s: float

    apart: bool
    """Whether both came apart from their neighbours, so that these are times of the tokens and not
    of our reading. `False` of a single token: nothing follows it."""

    generated_tokens: int
    prompt_tokens: int
    cached_tokens: int | None
    """`None` when the answer does not say."""

    @property
    def decode_tokens_per_s(self) -> float | None:
        """Tokens after the first over the time they took.

        `None` where nothing came after it, or the first or the last one was read together with its
        neighbour: then the time between them is not the time that the tokens took.
        """
        took_s = self.last_token_s - self.first_token_s
        return (self.generated_tokens - 1) / took_s if self.apart else None


def decode_stream(response: bytes, arrivals: Sequence[Arrival]) -> StreamedAnswer:
    """Read a stream of completion events, asked for with its usage.

    An event with a choice has at least one token: vLLM sends none while a prompt is still being
    computed. The first one has exactly one, also with drafts, which only follow it.

    Args:
        response: The whole body.
        arrivals: How many bytes had come when.

    Raises:
        ProbeError: It is no such stream, an event is an error, or it ends too early.
    """
    token_times_s: list[float] = []
    usage: dict[str, Any] | None = None
    done = False
    for data, at_s in _events(response, arrivals):
        if data == _DONE:
            done = True
            continue
        try:
            event = json.loads(data)
            if event["choices"]:
                token_times_s.append(at_s)
            usage = event.get("usage") or usage
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ProbeError(f"an event of the stream is no completion: {data[:200]}") from error
    if not done or not token_times_s or usage is None:
        raise ProbeError("the stream ended without a token, its usage, or its end mark")
    try:
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens")
        return StreamedAnswer(
            first_token_s=token_times_s[0],
            last_token_s=token_times_s[-1],
            apart=_apart(token_times_s[:2]) and _apart(token_times_s[-2:]),
            generated_tokens=int(usage["completion_tokens"]),
            prompt_tokens=int(usage["prompt_tokens"]),
            cached_tokens=None if cached is None else int(cached),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProbeError(f"the stream's usage cannot be read: {usage}") from error


def _apart(times_s: Sequence[float]) -> bool:
    return len(times_s) == 2 and times_s[1] - times_s[0] > TOGETHER_S  # noqa: PLR2004 - neighbours


def _events(response: bytes, arrivals: Sequence[Arrival]) -> Iterator[tuple[str, float]]:
    """Each event's data, with the arrival of the block that completed it."""
    ends = [0, *(arrival.bytes for arrival in arrivals)]
    now_s = 0.0

    def blocks() -> Iterator[bytes]:
        nonlocal now_s
        for (start, end), arrival in zip(pairwise(ends), arrivals, strict=True):
            now_s = arrival.at_s
            yield response[start:end]

    try:
        for event in SSEClient(blocks()).events():  # asks for a block when it needs one, not before
            yield event.data, now_s
    except UnicodeDecodeError as error:
        raise ProbeError(f"the stream is no UTF-8: {error}") from error
