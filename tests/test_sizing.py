"""Size expressions and prompts of exact lengths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.sizing import common_prefix, compose, resolve


@pytest.mark.parametrize(
    ("expression", "tokens"),
    [
        ("2*block - 4", 3196),
        ("block + block // 4", 2000),
        ("(block + 1) * 2", 3202),
        ("3259", 3259),
    ],
)
def test_a_size_is_an_expression_of_the_block(expression: str, tokens: int) -> None:
    """At the article's block of 1600."""
    assert resolve(expression, block_tokens=1600) == tokens


@pytest.mark.parametrize(
    "expression",
    ["", "-1 + block", "block block", "blocks", "2.5", "True",
     "block / 2", "block ** 9", "f(2)", "block // 0",
     "block - block",
     "__import__('os')", "'x'"],
)  # fmt: skip
def test_anything_else_is_no_size(expression: str) -> None:
    """A definition's text is never executed."""
    with pytest.raises(ValueError, match=r"."):
        resolve(expression, block_tokens=32)


DOCUMENT = list(range(100, 160))
TAIL = list(range(300, 310))


@given(shared=st.integers(3, 40), extra=st.integers(1, 25), suffix=st.integers(0, 3))
def test_a_prompt_has_exactly_its_length_and_its_shared_part(
    shared: int, extra: int, suffix: int
) -> None:
    """Whatever the sizes: prefix and document fill the shared part, the rest is tail and suffix."""
    total = shared + extra + suffix
    ids = compose(
        prefix=[1, 2],
        document=DOCUMENT,
        tail=TAIL,
        suffix=[9] * suffix,
        shared_tokens=shared,
        total_tokens=total,
    )

    assert len(ids) == total
    assert list(ids[:shared]) == [1, 2, *DOCUMENT[: shared - 2]]
    assert ids[shared] == TAIL[0]
    assert list(ids[total - suffix :]) == [9] * suffix


def test_a_short_tail_goes_on_with_the_documents_own_text() -> None:
    """From where the shared part ends: real text, not filler."""
    ids = compose(
        prefix=[], document=DOCUMENT, tail=[7], suffix=[], shared_tokens=10, total_tokens=14
    )

    assert list(ids[10:]) == [7, *DOCUMENT[10:13]]


@pytest.mark.parametrize(
    ("shared", "total", "told"),
    [(2, 30, "do not exceed the prefix"), (20, 20, "no room for a question"),
     (70, 90, "10 tokens too short"), (50, 90, "18 tokens too short")],
)  # fmt: skip
def test_lengths_that_cannot_be_reached_say_by_how_much(shared: int, total: int, told: str) -> None:
    """In tokens, so that the definition can be mended."""
    with pytest.raises(ValueError, match=told):
        compose(
            prefix=[1, 2],
            document=DOCUMENT,
            tail=TAIL,
            suffix=[],
            shared_tokens=shared,
            total_tokens=total,
        )


def test_the_common_prefix_is_counted_in_tokens() -> None:
    """Also where one is the beginning of the other."""
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([1, 2], [1, 2, 3]) == 2
    assert common_prefix([], [1]) == 0
