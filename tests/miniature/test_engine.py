"""Steps of the engine: drafts, pressure, company, and the oracle."""

from dataclasses import replace

import pytest

from orchestrator.miniature.engine import Engine
from orchestrator.miniature.model import Model
from orchestrator.miniature.requests import Request, Wish
from orchestrator.miniature.scheduler import Limits

from .conftest import BLOCK, MEASURED, SHARED_TOKENS, Client

WITHOUT_DRAFTS = replace(MEASURED, num_speculative_tokens=0)


def tokens(request: Request) -> list[int]:
    """What was generated."""
    return [generated.token for generated in request.generated]


def finish(engine: Engine) -> None:
    """Step until nothing is left to do."""
    while engine.scheduler.running or engine.scheduler.waiting:
        engine.step()


def test_every_token_is_the_most_probable_one(model: Model, documents: list[list[int]]) -> None:
    """With drafts as well: a draft only saves a step, it never decides."""
    request = Client(model, MEASURED).ask(documents[0][:70], max_tokens=24)

    assert len(request.generated) == 24
    for generated in request.generated:
        assert generated.token == generated.candidates[0].token
        assert generated.candidates[0].logprob == max(c.logprob for c in generated.candidates)


def test_drafts_are_accepted_now_and_then(model: Model, documents: list[list[int]]) -> None:
    """Unlike those of the tiny random model on a real server, of which one in 1,700 was."""
    client = Client(model, MEASURED)
    steps = 0
    for document in documents[:4]:
        request = client.ask(document[:70], max_tokens=24)
        steps += len(request.chunks) - 2  # two chunks of the prompt

    counts = client.engine.draft_counts
    accepted = sum(counts.accepted_by_position)
    assert 0 < accepted < counts.proposed
    assert steps == 4 * 23 - accepted


def test_drafts_hardly_change_what_is_generated(model: Model, documents: list[list[int]]) -> None:
    """Only the shapes of the products differ, so most documents give the same text."""
    drafted, plain = Client(model, MEASURED), Client(model, WITHOUT_DRAFTS)

    same = [
        tokens(drafted.ask(document[:70], max_tokens=12))
        == tokens(plain.ask(document[:70], max_tokens=12))
        for document in documents[:8]
    ]

    assert sum(same) > len(same) / 2


def test_states_are_saved_while_generating(model: Model, documents: list[list[int]]) -> None:
    """A continuation of an answer finds what generating it computed."""
    client = Client(model, MEASURED)
    request = client.ask(documents[0][:60], max_tokens=72)

    longer = client.ask([*documents[0][:60], *tokens(request)])

    assert longer.cached_tokens == 3 * BLOCK  # four full blocks match, the last is given up


def test_a_preempted_request_loses_nothing_but_time(
    model: Model, documents: list[list[int]]
) -> None:
    """Two requests that do not fit together are both answered in full."""
    limits = replace(WITHOUT_DRAFTS, num_blocks=9, max_model_len=200)
    engine = Engine(model, limits, seed=0)
    wishes = [Wish(prompt=tuple(document[:90]), max_tokens=40) for document in documents[:2]]
    requests = [engine.add(str(number), wish) for number, wish in enumerate(wishes)]

    finish(engine)

    assert [request.finish_reason for request in requests] == ["length", "length"]
    assert [len(request.generated) for request in requests] == [40, 40]
    assert engine.scheduler.preemptions == sum(request.preemptions for request in requests) > 0
    assert engine.scheduler.queried_tokens == 180  # a resumption is no query
    assert engine.scheduler.cache.usage == 0


def test_an_aborted_request_gives_its_blocks_back(model: Model, documents: list[list[int]]) -> None:
    """Whether it runs or waits."""
    engine = Engine(model, MEASURED, seed=0)
    running = engine.add("running", Wish(prompt=tuple(documents[0]), max_tokens=50))
    engine.step()
    waiting = engine.add("waiting", Wish(prompt=tuple(documents[1]), max_tokens=50))

    engine.abort(running)
    engine.abort(waiting)

    assert engine.scheduler.cache.usage == 0
    assert engine.step() == []


def test_company_does_not_mix_requests_up(model: Model, documents: list[list[int]]) -> None:
    """Requests that share steps get what each gets alone, up to the bits that shapes change."""
    alone = [tokens(Client(model, MEASURED).ask(document[:70])) for document in documents[:6]]
    engine = Engine(model, MEASURED, seed=0)
    together = [
        engine.add(str(number), Wish(prompt=tuple(document[:70]), max_tokens=1))
        for number, document in enumerate(documents[:6])
    ]

    finish(engine)

    assert sum(tokens(request) == own for request, own in zip(together, alone, strict=True)) >= 5


def test_a_stop_token_ends_a_request(model: Model, documents: list[list[int]]) -> None:
    """It is the last token of the answer, unless fewer than the minimum were generated."""
    client = Client(model, MEASURED)
    expected = tokens(client.ask(documents[0][:70], max_tokens=8))
    stop = frozenset({expected[2]})

    def ask(min_tokens: int) -> Request:
        wish = Wish(
            prompt=tuple(documents[0][:70]), max_tokens=8, stop_tokens=stop, min_tokens=min_tokens
        )
        request = client.engine.add(f"stop-{min_tokens}", wish)
        finish(client.engine)
        return request

    assert (tokens(ask(0)), ask(0).finish_reason) == (expected[:3], "stop")
    assert ask(4).finish_reason == "length"


def test_a_temperature_draws_and_a_seed_repeats_the_draw(
    model: Model, documents: list[list[int]]
) -> None:
    """Then the chosen token may be outside the list, which has one entry more for it."""
    engine = Engine(model, MEASURED, seed=0)
    wish = Wish(
        prompt=tuple(documents[0][:70]), max_tokens=8, temperature=0.5, seed=7, top_logprobs=3
    )
    first, second = engine.add("first", wish), engine.add("second", replace(wish, salt="other"))
    finish(engine)

    assert tokens(first) == tokens(second)
    lengths = {len(generated.candidates) for generated in first.generated}
    assert lengths == {3, 4}
    for generated in first.generated:
        assert generated.candidates[0].token == generated.token


class TestOracle:
    """It tells who computed what, and whether the bits are the same."""

    @pytest.fixture
    def client(self, model: Model) -> Client:
        """A fresh engine."""
        return Client(model, MEASURED)

    def test_a_request_alone_owns_its_blocks(
        self, client: Client, documents: list[list[int]]
    ) -> None:
        """Bounds of its own chunks, nothing restored."""
        request = client.ask(documents[0][:80])

        truth = client.engine.truths[request.id]
        assert (truth.restored_tokens, truth.restored_state_sha256) == (0, None)
        assert truth.chunks == ((0, 32), (32, 80))
        assert [block.writings for block in truth.blocks] == [
            ((request.id, 0, 32),),
            ((request.id, 32, 80),),
        ]

    def test_a_visible_difference_has_a_cause(
        self, client: Client, documents: list[list[int]]
    ) -> None:
        """Where the candidates moved, the first block is A's and its bits are others.

        And where the bits are the same, the candidates are: the engine has no other source of
        difference.
        """
        different = []
        for document in documents:
            shared, rest = document[:SHARED_TOKENS], document[SHARED_TOKENS:]
            b = (shared + rest[::-1])[:80]
            a = client.ask(document[:62])
            own, restored = client.ask(b), client.ask(b)

            before, after = (client.engine.truths[request.id] for request in (own, restored))
            assert before.blocks[0].writings == ((own.id, 0, 32),)
            assert after.blocks[0].writings == ((a.id, 0, 62),)
            assert after.restored_state_writings == ((own.id, 0, 32),)
            bits_differ = before.blocks[0].keys_values_sha256 != after.blocks[0].keys_values_sha256
            if own.generated != restored.generated:
                assert bits_differ
            if not bits_differ:
                assert own.generated == restored.generated
            different.append(bits_differ)
        assert any(different)

    def test_equal_chunks_have_equal_hashes(
        self, client: Client, documents: list[list[int]]
    ) -> None:
        """A of two blocks ends its chunk where B does: other writer, same bits."""
        for document in documents[:4]:
            shared, rest = document[:SHARED_TOKENS], document[SHARED_TOKENS:]
            b = (shared + rest[::-1])[:80]
            client.ask(document[:66])
            own, restored = client.ask(b), client.ask(b)

            before, after = (client.engine.truths[request.id] for request in (own, restored))
            assert before.blocks[0].writings != after.blocks[0].writings
            assert before.blocks[0].keys_values_sha256 == after.blocks[0].keys_values_sha256


def test_a_cache_that_is_too_small_is_refused_by_nobody_but_the_start(model: Model) -> None:
    """The engine itself waits for blocks; `service` checks that one request always fits."""
    limits = Limits(
        block_size=BLOCK,
        max_num_batched_tokens=2048,
        max_model_len=2048,
        prefix_caching=True,
        num_speculative_tokens=0,
        num_blocks=2,
    )
    engine = Engine(model, limits, seed=0)
    engine.add("large", Wish(prompt=tuple(range(100)), max_tokens=1))

    assert engine.step() == []
    assert engine.scheduler.cache.free == 2
