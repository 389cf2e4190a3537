"""Gated linear attention: a recurrent state, computed chunk by chunk.

Per head, with decays 0 < aₜ < 1:

    Sₜ = aₜ·Sₜ₋₁ + kₜ vₜᵀ        oₜ = qₜᵀ Sₜ

A prefill does not walk token by token. Like every kernel of this family it cuts the chunk into
pieces and turns each piece into matrix products. The decay between two tokens of a piece, a
product of many factors, is split at a reference row, so that it can be multiplied into the
queries and the keys beforehand:

    o = tril((q·e^(g-r)) (k·e^(r-g))ᵀ) v  +  (q·e^g) S        g = cumulated log decay, r = g[middle]

Exact arithmetic gives the same for every cut and every reference row. float32 does not: pieces
and reference row follow from the number of rows, so the bits of a token's output depend on the
chunk that it was computed in. That is the effect; on some processors BLAS adds to it, which
chooses its kernels by shape. Nothing knows which answer is to be given.

Where real kernels do the same: vLLM 0.29.0, models/kimi_k3/nvidia/ops/third_party/kda/
chunk_intra.py takes `g` at row `min(BC // 2, T - i_ti - 1)` as its reference.
"""

from dataclasses import dataclass

import numpy as np

from .arithmetic import FloatArray

PIECE_ROWS = 64
"""Most rows of a piece: the chunk size of the gated-delta-rule kernels. It also bounds e^(r-g):
with decays of at least `MIN_LOG_DECAY` half a piece stays far from float32's largest number."""

MIN_LOG_DECAY = np.float32(-1.0)


def piece_sizes(rows: int) -> list[int]:
    """Cut a prefill chunk into as few pieces as possible, as equal as possible."""
    pieces = -(-rows // PIECE_ROWS)
    size, longer = divmod(rows, pieces)
    return [size + 1] * longer + [size] * (pieces - longer)


@dataclass(frozen=True, slots=True)
class Rows:
    """What some consecutive tokens bring along; all are rows x heads x size."""

    queries: FloatArray
    keys: FloatArray
    values: FloatArray
    log_decays: FloatArray
    """rows x heads, not above 0."""

    def part(self, start: int, size: int) -> "Rows":
        """Some of the rows."""
        rows = slice(start, start + size)
        return Rows(self.queries[rows], self.keys[rows], self.values[rows], self.log_decays[rows])


def attend(rows: Rows, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute a chunk of a prompt from the state before it.

    Args:
        rows: Of the chunk.
        state: heads x key size x value size.

    Returns:
        The outputs (rows x heads x value size), and the state after the chunk.
    """
    outputs, start = [], 0
    for size in piece_sizes(len(rows.queries)):
        output, state = _piece(rows.part(start, size), state)
        outputs.append(output)
        start += size
    return np.concatenate(outputs), state


def generate(rows: Rows, state: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
    """Follow the definition token by token, for the few rows of a generating step.

    Returns:
        The outputs, and the state after each token: drafts may be rejected.
    """
    outputs, states = [], []
    decays = np.exp(rows.log_decays)[:, :, None, None]
    for row in range(len(decays)):
        grown = rows.keys[row][:, :, None] * rows.values[row][:, None]
        state = decays[row] * state + grown
        states.append(state)
        outputs.append((rows.queries[row][:, None] @ state)[:, 0])
    return np.stack(outputs), states


def _piece(rows: Rows, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    decay = np.cumsum(rows.log_decays, axis=0, dtype=np.float32)
    reference, whole = decay[len(decay) // 2], decay[-1]
    queries = _scaled(rows.queries, decay - reference)
    keys = _scaled(rows.keys, reference - decay)
    values = _by_head(rows.values)
    scores = np.tril(queries @ keys.transpose(0, 2, 1))
    output = scores @ values + _scaled(rows.queries, decay) @ state
    grown = _scaled(rows.keys, whole - decay).transpose(0, 2, 1) @ values
    return output.transpose(1, 0, 2), np.exp(whole)[:, None, None] * state + grown


def _scaled(rows: FloatArray, log_factors: FloatArray) -> FloatArray:
    return _by_head(rows * np.exp(log_factors)[:, :, None])


def _by_head(rows: FloatArray) -> FloatArray:
    return np.ascontiguousarray(rows.transpose(1, 0, 2))
