"""What the scheduler of a hybrid model will do with a cell: predicted before it is measured."""

from typing import Literal

from pydantic import Field

from orchestrator.model.record import Record

Rule = Literal["v0.15", "v0.24", "v0.26", "v0.27", "v0.30", "v0.32", "v0.33"]
"""A rule of vLLM's scheduler, named after the first minor release that follows it."""

Eligibility = Literal["eligible", "not eligible", "undetermined"]
"""Never "diverges": a mixed origin is necessary for the effect, not sufficient."""


class SchedulerSettings(Record):
    """Everything about a server that decides how it splits and caches one request at a time."""

    rule: Rule

    every_boundary: bool = False
    """The article's one-line patch: each crossed block boundary ends a chunk."""

    block_tokens: int = Field(gt=0)
    """The grid: block size of the attention and of the recurrent cache group alike."""

    token_budget: int = Field(gt=0)
    """Tokens that one step may schedule (`--max-num-batched-tokens`)."""

    prefix_caching: bool

    speculative: bool
    """EAGLE or MTP drafts with a cache of their own: the last matching block is dropped."""

    retention_tokens: int | None = Field(ge=0)
    """`--prefix-cache-retention-interval`: `None` keeps every saved state; 0 only those that a
    resent prompt or a shared prefix resumes at; n also one state every n tokens."""


class ChunkPrediction(Record):
    """One step of a prefill: the prompt's tokens from `start` up to `end`, `end` not included."""

    start: int
    end: int

    saves_state: bool
    """The recurrent state after `end` tokens stays in the cache: a checkpoint."""


class Writer(Record):
    """The chunk that computed something, and whose it was."""

    request: int
    """Index in the cell, from 0."""

    start: int
    end: int


class RequestPrediction(Record):
    """One request of a cell, sent when nothing else runs."""

    cached_tokens: int | None
    """`None` where it depends on tokens that an earlier request generates. The other fields then
    say what happens if those tokens do not recur in this prompt."""

    junction: int | None
    """Length in tokens of a prefix whose keys and values are cached but whose state is not."""

    chunks: tuple[ChunkPrediction, ...]

    restored_blocks: tuple[tuple[Writer, ...], ...]
    """For each restored block in order, who computed its keys and values. Several chunks where
    the budget cut the block."""

    restored_state: Writer | None
    """The chunk at whose end the restored state was saved; `None` when nothing is restored."""

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Positions in tokens at which this request leaves a state in the cache."""
        return tuple(chunk.end for chunk in self.chunks if chunk.saves_state)


class MixedOrigin(Record):
    """A restored part of a prefix that B's reference cell computed otherwise."""

    request: int
    """The repeat of B that restores it; index in the cell, from 0."""

    part: Literal["keys and values", "state"]

    position: int
    """Tokens up to the end of the block, or up to where the state stands."""

    here: tuple[Writer, ...]

    reference: tuple[Writer, ...]
    """Empty: the reference cell never has a state at this position."""


class CellPrediction(Record):
    """A cell set against B's own reference cell."""

    requests: tuple[RequestPrediction, ...]
    eligible: Eligibility

    mixed: tuple[MixedOrigin, ...]
    """Why it is eligible; empty otherwise."""


class SplitCase(Record):
    """One question to the scheduler's align-split function."""

    block_tokens: int
    token_budget: int
    speculative: bool
    prompt_tokens: int

    start: int
    """Tokens that are computed or restored."""

    new_tokens: int
    """Tokens that budget and prompt allow."""

    junction: int | None

    first: bool
    """The request's first chunk, whose `start` tokens were restored."""


class SplitSource(Record):
    """Where an engine's align-split function was found, and which text it is."""

    path: str

    version: str | None
    """As the package's own files say; `None` when they do not."""

    file_sha256: str

    function_sha256: str
    """Over the text of the function and of the helpers it calls."""

    helpers: tuple[str, ...]
