"""The HTTP surface against answers of real servers, field by field."""

import json
import re
import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from orchestrator.miniature import scheduler

from .servers import ARGUMENTS, DRAFTS, RunningServer, started

_RECORDED = Path(__file__).parents[1] / "fixtures"
_RESPONSES, _METRICS = _RECORDED / "responses", _RECORDED / "metrics"

PAGES = json.loads(
    Path(__file__).with_name("recordings").joinpath("answers-0.29.0.json").read_text("utf-8")
)
"""Status and body of small answers of a real vLLM."""

PROMPT = list(range(100, 120))


def recorded(name: str) -> dict[str, Any]:
    """An answer of a real vLLM."""
    content: dict[str, Any] = json.loads((_RESPONSES / name).read_text(encoding="utf-8"))
    return content


def shape(value: object) -> object:
    """Names of fields in order, and types; a token's name as a key is data, not a field."""
    if isinstance(value, dict):
        if all(re.fullmatch(r"token_id:\d+", key) for key in value):
            return ["token → logprob", *{shape(item) for item in value.values()}]
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return ["list of", shape(value[0]) if value else "nothing"]
    return type(value).__name__


def test_a_completion_has_the_recorded_fields(server: RunningServer) -> None:
    """In the recorded order, null where null was recorded."""
    answer = server.complete(
        PROMPT, logprobs=3, return_tokens_as_token_ids=True, cache_salt="shape"
    ).json()

    assert shape(answer) == shape(recorded("completion-0.29.0.json"))


def test_a_chat_answer_has_the_recorded_fields(server: RunningServer) -> None:
    """With ids asked for, as in the recording."""
    expected = recorded("chat-0.29.0.json")
    expected["prompt_token_ids"] = [3]  # the recording's list was cut to text
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "What does the crane cost? " * 8}],
        "max_tokens": 2,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 3,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    }

    answer = server.http.post("/v1/chat/completions", json=body).json()

    assert shape(answer) == shape(expected)
    prompt_tokens = answer["usage"]["prompt_tokens"]
    assert len(answer["prompt_token_ids"]) == prompt_tokens
    created = answer["usage"]["prompt_tokens_details"]["created_cache_tokens"]
    assert created == prompt_tokens // 32 * 32


def test_every_logprob_is_a_float32(server: RunningServer) -> None:
    """As vLLM's are: widened, not rounded."""
    answer = server.complete(PROMPT, logprobs=20).json()

    values = answer["choices"][0]["logprobs"]["token_logprobs"]
    assert [struct.unpack("<f", struct.pack("<f", value))[0] for value in values] == values


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("too-many-logprobs", {"logprobs": 51}),
        ("empty-salt", {"cache_salt": ""}),
        ("token-out-of-vocabulary", {"prompt": [99999]}),
        ("prompt-too-long", {"prompt": [5] * 9000, "max_tokens": 1}),
    ],
)
def test_errors_are_the_recorded_ones(
    server: RunningServer, name: str, body: dict[str, object]
) -> None:
    """Word for word: the recorded requests asked a server with the same limits."""
    response = server.complete(PROMPT, **body)

    assert {"status": response.status_code, "body": response.json()} == PAGES[name]


def test_a_repetition_penalty_that_changes_nothing_is_taken(server: RunningServer) -> None:
    """As `vllm bench serve` always sends it; any other would have to be applied."""
    assert server.complete(PROMPT, repetition_penalty=1.0).status_code == 200
    assert server.complete(PROMPT, repetition_penalty=1.1).status_code == 400


def test_another_model_is_not_found(server: RunningServer) -> None:
    """Text: vLLM 0.29.0, entrypoints/openai/models/serving.py."""
    response = server.complete(PROMPT, model="another")

    assert response.status_code == 404
    assert response.json()["error"]["message"] == "The model `another` does not exist."


@pytest.mark.parametrize(("path", "name"), [("/version", "version"), ("/v1/models", "models")])
def test_small_pages_have_the_recorded_fields(server: RunningServer, path: str, name: str) -> None:
    """Other values, since this is not vLLM."""
    assert shape(server.http.get(path).json()) == shape(PAGES[name]["body"])


def test_what_is_not_implemented_is_refused(server: RunningServer) -> None:
    """Ignoring a parameter would answer another question."""
    response = server.complete(PROMPT, presence_penalty=1.0)

    assert response.status_code == 400
    assert "presence_penalty" in response.json()["error"]["message"]


def test_health_is_an_empty_page(server: RunningServer) -> None:
    """Status only."""
    response = server.http.get("/health")

    assert {"status": response.status_code, "body": response.text} == PAGES["health"]


def test_it_says_what_it_is_everywhere(server: RunningServer) -> None:
    """First line, version, model, fingerprint, server information."""
    label = "MINIATURE: not vLLM"

    assert server.log.startswith(label)
    assert label in server.http.get("/version").json()["version"]
    assert server.http.get("/v1/models").json()["data"][0]["owned_by"] == label
    assert server.complete(PROMPT).json()["system_fingerprint"].startswith("miniature-")
    assert server.http.get("/server_info").json()["miniature"]["label"] == label


def test_server_info_tells_what_runs(server: RunningServer) -> None:
    """The resolved settings under vLLM's names, and the scheduler's file with its hash."""
    info = server.http.get("/server_info", params={"config_format": "json"}).json()

    cache = info["vllm_config"]["cache_config"]
    assert (cache["block_size"], cache["mamba_cache_mode"]) == (32, "align")
    assert info["vllm_config"]["speculative_config"]["num_speculative_tokens"] == 2
    source = Path(scheduler.__file__)
    assert info["miniature"]["scheduler"] == {
        "path": str(source),
        "sha256": sha256(source.read_bytes()).hexdigest(),
    }


def test_a_reset_forgets_every_block(server: RunningServer) -> None:
    """The next request finds nothing."""
    prompt = list(range(300, 400))
    details = [server.complete(prompt).json()["usage"] for _ in range(2)]

    reset = server.http.post("/reset_prefix_cache")

    details.append(server.complete(prompt).json()["usage"])
    assert reset.json() == PAGES["reset-prefix-cache"]["body"]
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in details]
    assert cached == [0, 64, 0]


def test_the_oracle_knows_a_finished_request(server: RunningServer) -> None:
    """By the id of its answer."""
    prompt = list(range(400, 480))
    ids = [server.complete(prompt, cache_salt="oracle").json()["id"] for _ in range(2)]

    first, second = (server.http.get(f"/oracle/{name}").json() for name in ids)

    assert first["label"] == "MINIATURE: not vLLM"
    assert (first["restored_tokens"], second["restored_tokens"]) == (0, 32)
    assert second["restored_state_writings"] == [[ids[0], 0, 32]]
    assert first["blocks"][0] == second["blocks"][0]
    assert server.http.get("/oracle/nobody").status_code == 404


def test_without_development_mode_there_is_no_oracle(tmp_path: Path) -> None:
    """As with vLLM's own development endpoints; and without a tokenizer ids still work."""
    with started(tmp_path, *ARGUMENTS) as server:
        server.wait_until_ready()

        paths = ("/oracle/x", "/server_info")
        assert [server.http.get(path).status_code for path in paths] == [404, 404]
        assert server.complete(PROMPT).json()["choices"][0]["text"] == ""
        assert server.complete("text").status_code == 400


def test_two_starts_give_the_same_bits(tmp_path: Path) -> None:
    """The same seed is the same model, and on one machine the arithmetic is deterministic."""
    answers = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        with started(folder, *ARGUMENTS, *DRAFTS) as server:
            server.wait_until_ready()
            choice = server.complete(PROMPT, logprobs=20, max_tokens=8).json()["choices"][0]
            answers.append(choice["logprobs"])

    assert answers[0] == answers[1]
