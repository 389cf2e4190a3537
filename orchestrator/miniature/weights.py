"""The model's size and its random weights: no file, no download, made anew at every start.

The layout is that of the hybrids it stands for: three linear-attention layers, then a full one,
and a prediction head for drafts (MTP) with a full-attention layer of its own. Everything is as
small as the effect allows: ten milliseconds for a hundred tokens on one core.
"""

from dataclasses import dataclass

import numpy as np

from .arithmetic import FloatArray, round_to_bfloat16

VOCABULARY_SIZE = 1024
"""That of the tokenizer which the project trains on its documents."""

HIDDEN_SIZE = 192
MLP_SIZE = 192
LINEAR_LAYERS = 3

LINEAR_HEADS = 4
LINEAR_KEY_SIZE = 32
LINEAR_VALUE_SIZE = 128

QUERY_HEADS = 4
HEAD_SIZE = 64
"""One head of keys and values serves all queries."""

_BRANCH_GAIN = 0.5
"""Of what a layer adds to the stream. Below 1 a token's own embedding keeps a say in what follows
it, so that a draft made from it is accepted now and then (about one in ten)."""

_HEAD_GAIN = 1.5
"""Logits with a standard deviation of 1.5: the best twenty of 1,024 then span about 1.8, and the
twentieth ties with the next one in one list of six, as on a real server (9 of 48)."""

STATE_SHAPE = (LINEAR_LAYERS, LINEAR_HEADS, LINEAR_KEY_SIZE, LINEAR_VALUE_SIZE)
"""Of one sequence's recurrent state, float32."""

ATTENTION_LAYERS = 2
TARGET_LAYER, DRAFT_LAYER = 0, 1
"""Whose keys and values a block holds: the model's full-attention layer and the draft head's."""


def block_shape(block_size: int) -> tuple[int, int, int, int]:
    """Of a block of keys and values."""
    return ATTENTION_LAYERS, 2, block_size, HEAD_SIZE


KEYS_WIDTH, VALUES_WIDTH = LINEAR_HEADS * LINEAR_KEY_SIZE, LINEAR_HEADS * LINEAR_VALUE_SIZE
QUERIES_WIDTH = QUERY_HEADS * HEAD_SIZE


@dataclass(frozen=True, slots=True)
class Mlp:
    """Gated feed-forward part of a layer."""

    enter: FloatArray
    """To gate and content, side by side: one product is cheaper than two."""

    leave: FloatArray


@dataclass(frozen=True, slots=True)
class LinearLayer:
    """Linear attention with an output gate and one decay per head."""

    enter: FloatArray
    """To queries, keys, values, decays and the gate, side by side."""

    leave: FloatArray
    mlp: Mlp


@dataclass(frozen=True, slots=True)
class FullLayer:
    """Softmax attention."""

    enter: FloatArray
    """To queries, keys and values, side by side."""

    leave: FloatArray
    mlp: Mlp


@dataclass(frozen=True, slots=True)
class Weights:
    """All of the model."""

    embedding: FloatArray
    linear: tuple[LinearLayer, ...]
    full: FullLayer
    draft_mix: FloatArray
    draft: FullLayer
    head: FloatArray


class _Source:
    """Draws matrices one after the other; the order of the draws is part of the model."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def matrix(self, inputs: int, outputs: int, gain: float = 1.0) -> FloatArray:
        drawn = self._generator.standard_normal((inputs, outputs), dtype=np.float32)
        return round_to_bfloat16(drawn * np.float32(gain / np.sqrt(inputs)))

    def mlp(self) -> Mlp:
        return Mlp(
            enter=self.matrix(HIDDEN_SIZE, 2 * MLP_SIZE),
            leave=self.matrix(MLP_SIZE, HIDDEN_SIZE, _BRANCH_GAIN),
        )

    def linear_layer(self) -> LinearLayer:
        return LinearLayer(
            enter=self.matrix(HIDDEN_SIZE, 2 * KEYS_WIDTH + 2 * VALUES_WIDTH + LINEAR_HEADS),
            leave=self.matrix(VALUES_WIDTH, HIDDEN_SIZE, _BRANCH_GAIN),
            mlp=self.mlp(),
        )

    def full_layer(self) -> FullLayer:
        return FullLayer(
            enter=self.matrix(HIDDEN_SIZE, QUERIES_WIDTH + 2 * HEAD_SIZE),
            leave=self.matrix(QUERIES_WIDTH, HIDDEN_SIZE, _BRANCH_GAIN),
            mlp=self.mlp(),
        )


def random_weights(seed: int) -> Weights:
    """Draw a model; the same seed gives the same one."""
    source = _Source(seed)
    return Weights(
        embedding=source.matrix(VOCABULARY_SIZE, HIDDEN_SIZE, float(np.sqrt(VOCABULARY_SIZE))),
        linear=tuple(source.linear_layer() for _ in range(LINEAR_LAYERS)),
        full=source.full_layer(),
        draft_mix=source.matrix(HIDDEN_SIZE, HIDDEN_SIZE, _BRANCH_GAIN),
        draft=source.full_layer(),
        head=source.matrix(HIDDEN_SIZE, VOCABULARY_SIZE, _HEAD_GAIN),
    )
