"""One request, from its arrival to its last token."""

from dataclasses import dataclass, field
from typing import Literal

from .arithmetic import FloatArray
from .cache import Block, Hit, extend_hashes

FinishReason = Literal["stop", "length", "abort"]


NO_HIT = Hit(tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a client asked for. All tokens are ids."""

    prompt: tuple[int, ...]
    max_tokens: int
    salt: str | None = None
    top_logprobs: int | None = None
    """Candidates to list per token; None: no log probabilities at all."""

    temperature: float = 0.0
    seed: int | None = None
    """For a temperature above 0; None draws from the engine's own generator."""

    stop_tokens: frozenset[int] = frozenset()
    min_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token with its log probability."""

    token: int
    logprob: float
    """A float32, widened."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A token that was generated."""

    token: int
    candidates: tuple[Candidate, ...]
    """The chosen token first, then the k best, without naming one twice. Empty if not asked for."""


@dataclass(eq=False, slots=True)
class Request:
    """A wish and how far it has come. Changed by the scheduler and the engine only."""

    id: str
    wish: Wish
    block_size: int
    arrived_s: float
    """On the monotonic clock, like every other time here."""

    generated: list[Generated] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    computed: int = 0
    """Tokens whose keys, values and state are there, restored ones included."""

    drafts: list[int] = field(default_factory=list)
    """Guesses for the tokens after the last one, to be verified by the next step."""

    cached_tokens: int | None = None
    """Restored when it was first scheduled; None before. A resumption does not count."""

    restored: Hit = NO_HIT
    """Of the last admission."""

    chunks: list[tuple[int, int]] = field(default_factory=list)
    """Bounds of what was computed since the last admission."""

    preemptions: int = 0
    blocks: list[Block] = field(default_factory=list)
    places: list[Block] = field(default_factory=list)
    """Blocks that stand for the running state's memory; their content is in `state`."""

    checkpoint: Block | None = None
    """Taken for the state that the step under way will save."""

    state: FloatArray | None = None
    hashes: list[bytes] = field(default_factory=list)
    tokens: list[int] = field(init=False)
    """Prompt and what was generated."""

    scheduled_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None

    def __post_init__(self) -> None:
        self.tokens = list(self.wish.prompt)
        self._hash()

    @property
    def prefill_end(self) -> int:
        """Where computing the known ends: a resumed request replays what it had generated."""
        return max(len(self.wish.prompt), len(self.tokens) - 1)

    def append(self, generated: Generated) -> None:
        """Add a generated token."""
        self.generated.append(generated)
        self.tokens.append(generated.token)
        self._hash()

    def _hash(self) -> None:
        extend_hashes(self.hashes, self.tokens, self.block_size, self.wish.salt)
