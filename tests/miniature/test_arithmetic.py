"""The number format, and the operation that the divergence comes from."""

import numpy as np
import pytest
from numpy.typing import NDArray

from orchestrator.miniature.arithmetic import FloatArray, round_to_bfloat16
from orchestrator.miniature.linear_attention import PIECE_ROWS, Rows, attend, generate, piece_sizes

ROWS, HEADS, KEY_SIZE, VALUE_SIZE = 100, 2, 16, 24


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (1.0, 1.0),
        (1.00390625, 1.0),  # half a step above 1: to the even neighbour
        (1.01171875, 1.015625),  # one and a half steps: to the even neighbour again
        (1.00391, 1.0078125),  # just above half a step
        (-3.3, -3.296875),
        (float("-inf"), float("-inf")),
    ],
)
def test_bfloat16_rounds_to_nearest_and_ties_to_even(value: float, rounded: float) -> None:
    """Known answers; bfloat16 has eight significant bits."""
    assert round_to_bfloat16(np.array([value], np.float32))[0] == rounded


@pytest.fixture
def chunk() -> Rows:
    """Queries, keys, values and log decays of a long chunk."""
    draw = np.random.default_rng(3).standard_normal
    queries, keys = (draw((ROWS, HEADS, KEY_SIZE), dtype=np.float32) for _ in range(2))
    values = draw((ROWS, HEADS, VALUE_SIZE), dtype=np.float32)
    sizes: FloatArray = np.abs(draw((ROWS, HEADS), dtype=np.float32))
    return Rows(queries, keys, values, sizes * np.float32(-0.25))


@pytest.fixture
def state() -> FloatArray:
    """A state from earlier tokens."""
    shape = (HEADS, KEY_SIZE, VALUE_SIZE)
    return np.random.default_rng(4).standard_normal(shape, dtype=np.float32)


def token_by_token(
    chunk: Rows, state: FloatArray
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The definition, in float64: S = a S + k v, o = q S."""
    outputs, current = [], state.astype(np.float64)
    columns = (chunk.queries, chunk.keys, chunk.values, chunk.log_decays)
    for query, key, value, log_decay in zip(*columns, strict=True):
        outer = key[:, :, None].astype(np.float64) * value[:, None, :]
        current = np.exp(log_decay.astype(np.float64))[:, None, None] * current + outer
        outputs.append(np.einsum("hk,hkv->hv", query, current))
    return np.stack(outputs), current


@pytest.mark.parametrize("rows", [1, 2, 32, 62, 64, 65, 100])
def test_pieces_compute_the_recurrence(chunk: Rows, state: FloatArray, rows: int) -> None:
    """Whatever the cut, it is the same function up to float32's precision."""
    part = chunk.part(0, rows)
    expected, expected_state = token_by_token(part, state)

    output, after = attend(part, state)

    np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(after, expected_state, rtol=1e-3, atol=1e-3)


def test_generating_computes_the_recurrence(chunk: Rows, state: FloatArray) -> None:
    """And keeps the state after each token."""
    output, states = generate(chunk.part(0, 3), state)

    for count in (1, 2, 3):
        expected, expected_state = token_by_token(chunk.part(0, count), state)
        np.testing.assert_allclose(output[:count], expected, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(states[count - 1], expected_state, rtol=1e-3, atol=1e-3)


def test_the_number_of_rows_is_part_of_a_tokens_bits(chunk: Rows, state: FloatArray) -> None:
    """The same 32 tokens from the same state, in chunks of 32 and of 62 rows: near, not equal."""
    short, _ = attend(chunk.part(0, 32), state)
    long, _ = attend(chunk.part(0, 62), state)

    np.testing.assert_allclose(long[:32], short, rtol=1e-3, atol=1e-3)
    assert not np.array_equal(long[:32], short)


def test_equal_chunks_have_equal_bits(chunk: Rows, state: FloatArray) -> None:
    """The arithmetic is deterministic: nothing but the shape tells two chunks apart."""
    one, one_state = attend(chunk, state)
    other, other_state = attend(chunk.part(0, ROWS), state.copy())

    assert np.array_equal(one, other)
    assert np.array_equal(one_state, other_state)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 127, 128, 1600])
def test_pieces_are_few_and_nearly_equal(rows: int) -> None:
    """No piece is above the limit, none is more than a row longer than another."""
    sizes = piece_sizes(rows)

    assert sum(sizes) == rows
    assert len(sizes) == -(-rows // PIECE_ROWS)
    assert max(sizes) - min(sizes) <= 1
