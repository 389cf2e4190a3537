"""Raw answers → observations."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.decoding import decode
from orchestrator.errors import ProbeError
from orchestrator.model.observation import FLOOR
from tests.answers import PLAIN, TOP, body

RESPONSES = Path(__file__).parent / "fixtures" / "responses"


def test_a_recorded_completion_of_vllm_0_26_is_read() -> None:
    """Every generated token has its chosen token and 20 candidates in the server's order."""
    seen = decode((RESPONSES / "completion-0.26.0.json").read_bytes(), top_logprobs=20)

    assert [p.chosen.token_id for p in seen.positions] == [43, 43, 43]
    assert [c.token_id for c in seen.positions[0].candidates[:3]] == [43, 970, 708]
    assert seen.positions[0].candidates[1].logprob == -6.913496017456055
    assert {len(p.candidates) for p in seen.positions} == {20}


@pytest.mark.parametrize(("name", "chosen"), [("completion", 954), ("chat", 988)])
def test_recorded_answers_of_vllm_0_29_are_read(name: str, chosen: int) -> None:
    """Both endpoints give the same kind of observation."""
    seen = decode((RESPONSES / f"{name}-0.29.0.json").read_bytes(), top_logprobs=3)

    assert seen.positions[0].chosen.token_id == chosen
    assert seen.cached_tokens == 0
    assert seen.system_fingerprint == "vllm-0.29.0-4ccce266"


def test_a_chosen_token_outside_the_top_is_kept_apart() -> None:
    """The digest has k candidates; the chosen token is recorded as outside of them."""
    lists = [((99, -7.0), *PLAIN[0])]

    seen = decode(body(lists, chosen=[99]), top_logprobs=TOP)

    assert seen.positions[0].chosen_outside
    assert [c.token_id for c in seen.positions[0].candidates] == [7, 3, 9, 4]
    assert seen.not_argmax == (0,)


@pytest.mark.parametrize("details", [None, {}, {"cached_tokens": None}])
def test_cached_tokens_that_are_not_said_are_unknown(details: object) -> None:
    """Missing is not zero."""
    answer = json.loads(body())
    answer["usage"]["prompt_tokens_details"] = details

    assert decode(json.dumps(answer).encode(), top_logprobs=TOP).cached_tokens is None


def _broken(change: str) -> bytes:  # noqa: C901 - a table of changes
    answer: Any = json.loads(body())
    choice, logprobs = answer["choices"][0], answer["choices"][0]["logprobs"]
    match change:
        case "no choices":
            answer["choices"] = []
        case "no logprobs":
            choice["logprobs"] = None
        case "no usage":
            del answer["usage"]
        case "short list":
            del logprobs["top_logprobs"][0]["token_id:4"]
        case "text tokens":
            logprobs["top_logprobs"][0] = {"a": -1.0, "b": -2.0, "c": -3.0, "d": -4.0}
        case "not a float32":
            logprobs["top_logprobs"][0]["token_id:3"] = -1.1
        case "null logprob":
            logprobs["top_logprobs"][0]["token_id:3"] = None
        case "chosen not listed":
            logprobs["tokens"][0] = "token_id:55"
        case "columns differ":
            logprobs["tokens"].pop()
        case "no tokens":
            logprobs.update(tokens=[], token_logprobs=[], top_logprobs=[])
        case "negative cached":
            answer["usage"]["prompt_tokens_details"] = {"cached_tokens": -1}
        case "boolean cached":
            answer["usage"]["prompt_tokens_details"] = {"cached_tokens": True}
    return json.dumps(answer).encode()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"<html>busy</html>", "no JSON"),
        (body()[:-40], "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "the answer"),
        (body().replace(b"-1.25", b"NaN"), "NaN"),
        (body().replace(b"-1.25", b"-Infinity"), "Infinity"),
        (body().replace(b'"token_id:3": -1.25', b'"token_id:7": -1.25'), "twice"),
        (_broken("no choices"), "choices"),
        (_broken("no logprobs"), "logprobs"),
        (_broken("no usage"), "usage"),
        (_broken("short list"), "3 candidates, asked for 4"),
        (_broken("text tokens"), "not by its token id"),
        (_broken("not a float32"), "no float32"),
        (_broken("null logprob"), "log probability None"),
        (_broken("chosen not listed"), "not in its top list"),
        (_broken("columns differ"), "differ in length"),
        (_broken("no tokens"), "no generated token"),
        (_broken("negative cached"), "not a count"),
        (_broken("boolean cached"), "not a count"),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for_is_refused(answer: bytes, told: str) -> None:
    """Nothing is guessed: the error says what is wrong."""
    with pytest.raises(ProbeError, match=told):
        decode(answer, top_logprobs=TOP)


def test_a_structured_answer_of_vllm_0_29_is_read() -> None:
    """A token that the schema forbids is written as -9999, and the prompt's ids are repeated."""
    seen = decode((RESPONSES / "chat-structured-0.29.0.json").read_bytes(), top_logprobs=20)
    first = seen.positions[0]

    assert (first.chosen.token_id, first.chosen.logprob) == (93, 0.0)  # nothing but {
    assert [c.logprob for c in first.candidates[1:]] == [FLOOR] * 19
    assert seen.prompt_token_ids is not None
    assert len(seen.prompt_token_ids) == 8


def test_prompt_ids_that_are_no_list_are_refused() -> None:
    """Absent and null mean that nobody asked; anything else is a broken answer."""
    answer = json.loads(body()) | {"prompt_token_ids": "1, 2"}

    with pytest.raises(ProbeError, match="prompt_token_ids"):
        decode(json.dumps(answer).encode(), top_logprobs=TOP)
    assert decode(body(), top_logprobs=TOP).prompt_token_ids is None
