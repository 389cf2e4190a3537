"""The HTTP surface against answers of real servers, field by field."""

import json
import re
import struct
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.miniature import scheduler

from .servers import ARGUMENTS, DRAFTS, RunningServer, started

_RECORDED = Path(__file__).parents[1] / "fixtures"
_RESPONSES, _METRICS = _RECORDED / "responses", _RECORDED / "metrics"

PAGES = json.loads(
    Path(__file__).with_name("recordings").joinpath("answers-0.29.0.json").read_text("utf-8")
)
"""Status and body of small answers of a real vLLM."""

PROMPT = list(range(100, 120))


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, tokenizer_file: Path
) -> Iterator[RunningServer]:
    """One with drafts, a tokenizer and the development endpoints."""
    arguments = (*ARGUMENTS, *DRAFTS, "--tokenizer", str(tokenizer_file))
    folder = tmp_path_factory.mktemp("server")
    with started(folder, *arguments, VLLM_SERVER_DEV_MODE="1") as server:
        server.wait_until_ready()
        yield server


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


def families(text: str) -> set[tuple[str, str, str, tuple[str, ...]]]:
    """Name, kind, help and label names of every series of a page."""
    return {
        (sample.name, family.type, family.documentation, tuple(sorted(sample.labels)))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_metrics_page_has_every_recorded_series(server: RunningServer) -> None:
    """The same names, kinds, help texts, labels and buckets; nothing less, nothing else."""
    server.complete(PROMPT)
    server.http.get("/v1/models")
    plain = (_METRICS / "0.29.0-cpu-caching-on-no-spec.metrics").read_text(encoding="utf-8")
    with_drafts = (_METRICS / "0.26.0-h200-caching-on-mtp.metrics").read_text(encoding="utf-8")
    drafts = {family for family in families(with_drafts) if "spec_decode" in family[0]}

    page = server.http.get("/metrics").text

    assert families(page) == families(plain) | drafts
    assert buckets(page) == buckets(plain)


def buckets(text: str) -> dict[str, set[str]]:
    """Bucket limits of each histogram."""
    found: dict[str, set[str]] = {}
    for name, limit in re.findall(r'^([\w:]+)_bucket\{[^}]*?le="([^"]+)"', text, re.MULTILINE):
        found.setdefault(name, set()).add(limit)
    return found


def counter(page: str, name: str) -> float:
    """The sum of a metric's series."""
    return sum(
        float(value) for value in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", page, re.MULTILINE)
    )


def test_counters_count(server: RunningServer) -> None:
    """Queries, hits and tokens of three requests, the later two of which hit."""
    names = (
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:prompt_tokens_total",
        "vllm:prompt_tokens_cached_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
    )
    before = server.http.get("/metrics").text

    for _ in range(3):
        server.complete(list(range(200, 280)), cache_salt="counters")

    after = server.http.get("/metrics").text
    added = [counter(after, name) - counter(before, name) for name in names]
    assert added == [240, 64, 240, 64, 6, 3]


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
