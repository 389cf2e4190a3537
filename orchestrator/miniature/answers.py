"""What was generated → JSON in vLLM's shapes, field for field.

Shapes: vLLM 0.29.0, as recorded. A key that this engine has nothing for is null, as it is there.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import FINGERPRINT
from .requests import FinishReason, Generated
from .tokenizer import Tokenizer

Json = dict[str, Any]
"""What `json.dumps` takes; no type of ours has these shapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How an answer names tokens."""

    tokenizer: Tokenizer
    as_ids: bool
    special_tokens: bool
    """Whether they are part of the text."""


@dataclass(slots=True, kw_only=True)
class Answer:
    """An answer as it grows."""

    id: str
    model: str
    prompt: tuple[int, ...]
    naming: Naming
    top_logprobs: int | None
    """As asked for; None: no log probabilities."""

    show_ids: bool
    """Whether the ids of prompt and answer are repeated (`return_token_ids`)."""

    details: bool
    """Whether usage tells how much was restored (`--enable-prompt-tokens-details`)."""

    created: int = field(default_factory=lambda: int(time.time()))
    tokens: list[Generated] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    cached_tokens: int = 0

    @property
    def text(self) -> str:
        """Everything so far."""
        ids = [token.token for token in self.tokens]
        return self.naming.tokenizer.decode(ids, special=self.naming.special_tokens)

    def usage(self, *, created_cache_tokens: int | None) -> Json:
        """The usage block; only the chat endpoint counts what was written to the cache."""
        details = {
            "cached_tokens": self.cached_tokens,
            "created_cache_tokens": created_cache_tokens,
            "multimodal_tokens": None,
        }
        return {
            "prompt_tokens": len(self.prompt),
            "total_tokens": len(self.prompt) + len(self.tokens),
            "completion_tokens": len(self.tokens),
            "prompt_tokens_details": details if self.details else None,
            "completion_tokens_details": None,
        }

    def envelope(self, kind: str, choices: list[Json]) -> Json:
        """What every answer and every piece of a stream begins with."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }

    def shown_ids(self, tokens: Sequence[Generated]) -> list[int] | None:
        """Ids of generated tokens, if they were asked for."""
        return [token.token for token in tokens] if self.show_ids else None

    @property
    def shown_prompt(self) -> list[int] | None:
        """Ids of the prompt, if they were asked for."""
        return list(self.prompt) if self.show_ids else None


def completion(answer: Answer) -> Json:
    """Answer of POST /v1/completions."""
    choice = {
        "index": 0,
        "text": answer.text,
        "logprobs": completion_logprobs(answer, answer.tokens, offset=0),
        "finish_reason": answer.finish_reason,
        "stop_reason": None,
        "token_ids": answer.shown_ids(answer.tokens),
        "prompt_logprobs": None,
        "prompt_token_ids": answer.shown_prompt,
        "routed_experts": None,
    }
    return {
        **answer.envelope("text_completion", [choice]),
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": answer.usage(created_cache_tokens=None),
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def chat(answer: Answer, *, created_cache_tokens: int) -> Json:
    """Answer of POST /v1/chat/completions."""
    message = {
        "role": "assistant",
        "content": answer.text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    choice = {
        "index": 0,
        "message": message,
        "logprobs": chat_logprobs(answer, answer.tokens),
        "finish_reason": answer.finish_reason,
        "stop_reason": None,
        "token_ids": answer.shown_ids(answer.tokens),
        "routed_experts": None,
    }
    return {
        **answer.envelope("chat.completion", [choice]),
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": answer.usage(created_cache_tokens=created_cache_tokens),
        "prompt_logprobs": None,
        "prompt_token_ids": answer.shown_prompt,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def completion_logprobs(answer: Answer, tokens: Sequence[Generated], *, offset: int) -> Json | None:
    """Lists of the completions endpoint: k candidates, and the chosen one if it is not in them."""
    if answer.top_logprobs is None:
        return None
    names = [_name(answer, token.token) for token in tokens]
    offsets = []
    for name in names:
        offsets.append(offset)
        offset += len(name)
    return {
        "text_offset": offsets,
        "token_logprobs": [token.candidates[0].logprob for token in tokens],
        "tokens": names,
        "top_logprobs": [
            {_name(answer, candidate.token): candidate.logprob for candidate in token.candidates}
            for token in tokens
        ],
    }


def chat_logprobs(answer: Answer, tokens: Sequence[Generated]) -> Json | None:
    """Lists of the chat endpoint: never more than k, the chosen one first if it is not among them.

    In vLLM the bytes of a chosen token are those of its text, even where ids were asked for.
    """
    if answer.top_logprobs is None:
        return None
    return {
        "content": [
            {
                **_entry(answer, token.token, token.candidates[0].logprob),
                "bytes": _bytes(answer.naming.tokenizer.name(token.token, as_id=False)),
                "top_logprobs": [
                    _entry(answer, candidate.token, candidate.logprob)
                    for candidate in token.candidates[: answer.top_logprobs]
                ],
            }
            for token in tokens
        ]
    }


def _entry(answer: Answer, token: int, logprob: float) -> Json:
    name = _name(answer, token)
    return {"token": name, "logprob": logprob, "bytes": _bytes(name)}


def _name(answer: Answer, token: int) -> str:
    return answer.naming.tokenizer.name(token, as_id=answer.naming.as_ids)


def _bytes(text: str) -> list[int]:
    return list(text.encode("utf-8", "replace"))
