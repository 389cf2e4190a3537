"""Every fault, as whoever depends on a server meets it."""

import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.miniature.faults import (
    AT_REQUEST,
    AT_START,
    IN_ANSWER,
    IN_TRANSPORT,
    FaultError,
    parse,
)

from .servers import ARGUMENTS, RunningServer, started

PROMPT = list(range(100, 170))
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "miniature.md"


def test_every_fault_is_documented() -> None:
    """In the one table of docs/miniature.md, in the words of the program."""
    rows = dict(
        re.findall(
            r"^\| `([a-z0-9-]+)` \| (.+?) \|$", DOCUMENTATION.read_text("utf-8"), re.MULTILINE
        )
    )

    assert rows == AT_START | AT_REQUEST | IN_ANSWER | IN_TRANSPORT


@pytest.mark.parametrize("text", ["hung", "hang=2", "drip", "hang@first", "slow-start=soon"])
def test_a_fault_that_does_not_exist_is_an_error(text: str) -> None:
    """A test that misspells its fault must not pass without it."""
    with pytest.raises(FaultError):
        parse(text)


class Tampering:
    """A server whose faults are switched by writing a file."""

    def __init__(self, server: RunningServer, control: Path) -> None:
        self.server = server
        self._control = control

    def ask(self, faults: str, **changes: object) -> httpx.Response:
        """Have a prompt continued with these faults on."""
        self._control.write_text(faults, encoding="utf-8")
        return self.server.complete(PROMPT, logprobs=5, return_tokens_as_token_ids=True, **changes)

    def chat(self, faults: str) -> list[Any]:
        """Entries of a chat answer's lists with these faults on."""
        self._control.write_text(faults, encoding="utf-8")
        body = {
            "messages": [{"role": "user", "content": "?"}],
            "max_tokens": 2,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 5,
        }
        answer = self.server.http.post("/v1/chat/completions", json=body).json()
        entries: list[Any] = answer["choices"][0]["logprobs"]["content"]
        return entries


@pytest.fixture(scope="module")
def tampering(
    tmp_path_factory: pytest.TempPathFactory, tokenizer_file: Path
) -> Iterator[Tampering]:
    """One server for all faults that leave it alive."""
    folder = tmp_path_factory.mktemp("tampering")
    control = folder / "faults"
    arguments = (*ARGUMENTS, "--tokenizer", str(tokenizer_file))
    with started(folder, *arguments, MINIATURE_FAULTS_FILE=str(control)) as server:
        server.wait_until_ready()
        yield Tampering(server, control)


def top_lists(response: httpx.Response) -> list[dict[str, float]]:
    """The lists of a completion."""
    lists: list[dict[str, float]] = response.json()["choices"][0]["logprobs"]["top_logprobs"]
    return lists


def cached(response: httpx.Response) -> object:
    """What the usage says about the cache."""
    return response.json()["usage"]["prompt_tokens_details"]


def test_lists_of_another_length(tampering: Tampering) -> None:
    """One less, one more; the rest of the list is the honest one."""
    honest = top_lists(tampering.ask(""))
    short = top_lists(tampering.ask("short-list"))
    long = top_lists(tampering.ask("one-more-candidate"))

    assert [list(top)[:4] for top in honest] == [list(top) for top in short]
    assert [list(top) for top in honest] == [list(top)[:5] for top in long]
    assert {len(top) for top in long} == {6}
    assert {len(entry["top_logprobs"]) for entry in tampering.chat("one-more-candidate")} == {6}


def test_a_tie_at_the_cut_changes_membership_only(tampering: Tampering) -> None:
    """The last candidate is another token; every value stays."""
    honest = top_lists(tampering.ask(""))
    tied = top_lists(tampering.ask("tie-at-the-cut"))

    for before, after in zip(honest, tied, strict=True):
        assert list(before)[:-1] == list(after)[:-1]
        assert list(before)[-1] not in after
        assert list(before.values()) == list(after.values())


def test_values_that_are_no_log_probability(tampering: Tampering) -> None:
    """NaN, which is no JSON, and vLLM's floor."""
    nan = top_lists(tampering.ask("nan"))
    floor = top_lists(tampering.ask("floor"))

    assert all(math.isnan(next(iter(top.values()))) for top in nan)
    assert {list(top.values())[-1] for top in floor} == {-9999.0}


def test_a_stop_entry_is_appended_to_a_chat(tampering: Tampering) -> None:
    """Empty, as in vLLM #17637."""
    *_, last = tampering.chat("stop-entry")

    assert last == {"token": "", "logprob": -9999.0, "bytes": [], "top_logprobs": []}


def test_what_the_usage_says_about_the_cache(tampering: Tampering) -> None:
    """Null, absent, impossible."""
    assert cached(tampering.ask("cached-null"))["cached_tokens"] is None  # type: ignore[index]
    assert cached(tampering.ask("cached-negative"))["cached_tokens"] == -32  # type: ignore[index]
    assert cached(tampering.ask("cached-absent")) is None
    assert cached(tampering.ask("cached-too-large"))["cached_tokens"] == len(PROMPT)  # type: ignore[index]


def test_a_body_that_is_no_answer(tampering: Tampering) -> None:
    """Half of one, or another shape; status 200 both times."""
    half, wrong = tampering.ask("truncated-json"), tampering.ask("wrong-json")

    assert (half.status_code, wrong.status_code) == (200, 200)
    with pytest.raises(json.JSONDecodeError):
        half.json()
    assert wrong.json()["choices"] == "none today"


def test_an_answer_that_is_none_of_the_api(tampering: Tampering) -> None:
    """A page, an error, a way elsewhere, another model's: each with its own status."""
    page, limited, away = (tampering.ask(f) for f in ("html", "status=429", "redirect"))

    assert (page.status_code, page.headers["content-type"][:9]) == (200, "text/html")
    assert limited.status_code == 429
    assert (away.status_code, away.headers["location"]) == (307, "/health")
    assert tampering.ask("wrong-model").json()["model"] == "another-model"


def test_a_body_that_is_longer_or_shorter_than_it_should_be(tampering: Tampering) -> None:
    """A MiB of blanks behind it; the connection closed in its middle."""
    assert len(tampering.ask("huge=1").content) > 2**20
    with pytest.raises(httpx.RemoteProtocolError):
        tampering.ask("cut-off")


def test_a_body_that_drips(tampering: Tampering) -> None:
    """Complete in the end; ten pauses of 20 ms."""
    began = time.monotonic()
    answer = tampering.ask("drip=0.02")

    assert time.monotonic() - began >= 0.2
    assert len(top_lists(answer)) == 2


def test_a_stream_can_be_cut_off(tampering: Tampering) -> None:
    """It ends without its end mark."""
    whole, cut = (tampering.ask(faults, stream=True) for faults in ("", "truncated-json"))

    assert whole.text.endswith("data: [DONE]\n\n")
    assert "[DONE]" not in cut.text
    assert cut.text.count("data: ") == whole.text.count("data: ") - 1


def test_a_preemption_is_counted_and_answered(tampering: Tampering) -> None:
    """The engine preempts in earnest: only its counter tells."""
    page = tampering.server.http.get("/metrics").text
    honest = top_lists(tampering.ask("", max_tokens=4))

    preempted = tampering.ask("preempt", max_tokens=4)

    after = tampering.server.http.get("/metrics").text
    assert preemptions(after) - preemptions(page) == 1
    assert len(top_lists(preempted)) == len(honest) == 4


def preemptions(page: str) -> float:
    """The counter."""
    found = re.search(r"^vllm:num_preemptions_total\{.*\} (\S+)$", page, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_an_eviction_makes_a_repeat_miss(tampering: Tampering) -> None:
    """The blocks are gone; without the fault the same request hits."""
    cached_tokens = [
        cached(tampering.ask(faults, cache_salt="evict"))["cached_tokens"]  # type: ignore[index]
        for faults in ("", "", "evict", "")
    ]

    assert cached_tokens == [0, 64, 0, 64]
