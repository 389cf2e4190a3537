"""The faults of `faults.IN_ANSWER`: changes an answer after it was made.

Nothing here is reached unless such a fault is on.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .requests import Candidate, Generated, Wish

Wanted = Mapping[str, float | None]
"""Faults that are on for this answer, with their values."""

_FLOOR = -9999.0
"""vLLM's stand-in for minus infinity, which JSON cannot hold."""


def change_wish(wish: Wish, wanted: Wanted) -> Wish:
    """Ask the engine for one candidate more than the client did."""
    if "one-more-candidate" in wanted and wish.top_logprobs is not None:
        return replace(wish, top_logprobs=wish.top_logprobs + 1)
    return wish


def change_tokens(tokens: Sequence[Generated], wanted: Wanted) -> list[Generated]:
    """Change the candidates of each token."""
    return [
        replace(token, candidates=tuple(_candidates(list(token.candidates), wanted)))
        for token in tokens
    ]


def _candidates(candidates: list[Candidate], wanted: Wanted) -> list[Candidate]:
    if not candidates:
        return candidates
    if "short-list" in wanted:
        candidates.pop()
    if "tie-at-the-cut" in wanted:
        listed = {candidate.token for candidate in candidates}
        other = next(token for token in range(len(listed) + 1) if token not in listed)
        candidates[-1] = Candidate(other, candidates[-1].logprob)
    if "floor" in wanted:
        candidates[-1] = Candidate(candidates[-1].token, _FLOOR)
    if "nan" in wanted:
        candidates[0] = Candidate(candidates[0].token, math.nan)
    return candidates


def change_answer(answer: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
    """Change what stands around the tokens."""
    if "wrong-json" in wanted:
        return {"object": answer["object"], "choices": "none today"}
    if "wrong-model" in wanted:
        answer["model"] = "another-model"
    usage = answer.get("usage")
    if usage is not None:
        _change_usage(usage, wanted)
    if "stop-entry" in wanted:
        for choice in answer["choices"]:
            if choice["logprobs"] is not None and "content" in choice["logprobs"]:
                empty = {"token": "", "logprob": _FLOOR, "bytes": [], "top_logprobs": []}
                choice["logprobs"]["content"].append(empty)
    return answer


def _change_usage(usage: dict[str, Any], wanted: Wanted) -> None:
    details = usage.get("prompt_tokens_details")
    if details is None:
        return
    if "cached-null" in wanted:
        details["cached_tokens"] = None
    if "cached-too-large" in wanted:
        details["cached_tokens"] = usage["prompt_tokens"]
    if "cached-negative" in wanted:
        details["cached_tokens"] = -32
    if "cached-absent" in wanted:
        usage["prompt_tokens_details"] = None


def change_bytes(body: bytes, wanted: Wanted) -> bytes:
    """Cut the body off."""
    return body[: len(body) // 2] if "truncated-json" in wanted else body
