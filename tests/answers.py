"""Answers made by construction: their truth is known because it was put in.

The shape is the completions endpoint's, as recorded in `fixtures/responses/`.
"""

import json
import struct
from collections.abc import Sequence

from orchestrator.decoding import decode
from orchestrator.model.observation import Observation

TOP = 4
Pair = tuple[int, float]

PLAIN: tuple[tuple[Pair, ...], ...] = (
    ((7, -0.5), (3, -1.25), (9, -2.0), (4, -3.5)),
    ((2, -0.25), (8, -1.5), (5, -2.5), (6, -2.75)),
    ((1, -0.75), (0, -1.0), (3, -4.0), (9, -4.5)),
)
"""Three generated tokens with four candidates each, all distinct."""


def f32(value: float) -> float:
    """The nearest float32, as a server would widen it."""
    (narrowed,) = struct.unpack("<f", struct.pack("<f", value))
    return float(narrowed)


def body(
    lists: Sequence[Sequence[Pair]] = PLAIN,
    *,
    chosen: Sequence[int] | None = None,
    prompt_tokens: int = 80,
    cached: int | None = 0,
    text: str = "text",
) -> bytes:
    """An answer whose top lists are `lists`; the first candidate is chosen unless said."""
    picked = chosen or [entries[0][0] for entries in lists]
    values = [dict(entries)[token] for token, entries in zip(picked, lists, strict=True)]
    answer = {
        "choices": [
            {
                "text": text,
                "finish_reason": "length",
                "logprobs": {
                    "tokens": [f"token_id:{token}" for token in picked],
                    "token_logprobs": values,
                    "top_logprobs": [
                        {f"token_id:{token}": value for token, value in entries}
                        for entries in lists
                    ],
                },
            }
        ],
        "system_fingerprint": "vllm-0.29.0-4ccce266",
        "usage": {
            "prompt_tokens": prompt_tokens,
            "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        },
    }
    return json.dumps(answer).encode()


def observation(lists: Sequence[Sequence[Pair]] = PLAIN, **values: object) -> Observation:
    """The same, decoded."""
    top = min(len(entries) for entries in lists)
    return decode(body(lists, **values), top_logprobs=top)  # type: ignore[arg-type]


def moved(token: int, amount: float = 0.125) -> tuple[tuple[Pair, ...], ...]:
    """`PLAIN` with the second candidate of one generated token moved."""
    entries = list(PLAIN[token])
    entries[1] = (entries[1][0], entries[1][1] - amount)
    return (*PLAIN[:token], tuple(entries), *PLAIN[token + 1 :])
