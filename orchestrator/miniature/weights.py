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

HIDDEN_SIZE = 256
MLP_SIZE = 512
LINEAR_LAYERS = 3

LINEAR_HEADS = 4
LINEAR_KEY_SIZE = 32
LINEAR_VALUE_SIZE = 96

QUERY_HEADS = 4
HEAD_SIZE = 64
"""One head of keys and values serves all queries."""

_BRANCH_GAIN = 0.5
"""Of what a layer adds to the stream. Below 1 a token's own embedding keeps a say in what follows
it, so that a draft made from it is accepted now and then (about one in ten)."""

_HEAD_GAIN = 1.5
"""Logits with a standard deviation of 1.5: the best twenty of 1,024 then lie about three apart,
as in the recordings."""

STATE_SHAPE = (LINEAR_LAYERS, LINEAR_HEADS, LINEAR_KEY_SIZE, LINEAR_VALUE_SIZE)
"""Of one sequence's recurrent state, float32."""

ATTENTION_LAYERS = 2
TARGET_LAYER, DRAFT_LAYER = 0, 1
"""Whose keys and values a block holds: the model's full-attention layer and the draft head's."""


def block_shape(block_size: int) -> tuple[int, int, int, int]:
    """Of a block of keys and values."""
    return ATTENTION_LAYERS, 2, block_size, HEAD_SIZE


@dataclass(frozen=True, slots=True)
class Mlp:
    """Gated feed-forward part of a layer."""

    gate: FloatArray
    up: FloatArray
    down: FloatArray


@dataclass(frozen=True, slots=True)
class LinearLayer:
    """Linear attention: projections, an output gate and one decay per head."""

    query: FloatArray
    key: FloatArray
    value: FloatArray
    gate: FloatArray
    decay: FloatArray
    out: FloatArray
    mlp: Mlp


@dataclass(frozen=True, slots=True)
class FullLayer:
    """Softmax attention."""

    query: FloatArray
    key: FloatArray
    value: FloatArray
    out: FloatArray
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
            gate=self.matrix(HIDDEN_SIZE, MLP_SIZE),
            up=self.matrix(HIDDEN_SIZE, MLP_SIZE),
            down=self.matrix(MLP_SIZE, HIDDEN_SIZE, _BRANCH_GAIN),
        )

    def linear_layer(self) -> LinearLayer:
        keys, values = LINEAR_HEADS * LINEAR_KEY_SIZE, LINEAR_HEADS * LINEAR_VALUE_SIZE
        return LinearLayer(
            query=self.matrix(HIDDEN_SIZE, keys),
            key=self.matrix(HIDDEN_SIZE, keys),
            value=self.matrix(HIDDEN_SIZE, values),
            gate=self.matrix(HIDDEN_SIZE, values),
            decay=self.matrix(HIDDEN_SIZE, LINEAR_HEADS),
            out=self.matrix(values, HIDDEN_SIZE, _BRANCH_GAIN),
            mlp=self.mlp(),
        )

    def full_layer(self) -> FullLayer:
        return FullLayer(
            query=self.matrix(HIDDEN_SIZE, QUERY_HEADS * HEAD_SIZE),
            key=self.matrix(HIDDEN_SIZE, HEAD_SIZE),
            value=self.matrix(HIDDEN_SIZE, HEAD_SIZE),
            out=self.matrix(QUERY_HEADS * HEAD_SIZE, HIDDEN_SIZE, _BRANCH_GAIN),
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
