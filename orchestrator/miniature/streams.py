"""An answer in pieces, as server-sent events.

Shapes: vLLM 0.29.0, `completion_stream_generator` and `chat_completion_stream_generator`: keys
that were not set are left out, the usage comes in a last piece without choices.
"""

from collections.abc import Callable, Sequence

from . import FINGERPRINT
from .answers import Answer, Json, chat_logprobs, completion_logprobs
from .requests import Generated

DONE = "[DONE]"

_BROKEN = "\N{REPLACEMENT CHARACTER}"

Pieces = Callable[[Answer, Sequence[Generated]], list[Json]]
"""From an answer and what was just added to it to the pieces to send."""


class TextSoFar:
    """Cuts the growing text of an answer into what is new each time."""

    def __init__(self) -> None:
        self.length = 0

    def new(self, answer: Answer) -> str:
        """The text since the last call; held back while it ends inside a character."""
        text = answer.text
        if text.endswith(_BROKEN) and answer.finish_reason is None:
            return ""
        start, self.length = self.length, len(text)
        return text[start:]


def completion_pieces() -> Pieces:
    """Make the pieces of one completion stream."""
    seen, offset = TextSoFar(), 0

    def pieces(answer: Answer, added: Sequence[Generated]) -> list[Json]:
        nonlocal offset
        text = seen.new(answer)
        choice = {
            "index": 0,
            "text": text,
            "logprobs": completion_logprobs(answer, added, offset=offset),
            "finish_reason": answer.finish_reason,
            "stop_reason": None,
            "prompt_token_ids": answer.shown_prompt if len(answer.tokens) == len(added) else None,
            "token_ids": answer.shown_ids(added),
        }
        offset += len(text)
        return [answer.envelope("text_completion", [choice])]

    return pieces


def chat_pieces() -> Pieces:
    """Make the pieces of one chat stream; the first one only says who speaks."""
    seen = TextSoFar()

    def pieces(answer: Answer, added: Sequence[Generated]) -> list[Json]:
        made: list[Json] = []
        if len(answer.tokens) == len(added):
            made.append(_chat_piece(answer, {"role": "assistant", "content": ""}))
            made[0]["prompt_token_ids"] = answer.shown_prompt
        piece = _chat_piece(answer, {"content": seen.new(answer)})
        choice = piece["choices"][0]
        choice["logprobs"] = chat_logprobs(answer, added)
        choice["finish_reason"] = answer.finish_reason
        choice["token_ids"] = answer.shown_ids(added)
        return [*made, piece]

    return pieces


def _chat_piece(answer: Answer, delta: Json) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    return answer.envelope("chat.completion.chunk", [choice])


def usage_piece(answer: Answer, kind: str, *, created_cache_tokens: int | None) -> Json:
    """The last piece, for a client that asked for the usage; null entries are left out."""
    usage = answer.usage(created_cache_tokens=created_cache_tokens)
    details = usage.pop("prompt_tokens_details")
    del usage["completion_tokens_details"]
    if details is not None:
        usage["prompt_tokens_details"] = {
            key: value for key, value in details.items() if value is not None
        }
    return {**answer.envelope(kind, []), "system_fingerprint": FINGERPRINT, "usage": usage}
