"""Observations → digests."""

import math

from orchestrator.digest import difference_kind, digests, numeric_key
from orchestrator.model.observation import Candidate, Observation
from tests.answers import PLAIN, Pair, f32, moved, observation

SWAPPED_TIE = (((7, -0.5), (9, -2.0), (3, -2.0), (4, -3.5)),)
TIE = (((7, -0.5), (3, -2.0), (9, -2.0), (4, -3.5)),)


def test_known_answers_of_scheme_d1() -> None:
    """Pins the scheme. If this fails, old runs no longer compare: make it d2 instead."""
    pinned = digests(observation())

    assert pinned.scheme == "d1"
    assert pinned.server_order == PINNED["server_order"]
    assert pinned.id_order == PINNED["id_order"]
    assert pinned.values == PINNED["values"]


def test_known_answer_of_the_articles_scheme() -> None:
    """SHA-256 over `token_id:N` and `%.12g` in the server's order, so that his figures compare."""
    assert digests(observation()).article == PINNED["article"]


PINNED = {
    "server_order": "35c9799a33867268b237720b300a75bc6d9fe29ef721c5acb724baa292f83e39",
    "id_order": "f95a5594afb2ba7bc63d927d16d5594ea72f8f6c8743921b8b11f62310ce81e1",
    "values": "01aaac46ba43ef54690eaea2445337814480132e3260fb2e7877536f1c4d7269",
    "article": "ae5c5ef0fad553a87f11dc17b2a7be0689b54b41426097fa5f346b8970122789",
}


def test_one_ulp_changes_every_digest() -> None:
    """Equal digests mean equal bits, not close values."""
    nudged = f32(math.nextafter(f32(-1.25), -2.0) - 2**-23)
    lists = (((7, -0.5), (3, nudged), (9, -2.0), (4, -3.5)), *PLAIN[1:])
    before, after = digests(observation()), digests(observation(lists))

    assert nudged != -1.25
    assert before.server_order != after.server_order
    assert before.id_order != after.id_order
    assert before.values != after.values
    assert difference_kind(observation(), observation(lists)) == "numeric"


def test_text_and_usage_do_not_enter_a_digest() -> None:
    """What is compared are the candidates; text equality is never evidence."""
    other = observation(text="other", prompt_tokens=81, cached=32)

    assert digests(other) == digests(observation())


def test_another_order_of_tied_candidates_is_order_only() -> None:
    """The same candidates with the same values are the same numbers."""
    left, right = observation(TIE), observation(SWAPPED_TIE)

    assert difference_kind(left, right) == "order-only"
    assert digests(left).server_order != digests(right).server_order
    assert digests(left).id_order == digests(right).id_order
    assert numeric_key(left) == numeric_key(right)


def test_another_member_at_the_cut_is_tie_only() -> None:
    """Which of several tied candidates is listed last is the choice of a sort."""
    left = observation((((7, -0.5), (3, -2.0), (9, -2.5), (4, -3.5)),))
    right = observation((((7, -0.5), (3, -2.0), (9, -2.5), (5, -3.5)),))

    assert difference_kind(left, right) == "tie-only"
    assert digests(left).id_order != digests(right).id_order
    assert digests(left).values == digests(right).values


def test_more_ties_at_the_cut_are_numeric() -> None:
    """A list with another number of candidates is another list, though its values agree."""
    left = observation((((7, -0.5), (3, -2.0), (9, -3.5), (4, -3.5)),))
    right = observation((((7, -0.5), (3, -2.0), (9, -3.5)),))

    assert difference_kind(left, right) == "numeric"


def test_another_member_above_the_cut_is_numeric() -> None:
    """Two candidates that exchange their values are no tie."""
    left = observation((((7, -0.5), (3, -2.0), (9, -2.5), (4, -3.5)),))
    right = observation((((7, -0.5), (3, -2.5), (9, -2.0), (4, -3.5)),))

    assert difference_kind(left, right) == "numeric"
    assert digests(left).values == digests(right).values


def test_another_chosen_token_is_numeric_even_with_equal_lists() -> None:
    """A different token was generated, whatever the lists say."""
    tied: tuple[tuple[Pair, ...], ...] = (((7, -0.5), (3, -0.5), (9, -2.0), (4, -3.5)),)

    assert difference_kind(observation(tied), observation(tied, chosen=[3])) == "numeric"


def test_a_token_more_is_numeric() -> None:
    """Answers of different lengths are different answers."""
    assert difference_kind(observation(), observation(PLAIN[:2])) == "numeric"


def test_difference_kind_of_equal_answers() -> None:
    """The reading for which all others are exceptions."""
    assert difference_kind(observation(), observation()) == "identical"
    assert difference_kind(observation(), observation(moved(2))) == "numeric"


def test_the_chosen_token_outside_the_top_enters_by_its_id_only() -> None:
    """The list that is hashed has k entries whether the chosen token is among them or not."""
    inside = observation(PLAIN[:1])
    position = inside.positions[0]
    outside = type(position)(Candidate(99, -7.0), position.candidates, chosen_outside=True)
    answer = Observation((outside,), "", 80, 0, None, None)

    assert digests(answer).values == digests(inside).values
    assert digests(answer).server_order != digests(inside).server_order
