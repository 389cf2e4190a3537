"""Text in and text out, whole and in pieces."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from .servers import RunningServer

PROMPT = list(range(100, 120))


def test_text_goes_to_tokens_and_back(server: RunningServer) -> None:
    """Through the tokenizer that the experiments use."""
    text = "A kikötői daru ára: 12 300 €."
    body = {"model": "tiny", "prompt": text, "return_token_strs": True}

    answer = server.http.post("/tokenize", json=body).json()

    assert list(answer) == ["count", "max_model_len", "tokens", "token_strs"]
    assert answer["count"] == len(answer["tokens"])
    back = server.http.post("/detokenize", json={"tokens": answer["tokens"]}).json()
    assert back == {"prompt": text}
    by_text = server.complete(text).json()["usage"]["prompt_tokens"]
    assert by_text == answer["count"]


def test_a_conversation_is_tokenized_as_it_is_generated_from(server: RunningServer) -> None:
    """Sizes that were planned with /tokenize hold for /v1/chat/completions."""
    messages = [{"role": "user", "content": "Wann ist die Rechnung fällig?"}]

    planned = server.http.post("/tokenize", json={"messages": messages}).json()["count"]

    body = {"messages": messages, "max_tokens": 1}
    usage = server.http.post("/v1/chat/completions", json=body).json()["usage"]
    assert usage["prompt_tokens"] == planned


def events(response: httpx.Response) -> list[Any]:
    """The pieces of a stream; its end mark as text."""
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def test_a_completion_stream_adds_up_to_the_whole_answer(server: RunningServer) -> None:
    """Text, lists and usage; the last piece before the end has the usage and no choice."""
    options = {"logprobs": 2, "max_tokens": 6, "cache_salt": "stream", "ignore_eos": True}
    whole = server.complete(PROMPT, **options).json()
    stream = server.complete(PROMPT, **options, stream=True, stream_options={"include_usage": True})

    *pieces, last, end = events(stream)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert end == "[DONE]"
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 6)
    choices = [piece["choices"][0] for piece in pieces]
    expected = whole["choices"][0]
    assert "".join(choice["text"] for choice in choices) == expected["text"]
    lists = [entry for choice in choices for entry in choice["logprobs"]["top_logprobs"]]
    assert lists == expected["logprobs"]["top_logprobs"]
    assert choices[-1]["finish_reason"] == "length"


def test_a_chat_stream_begins_with_the_role(server: RunningServer) -> None:
    """And then adds content."""
    body = {
        "messages": [{"role": "user", "content": "Summe?"}],
        "max_tokens": 4,
        "temperature": 0,
        "stream": True,
        "ignore_eos": True,
    }

    first, *rest, end = events(server.http.post("/v1/chat/completions", json=body))

    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(list(piece["choices"][0]["delta"]) == ["content"] for piece in rest)
    assert rest[-1]["choices"][0]["finish_reason"] == "length"
    assert end == "[DONE]"


LONG = {"prompt": PROMPT, "max_tokens": 8000, "ignore_eos": True}


def wait_until_idle(server: RunningServer) -> None:
    """Fail unless the engine has nothing to do soon; the long answer takes ten seconds."""
    deadline = time.monotonic() + 3
    while 'num_requests_running{engine="0",model_name="tiny"} 0.0' not in (
        server.http.get("/metrics").text
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_client_that_gives_up_ends_its_request(server: RunningServer) -> None:
    """Nothing keeps computing for nobody."""
    with pytest.raises(httpx.ReadTimeout):
        server.http.post("/v1/completions", json=LONG, timeout=0.3)

    wait_until_idle(server)


def test_a_client_that_leaves_a_stream_ends_its_request(server: RunningServer) -> None:
    """The same in the middle of an answer."""
    with server.http.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as response:
        next(response.iter_bytes())

    wait_until_idle(server)


def test_clients_may_come_together(server: RunningServer) -> None:
    """Each gets its own answer, of its own length."""
    with ThreadPoolExecutor(6) as pool:
        answers = list(
            pool.map(lambda count: server.complete(PROMPT, max_tokens=count).json(), range(1, 25))
        )

    assert [answer["usage"]["completion_tokens"] for answer in answers] == list(range(1, 25))
