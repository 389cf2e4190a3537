"""Pairs of lengths, where the shared length may be unknown."""

import json
from pathlib import Path

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.prediction.pairs import Pair, pair_eligibility, pair_prompts, predict_pair
from tests.prediction.scheduling import CPU_MTP, GB10, changed

PUBLISHED = json.loads((Path(__file__).parent / "published-pairs.json").read_text("utf-8"))
BY_NAME = {pair["name"]: pair for pair in PUBLISHED["pairs"]}


def published(name: str) -> Pair:
    """One of the eight pairs, which came without the length of what they share."""
    return Pair(a=BY_NAME[name]["a_tokens"], b=BY_NAME[name]["b_tokens"], shared=None)


@pytest.mark.parametrize("name", [n for n, p in BY_NAME.items() if p["measured"] == "diverges"])
def test_no_published_pair_that_diverges_is_ruled_out(name: str) -> None:
    """A mixed origin is necessary: "not eligible" would be refuted by the measurement."""
    ranges = predict_pair(published(name), GB10, repeats=3, max_tokens=48)

    assert pair_eligibility(ranges) == "undetermined"
    assert [(r.first, r.last, r.cell.eligible) for r in ranges] == [
        (0, 1599, "not eligible"),
        (1600, published(name).a - 1, "eligible"),
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("D6e", "not eligible"),
        ("D3e", "not eligible"),
        ("T5", "not eligible"),
        ("T4", "not eligible"),
        ("D1u", "undetermined"),
        ("T9", "undetermined"),
    ],
)
def test_published_stable_pairs(name: str, expected: str) -> None:
    """Four cannot be eligible whatever they share; two depend on it, and are not fitted."""
    ranges = predict_pair(published(name), GB10, repeats=3, max_tokens=48)

    assert pair_eligibility(ranges) == expected


def test_a_known_shared_length_is_one_range() -> None:
    """Nothing is left open then."""
    (only,) = predict_pair(Pair(a=3196, b=3259, shared=3052), GB10, repeats=3, max_tokens=48)

    assert (only.first, only.last, only.cell.eligible) == (3052, 3052, "eligible")


def test_ranges_begin_where_one_more_block_is_found() -> None:
    """With hashes that look one token ahead, that is one token after a boundary."""
    ahead = changed(CPU_MTP, rule="v0.33")
    ranges = predict_pair(Pair(a=80, b=90, shared=None), ahead, repeats=1, max_tokens=1)

    assert [(r.first, r.last) for r in ranges] == [(0, 32), (33, 64), (65, 79)]


def test_more_shared_than_there_is_is_an_error_of_the_flag() -> None:
    """Named as the user wrote it."""
    with pytest.raises(DefinitionError, match="--pair 80:90:81"):
        predict_pair(Pair(a=80, b=90, shared=81), GB10, repeats=1, max_tokens=1)


def test_prompts_share_exactly_what_was_asked_for() -> None:
    """No token after the shared ones occurs in both."""
    a, b = pair_prompts(7, 9, 4)

    assert (len(a), len(b)) == (7, 9)
    assert a[:4] == b[:4]
    assert not set(a[4:]) & set(b)
