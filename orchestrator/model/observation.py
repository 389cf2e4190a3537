"""An answer, decoded: what the digests and comparisons are made of."""

from dataclasses import dataclass

FLOOR = -9999.0
"""What vLLM writes for minus infinity (0.29.0, `openai/chat_completion/serving.py`): a token that
the schema of a structured answer forbids."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token and its log probability (natural logarithm, exactly a float32)."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class Position:
    """One generated token."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    """The k most probable tokens in the server's order. The chosen token is among them unless
    `chosen_outside`."""

    chosen_outside: bool
    """The server listed k + 1 tokens because the chosen one is not among the k best."""

    @property
    def cut(self) -> float:
        """The lowest log probability among the candidates."""
        return min(candidate.logprob for candidate in self.candidates)

    @property
    def argmax(self) -> Candidate:
        """The most probable candidate; the first in the server's order where several tie."""
        return max(self.candidates, key=lambda candidate: candidate.logprob)


@dataclass(frozen=True, slots=True)
class Observation:
    """The answer to one probe."""

    positions: tuple[Position, ...]
    text: str
    prompt_tokens: int
    cached_tokens: int | None
    """Prompt tokens served from the prefix cache; `None` when the answer does not say."""

    finish_reason: str | None
    system_fingerprint: str | None
    model: str | None = None
    """As the answer names it."""

    prompt_token_ids: tuple[int, ...] | None = None
    """As the server rendered a conversation; `None` when the answer does not repeat them."""

    @property
    def not_argmax(self) -> tuple[int, ...]:
        """Positions, from 0, whose chosen token is less probable than the best candidate."""
        return tuple(
            index
            for index, position in enumerate(self.positions)
            if position.chosen.logprob < position.argmax.logprob
        )
