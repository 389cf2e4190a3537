"""The forward pass: chunks of several requests in, hidden rows and new states out.

Projections multiply the rows of all chunks at once, as a server's batch does; only the mixing
along a sequence is done per chunk. So what runs beside a request is part of its shapes, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import full_attention, linear_attention
from .arithmetic import FloatArray, IdArray, normalised, project, round_to_bfloat16, silu, unit
from .weights import (
    DRAFT_LAYER,
    HEAD_SIZE,
    KEYS_WIDTH,
    LINEAR_HEADS,
    LINEAR_KEY_SIZE,
    LINEAR_VALUE_SIZE,
    MLP_SIZE,
    QUERY_HEADS,
    TARGET_LAYER,
    VALUES_WIDTH,
    FullLayer,
    LinearLayer,
    Mlp,
    Weights,
)

_DECAY_OFFSETS = np.linspace(0.5, 3, LINEAR_HEADS, dtype=np.float32)
"""Heads forget at different speeds: the usual decay of a token is e^-0.47 for the first head (a
memory of two tokens) and e^-0.05 for the last (of twenty)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of one sequence that one step computes."""

    tokens: IdArray
    start: int
    """Position of the first token."""

    state: FloatArray
    """The recurrent state before the first token."""

    blocks: Sequence[FloatArray]
    """The sequence's blocks of keys and values; the chunk's own rows are written into them."""

    token_by_token: bool
    """While generating; see `linear_attention.generate`."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What a step made of a chunk."""

    hidden: FloatArray
    """One row a token, ready for `logits` and `draft`."""

    states: list[FloatArray]
    """The state after the chunk; after each of its tokens where it was generated."""


class Model:
    """The network. Holds weights only; everything about a sequence is in its chunk."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def compute(self, chunks: Sequence[Chunk]) -> list[Computed]:
        """Run the chunks of one step."""
        stream = self._weights.embedding[np.concatenate([chunk.tokens for chunk in chunks])]
        states: list[list[list[FloatArray]]] = [[] for _ in chunks]
        for index, layer in enumerate(self._weights.linear):
            rows = normalised(stream)
            mixed, layer_states = _linear(layer, index, rows, chunks)
            for collected, new in zip(states, layer_states, strict=True):
                collected.append(new)
            stream = _feed_forward(layer.mlp, round_to_bfloat16(stream + mixed))
        mixed = _full(self._weights.full, TARGET_LAYER, normalised(stream), chunks)
        stream = _feed_forward(self._weights.full.mlp, round_to_bfloat16(stream + mixed))
        hidden = np.split(normalised(stream), _boundaries(chunks))
        return [
            Computed(hidden=rows, states=[np.stack(layers) for layers in zip(*of, strict=True)])
            for rows, of in zip(hidden, states, strict=True)
        ]

    def draft(self, hidden: FloatArray, chunk: Chunk) -> FloatArray:
        """Look one token further than the model: hidden rows for the tokens after `chunk.tokens`.

        Args:
            hidden: The model's rows at the positions of `chunk`, or those of an earlier draft.
            chunk: Its tokens are those that *follow* each row, so the last row of a block needs
                the first token of the next. For that reason a hit gives up its last block.
        """
        weights = self._weights
        embedded = weights.embedding[chunk.tokens]
        stream = round_to_bfloat16(embedded + project(hidden, weights.draft_mix))
        mixed = _full(weights.draft, DRAFT_LAYER, normalised(stream), [chunk])
        return normalised(_feed_forward(weights.draft.mlp, round_to_bfloat16(stream + mixed)))

    def logits(self, hidden: FloatArray) -> FloatArray:
        """One row of logits a hidden row."""
        return project(hidden, self._weights.head)


def _boundaries(chunks: Sequence[Chunk]) -> list[int]:
    ends = np.cumsum([len(chunk.tokens) for chunk in chunks])
    return [int(end) for end in ends[:-1]]


def _linear(
    layer: LinearLayer, index: int, rows: FloatArray, chunks: Sequence[Chunk]
) -> tuple[FloatArray, list[list[FloatArray]]]:
    brought, gate = _brought(layer, rows)
    outputs, states, start = [], [], 0
    for chunk in chunks:
        part, before = brought.part(start, len(chunk.tokens)), chunk.state[index]
        if chunk.token_by_token:
            output, after = linear_attention.generate(part, before)
        else:
            output, last = linear_attention.attend(part, before)
            after = [last]
        outputs.append(output)
        states.append(after)
        start += len(chunk.tokens)
    mixed = normalised(round_to_bfloat16(np.concatenate(outputs))).reshape(len(rows), -1)
    return project(round_to_bfloat16(mixed * silu(gate)), layer.leave), states


def _brought(layer: LinearLayer, rows: FloatArray) -> tuple[linear_attention.Rows, FloatArray]:
    """What the tokens bring to the mixing, and the gate of what comes out of it."""
    entered = project(rows, layer.enter)
    gate = entered[:, -VALUES_WIDTH:]
    queries, keys = entered[:, :KEYS_WIDTH], entered[:, KEYS_WIDTH : 2 * KEYS_WIDTH]
    values = entered[:, 2 * KEYS_WIDTH : 2 * KEYS_WIDTH + VALUES_WIDTH]
    decays = entered[:, 2 * KEYS_WIDTH + VALUES_WIDTH : -VALUES_WIDTH]
    log_decays = -np.log1p(np.exp(decays - _DECAY_OFFSETS))
    brought = linear_attention.Rows(
        queries=unit(queries.reshape(-1, LINEAR_HEADS, LINEAR_KEY_SIZE)),
        keys=unit(keys.reshape(-1, LINEAR_HEADS, LINEAR_KEY_SIZE)),
        values=values.reshape(-1, LINEAR_HEADS, LINEAR_VALUE_SIZE),
        log_decays=np.maximum(log_decays, linear_attention.MIN_LOG_DECAY),
    )
    return brought, gate


def _full(layer: FullLayer, place: int, rows: FloatArray, chunks: Sequence[Chunk]) -> FloatArray:
    positions = np.concatenate(
        [np.arange(chunk.start, chunk.start + len(chunk.tokens)) for chunk in chunks]
    ).astype(np.float32)
    entered = project(rows, layer.enter)
    heads = normalised(entered[:, :-HEAD_SIZE].reshape(len(rows), -1, HEAD_SIZE))
    turned = full_attention.rotate(heads, positions)
    queries, keys = turned[:, :QUERY_HEADS], turned[:, QUERY_HEADS]
    values = entered[:, -HEAD_SIZE:]
    outputs, start = [], 0
    for chunk in chunks:
        part = slice(start, start + len(chunk.tokens))
        full_attention.store(chunk.blocks, place, chunk.start, keys[part], values[part])
        outputs.append(full_attention.attend(queries[part], chunk.blocks, place, chunk.start))
        start += len(chunk.tokens)
    return project(np.concatenate(outputs).reshape(len(rows), -1), layer.leave)


def _feed_forward(mlp: Mlp, stream: FloatArray) -> FloatArray:
    entered = project(normalised(stream), mlp.enter)
    gated = silu(entered[:, :MLP_SIZE]) * entered[:, MLP_SIZE:]
    return round_to_bfloat16(stream + project(round_to_bfloat16(gated), mlp.leave))
