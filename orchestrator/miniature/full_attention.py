"""Softmax attention over keys and values that lie in blocks.

A sequence's blocks need not be its own: a restored one was written by whichever request came
first. What that request computed is what this one reads.
"""

from collections.abc import Sequence

import numpy as np

from .arithmetic import FloatArray, round_to_bfloat16

KEYS, VALUES = 0, 1
_WAVELENGTH = np.float32(10_000)  # of the slowest rotation, as in the original RoPE


def rotate(rows: FloatArray, positions: FloatArray) -> FloatArray:
    """Turn rows x heads x size by their positions (rotary embedding)."""
    half = rows.shape[-1] // 2
    frequencies = _WAVELENGTH ** (-np.arange(half, dtype=np.float32) / np.float32(half))
    angles = (positions[:, None] * frequencies)[:, None, :]
    cosine, sine = np.cos(angles), np.sin(angles)
    first, second = rows[..., :half], rows[..., half:]
    turned = (first * cosine - second * sine, second * cosine + first * sine)
    return round_to_bfloat16(np.concatenate(turned, axis=-1))


def store(
    blocks: Sequence[FloatArray], layer: int, start: int, keys: FloatArray, values: FloatArray
) -> None:
    """Write rows of keys and values from position `start` on.

    Args:
        blocks: In order; each is layers x (keys, values) x positions x size.
        layer: Which of a block's layers.
        start: Position of the first row in the sequence.
        keys: rows x size.
        values: rows x size.
    """
    size = blocks[0].shape[2]
    row = 0
    while row < len(keys):
        index, offset = divmod(start + row, size)
        count = min(size - offset, len(keys) - row)
        place = blocks[index][layer]
        place[KEYS, offset : offset + count] = keys[row : row + count]
        place[VALUES, offset : offset + count] = values[row : row + count]
        row += count


def attend(queries: FloatArray, blocks: Sequence[FloatArray], layer: int, start: int) -> FloatArray:
    """Let each query look at every position up to its own.

    Args:
        queries: rows x heads x size; the first one stands at position `start`.
        blocks: See `store`; they hold everything up to the last query.
        layer: Which of a block's layers.
        start: Position of the first query.

    Returns:
        rows x heads x size.
    """
    rows, _, size = queries.shape
    end = start + rows
    used = -(-end // blocks[0].shape[2])
    stored = np.concatenate([block[layer] for block in blocks[:used]], axis=1)[:, :end]
    scores = queries.transpose(1, 0, 2) @ stored[KEYS].T * np.float32(size**-0.5)
    visible = np.arange(end) <= np.arange(start, end)[:, None]
    scores = np.where(visible, scores, np.float32(-np.inf))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return round_to_bfloat16(weights @ stored[VALUES]).transpose(1, 0, 2)
