"""Cold requests: planned exactly, measured only where they were cold and alone."""

from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.model.exchange import Exchange, ExchangeTimes
from orchestrator.model.plan import Plan, Selection
from orchestrator.model.stacks import ColdResult
from orchestrator.requesting import request_body
from orchestrator.throughput import cold_results
from tests.definitions import experiment, plan, profile
from tests.test_streaming import BODY, TIMES

LENGTHS = ["20", "40", "3*block"]


def planned(
    selection: Selection = "plain",
    *,
    context: int | None = 100,
    **throughput: Any,  # noqa: ANN401 - any key
) -> Plan:
    """A plan with cold requests of 20, 40 and 48 tokens, three each."""
    values = {"lengths": LENGTHS, "documents": ["one", "two"], "repeats": 2} | throughput
    asked = experiment(throughput=values, there_and_back=True)
    return plan(asked, profile(context_tokens=context), selection=selection)


def test_cold_requests_have_their_exact_lengths_the_shortest_first() -> None:
    """One that warms up, then the repeats."""
    made = planned()

    for arm in made.arms:
        assert [run.prompt_tokens for run in arm.cold] == [20, 40, 48]
        for run in arm.cold:
            assert [probe.repeat for probe in run.probes] == [0, 1, 2]
            assert {len(made.prompt_ids(p.prompt)) for p in run.probes} == {run.prompt_tokens}


def test_no_two_cold_requests_begin_with_the_same_block_or_have_a_salt_in_common() -> None:
    """Neither among themselves nor with a cell of the start."""
    made = planned()
    for arm in made.arms:
        cold = [probe for run in arm.cold for probe in run.probes]
        others = [arm.ready_probe, *arm.warm_up, *(p for cell in arm.cells for p in cell.probes)]

        assert len({made.prompt_ids(probe.prompt)[:16] for probe in cold}) == len(cold)
        assert len({probe.salt for probe in cold}) == len(cold)
        assert not {probe.salt for probe in cold} & {probe.salt for probe in others}


def test_every_start_is_sent_the_same_prompts_in_the_same_order() -> None:
    """What is compared between starts differs in nothing but the server, and its salts."""
    orders = {
        tuple(probe.prompt for run in arm.cold for probe in run.probes) for arm in planned().arms
    }

    assert len(orders) == 1


def test_probe_ids_are_unique_and_sort_in_the_order_of_sending() -> None:
    """They are the names of files, read back sorted."""
    arm = planned().arms[1]
    ids = [
        *(probe.id for probe in arm.warm_up),
        *(probe.id for cell in arm.cells for probe in cell.probes),
        *(probe.id for run in arm.cold for probe in run.probes),
    ]

    assert ids == sorted(set(ids))


def test_limit_is_what_the_server_takes_less_the_answer() -> None:
    """Six lengths by default, the last as long as can be."""
    made = planned(lengths=["limit // 4", "limit"], max_tokens=8)

    assert [run.prompt_tokens for run in made.arms[0].cold] == [23, 92]


def test_a_quick_run_takes_two_lengths() -> None:
    """The shortest."""
    assert [run.prompt_tokens for run in planned("quick").arms[0].cold] == [20, 40]


def test_a_cold_request_is_streamed_and_asks_for_no_token_lists() -> None:
    """Making them would be part of what is timed."""
    made = planned(max_tokens=9)
    arm = made.arms[0]

    body = request_body(made, arm, arm.cold[0].probes[0])

    assert b'"stream":true' in body
    assert b'"include_usage":true' in body
    assert b'"max_tokens":9,' in body
    assert b"logprobs" not in body


@pytest.mark.parametrize(
    ("throughput", "context", "told"),
    [
        ({"lengths": ["40", "20"]}, 100, r"throughput.lengths: \[40, 20\] must grow"),
        ({"lengths": ["20", "20"]}, 100, "must grow"),
        ({"lengths": ["limit"]}, None, "lengths.0: .* has no context_tokens, which"),
        ({"lengths": ["80"], "max_tokens": 32}, 100, "80 tokens and an answer of 32 exceed 100"),
        ({"lengths": ["20", "many"]}, 100, "throughput.lengths.1: 'many'"),
        ({"lengths": ["900"]}, 2000, "throughput.documents: the documents have 400 tokens"),
        ({"documents": ["one", "one"], "lengths": ["20"], "repeats": 3}, 100, "more text"),
    ],
)
def test_a_throughput_that_cannot_be_is_refused_with_its_key(
    throughput: dict[str, Any], context: int | None, told: str
) -> None:
    """With what is missing, and by how much."""
    with pytest.raises(DefinitionError, match=told):
        planned(context=context, **throughput)


def page(**counters: float) -> str:
    """Counters as a server's page has them."""
    names = {
        "hits": "vllm:prefix_cache_hits_total",
        "finished": "vllm:request_success_total",
        "running": "vllm:num_requests_running",
        "preemptions": "vllm:num_preemptions_total",
        "prefill": "vllm:request_prefill_time_seconds_sum",
        "drafted": "vllm:spec_decode_num_draft_tokens_total",
        "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    }
    return "".join(f'{names[key]}{{engine="0"}} {value}\n' for key, value in counters.items())


BEFORE = {"hits": 7, "finished": 1, "running": 0, "preemptions": 0, "prefill": 1.0}
DRAFTS = {"drafted": 10, "accepted": 4}


def measured(
    before: dict[str, float],
    after: dict[str, float],
    response: bytes = BODY,
    **times: Any,  # noqa: ANN401 - any field
) -> Sequence[ColdResult]:
    """One cold request of 255 tokens, answered with the recorded stream; no other was sent."""
    made = planned(context=300, lengths=["255"], max_tokens=2)
    arm = made.arms[0]
    ready = ExchangeTimes.model_validate(TIMES.model_dump() | {"probe": arm.ready_probe})
    cold = {"probe": arm.cold[0].probes[1]} | times
    sent = ExchangeTimes.model_validate(TIMES.model_dump() | cold)
    return cold_results(
        arm,
        [
            (Exchange(times=ready, request=b"", response=b""), page(**before)),
            (Exchange(times=sent, request=b"", response=response), page(**after)),
        ],
    )


def test_a_cold_request_has_both_clocks_and_its_drafts() -> None:
    """Ours from the stream, the server's from two readings of its histogram."""
    after = BEFORE | {"finished": 2, "prefill": 1.25, "drafted": 16, "accepted": 5}

    result = measured(BEFORE | DRAFTS, after)[1]

    assert result.problem is None
    assert (result.prompt_tokens, result.repeat) == (255, 1)
    assert result.first_token_s == TIMES.arrivals[0].at_s
    assert result.prefill_s == pytest.approx(0.25)
    assert (result.draft_tokens, result.accepted_tokens) == (6, 1)


def test_without_counters_of_drafts_their_number_is_unknown() -> None:
    """Missing is not zero."""
    result = measured(BEFORE, BEFORE | {"finished": 2})[1]

    assert (result.problem, result.draft_tokens, result.accepted_tokens) == (None, None, None)


@pytest.mark.parametrize(
    ("before", "after", "response", "told"),
    [
        ({}, {"hits": 23}, BODY, "it was not cold: cached tokens 0 by the answer, 16 by"),
        ({}, {}, BODY.replace(b'"cached_tokens":0', b'"cached_tokens":16'), "it was not cold"),
        ({}, {}, BODY.replace(b'"prompt_tokens":255', b'"prompt_tokens":256'), "counted 256"),
        ({"running": 1}, {}, BODY, "other requests were running"),
        ({}, {"preemptions": 2}, BODY, "2 preemptions"),
        ({}, {"finished": 3}, BODY, "finished 2 requests, not 1"),
        ({}, {}, BODY[: TIMES.arrivals[5].bytes], "the stream ended"),
    ],
)
def test_what_was_not_cold_or_not_alone_is_no_measurement(
    before: dict[str, float], after: dict[str, float], response: bytes, told: str
) -> None:
    """It has no times, so none can be counted."""
    arrivals = ({"bytes": len(response), "at_s": 1.0},)

    result = measured(
        BEFORE | before, BEFORE | {"finished": 2} | after, response, arrivals=arrivals
    )[1]

    assert told in (result.problem or "")
    assert result.first_token_s is None


def test_nobody_says_whether_it_was_cold() -> None:
    """An answer without details, a page without the counter: not taken for cold."""
    silent = BODY.replace(b',"prompt_tokens_details":{"cached_tokens":0}', b"")
    before = {"finished": 1}

    result = measured(
        before, {"finished": 2}, silent, arrivals=({"bytes": len(silent), "at_s": 1.0},)
    )

    assert "neither the answer nor a counter says" in (result[1].problem or "")


def test_a_failed_request_and_one_that_was_never_sent_say_so() -> None:
    """A start that died in the middle has the rest of its requests as not sent."""
    results = measured(BEFORE, BEFORE, error="ReadError: ")

    assert [result.problem for result in results] == [
        "it was not sent",
        "ReadError: ",
        "it was not sent",
    ]
