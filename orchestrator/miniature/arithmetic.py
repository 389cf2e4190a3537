"""float32 arithmetic on activations that are kept in bfloat16, as the real model's are.

Sums and products are float32; what a layer hands to the next one is rounded. The arrays stay
float32 and hold values that bfloat16 can represent.
"""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IdArray = NDArray[np.int64]

_DROPPED_BITS, _ALMOST_HALF, _KEPT = np.uint32(16), np.uint32(0x7FFF), np.uint32(0xFFFF0000)
_FEW_ROWS = 3
"""Up to here, one product of a vector and the weight for each row: BLAS' matrix product first
copies the whole weight, which takes up to five times as long (OpenBLAS' Haswell kernel). While
generating with two drafts, a step has three rows."""

_EPSILON = np.float32(1e-6)  # of the norms; Qwen's `rms_norm_eps`


def round_to_bfloat16(values: FloatArray) -> FloatArray:
    """Round to the nearest bfloat16, ties to even, as hardware does."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits >> _DROPPED_BITS
    rounded &= np.uint32(1)  # a tie goes up where the last kept bit is odd
    rounded += _ALMOST_HALF
    rounded += bits
    rounded &= _KEPT
    return rounded.view(np.float32)


def project(rows: FloatArray, weight: FloatArray) -> FloatArray:
    """Multiply the rows of a chunk by a weight; BLAS chooses its kernel by the number of rows."""
    if len(rows) <= _FEW_ROWS:
        return round_to_bfloat16((rows[:, None] @ weight)[:, 0])
    return round_to_bfloat16(rows @ weight)


def normalised(rows: FloatArray) -> FloatArray:
    """Divide each row by its root mean square."""
    mean_square = (rows * rows).sum(axis=-1, keepdims=True) / np.float32(rows.shape[-1])
    return round_to_bfloat16(rows / np.sqrt(mean_square + _EPSILON))


def unit(rows: FloatArray) -> FloatArray:
    """Divide each row by its length."""
    length: FloatArray = np.sqrt((rows * rows).sum(axis=-1, keepdims=True) + _EPSILON)
    return rows / length


def silu(values: FloatArray) -> FloatArray:
    """Multiply each value by its sigmoid."""
    denominator: FloatArray = np.exp(-values) + np.float32(1)
    return values / denominator


def log_softmax(logits: FloatArray) -> FloatArray:
    """Log probabilities of one row of logits."""
    shifted: FloatArray = logits - np.max(logits)
    total: np.float32 = np.log(np.sum(np.exp(shifted)))
    return shifted - total
