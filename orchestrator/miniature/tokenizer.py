"""Text to token ids and back, where there is a tokenizer."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tokenizers

_END_OF_TURN = "<|im_end|>"
"""Ends a generation, as in the Qwen family."""


class NoTokenizerError(Exception):
    """Text was given, or wanted, and there is nothing to read it with."""


class Tokenizer:
    """A `tokenizer.json`, or the lack of one."""

    def __init__(self, file: Path | None) -> None:
        self._inner: tokenizers.Tokenizer | None = None
        if file is not None:
            # Here, since a server that is only sent token ids needs no such package.
            from tokenizers import Tokenizer as Inner  # noqa: PLC0415

            self._inner = Inner.from_str(file.read_text(encoding="utf-8"))

    @property
    def size(self) -> int:
        """Tokens in the vocabulary; 0 without a tokenizer."""
        return 0 if self._inner is None else self._inner.get_vocab_size()

    @property
    def stop_tokens(self) -> frozenset[int]:
        """What ends a generation by itself."""
        end = None if self._inner is None else self._inner.token_to_id(_END_OF_TURN)
        return frozenset() if end is None else frozenset({end})

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; nothing is put before it.

        Raises:
            NoTokenizerError: There is none.
        """
        if self._inner is None:
            raise NoTokenizerError
        return self._inner.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens; empty without a tokenizer, as with vLLM's --skip-tokenizer-init."""
        if self._inner is None:
            return ""
        return self._inner.decode(list(tokens), skip_special_tokens=not special)

    def name(self, token: int, *, as_id: bool) -> str:
        """How a list of candidates calls a token."""
        return (
            f"token_id:{token}"
            if as_id or self._inner is None
            else self.decode([token], special=True)
        )

    def render_chat(self, messages: Sequence[tuple[str, str]], *, generation_prompt: bool) -> str:
        """Write a conversation as the prepared tiny model does (ChatML).

        Args:
            messages: Role and content.
            generation_prompt: Whether the assistant's turn is opened.
        """
        turns = [f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in messages]
        return "".join(turns) + ("<|im_start|>assistant\n" if generation_prompt else "")
