"""The truth about a request: which bits it was given, and who had computed them.

A test that asks a judge whether two requests were served the same state cannot test the judge.
The engine knows.
"""

import hashlib
from dataclasses import dataclass

from .arithmetic import FloatArray
from .cache import Writing
from .requests import Request
from .weights import TARGET_LAYER


@dataclass(frozen=True, slots=True)
class BlockTruth:
    """One full block of the prompt, as the request used it."""

    keys_values_sha256: str
    """Of the model's full-attention layer; the draft head's are left out."""

    writings: tuple[Writing, ...]
    """Every chunk that wrote into the block, in order."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a finished request was computed from."""

    request: str
    restored_tokens: int
    """At its last admission; a preempted request is admitted again."""

    restored_state_sha256: str | None
    """None: it started from nothing."""

    restored_state_writings: tuple[Writing, ...]
    blocks: tuple[BlockTruth, ...]
    chunks: tuple[tuple[int, int], ...]
    """Bounds of what it computed itself since that admission."""

    preemptions: int


def describe(request: Request, block_size: int) -> Truth:
    """Hash what a request holds; to be called before its blocks are given back."""
    state = request.restored.state
    full = len(request.wish.prompt) // block_size
    return Truth(
        request=request.id,
        restored_tokens=request.restored.tokens,
        restored_state_sha256=None
        if state is None or state.content is None
        else _sha256(state.content),
        restored_state_writings=() if state is None else tuple(state.writings),
        blocks=tuple(
            BlockTruth(_sha256(block.content[TARGET_LAYER]), tuple(block.writings))
            for block in request.blocks[:full]
            if block.content is not None
        ),
        chunks=tuple(request.chunks),
        preemptions=request.preemptions,
    )


def _sha256(array: FloatArray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()
