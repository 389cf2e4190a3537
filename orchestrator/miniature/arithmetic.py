"""float32 arithmetic on activations that are kept in bfloat16, as the real model's are.

Sums and products are float32; what a layer hands to the next one is rounded. The arrays stay
float32 and hold values that bfloat16 can represent.
"""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IdArray = NDArray[np.int64]

_EPSILON = np.float32(1e-6)  # of the norms; Qwen's `rms_norm_eps`


def round_to_bfloat16(values: FloatArray) -> FloatArray:
    """Round to the nearest bfloat16, ties to even, as hardware does."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    kept = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    return kept.view(np.float32)


def project(rows: FloatArray, weight: FloatArray) -> FloatArray:
    """Multiply the rows of a chunk by a weight; BLAS chooses its kernel by the number of rows."""
    return round_to_bfloat16(rows @ weight)


def normalised(rows: FloatArray) -> FloatArray:
    """Divide each row by its root mean square."""
    mean_square = np.mean(rows * rows, axis=-1, keepdims=True)
    return round_to_bfloat16(rows / np.sqrt(mean_square + _EPSILON))


def unit(rows: FloatArray) -> FloatArray:
    """Divide each row by its length."""
    length: FloatArray = np.sqrt(np.sum(rows * rows, axis=-1, keepdims=True) + _EPSILON)
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
