"""A recorded stream of a real vLLM → when its tokens came."""

import json

import pytest

from orchestrator.errors import ProbeError
from orchestrator.model.exchange import Arrival, ExchangeTimes
from orchestrator.streaming import decode_stream
from tests.conftest import PROJECT

STREAMS = PROJECT / "tests" / "fixtures" / "streams"
BODY = (STREAMS / "vllm-0.29.0-cpu.sse").read_bytes()
TIMES = ExchangeTimes.from_json((STREAMS / "vllm-0.29.0-cpu.times.json").read_bytes())


def cut(*ends: int) -> list[Arrival]:
    """The recorded body in other blocks; each comes a second after the one before."""
    return [Arrival(bytes=end, at_s=float(n)) for n, end in enumerate((*ends, len(BODY)), start=1)]


def test_a_recorded_stream_says_when_its_first_and_last_token_came() -> None:
    """32 tokens in 32 events, the usage in one of its own, nothing from the cache."""
    answer = decode_stream(BODY, TIMES.arrivals)

    assert (answer.prompt_tokens, answer.cached_tokens, answer.generated_tokens) == (255, 0, 32)
    assert answer.first_token_s == TIMES.arrivals[0].at_s
    assert answer.last_token_s == TIMES.arrivals[31].at_s
    assert answer.decode_tokens_per_s == pytest.approx(
        31 / (TIMES.arrivals[31].at_s - TIMES.arrivals[0].at_s)
    )


def test_an_event_in_two_blocks_came_with_the_second() -> None:
    """Half an event is no token."""
    first_end = TIMES.arrivals[0].bytes

    answer = decode_stream(BODY, cut(first_end - 1, first_end + 5))

    assert answer.first_token_s == 2.0


def test_events_in_one_block_came_together() -> None:
    """Then nothing can be said of the speed of decoding."""
    answer = decode_stream(BODY, cut())

    assert (answer.first_token_s, answer.decode_tokens_per_s) == (1.0, None)


@pytest.mark.parametrize("waiting", [slice(0, 2), slice(30, 32), slice(0, 32)])
def test_a_backlog_that_is_read_at_once_tells_no_speed_of_decoding(waiting: slice) -> None:
    """As recorded on a busy machine: 32 tokens within 0.25 ms, which is no speed of any server."""
    arrivals = list(TIMES.arrivals)
    late_s = arrivals[waiting][-1].at_s
    for number, arrival in list(enumerate(arrivals))[waiting]:
        read_s = late_s + 8e-6 * (number - waiting.stop)
        arrivals[number] = Arrival(bytes=arrival.bytes, at_s=read_s)

    assert decode_stream(BODY, arrivals).decode_tokens_per_s is None


def test_a_backlog_in_the_middle_takes_nothing_from_the_speed() -> None:
    """Both ends were read as they came."""
    arrivals = list(TIMES.arrivals)
    for number in range(10, 20):
        arrivals[number] = Arrival(bytes=arrivals[number].bytes, at_s=arrivals[20].at_s)

    assert decode_stream(BODY, arrivals).decode_tokens_per_s is not None


def test_a_character_in_two_blocks_is_one_character() -> None:
    """Blocks end anywhere, also inside UTF-8."""
    inside = BODY.index("ö".encode()) + 1

    assert decode_stream(BODY, cut(inside)).generated_tokens == 32


def test_an_answer_without_details_does_not_say_its_cached_tokens() -> None:
    """Missing is not zero."""
    body = BODY.replace(b',"prompt_tokens_details":{"cached_tokens":0}', b"")

    assert decode_stream(body, [Arrival(bytes=len(body), at_s=1.0)]).cached_tokens is None


@pytest.mark.parametrize(
    "body",
    [
        BODY[: TIMES.arrivals[5].bytes],
        BODY.replace(b"data: [DONE]\n\n", b""),
        b"",
        b"data: [DONE]\n\n",
        b'data: {"error": {"message": "EngineCore encountered an issue"}}\n\ndata: [DONE]\n\n',
        b"data: [1]\n\n",
        b"data: {not json\n\n",
        b"data: \xff\n\n",
        BODY.replace(b'"completion_tokens":32', b'"completion_tokens":null'),
    ],
)
def test_what_is_no_whole_stream_is_an_error(body: bytes) -> None:
    """Cut off, an error in the middle of it, or something else altogether."""
    with pytest.raises(ProbeError):
        decode_stream(body, [Arrival(bytes=len(body), at_s=1.0)])


def test_the_recording_is_what_a_run_keeps() -> None:
    """A stream of a cold request, every block with its own time, in order."""
    times_s = [arrival.at_s for arrival in TIMES.arrivals]

    assert TIMES.probe.role == "cold"
    assert times_s == sorted(times_s)
    assert TIMES.arrivals[-1].bytes == len(BODY)
    assert json.loads(BODY.split(b"\n\n")[0].removeprefix(b"data: "))["choices"]
