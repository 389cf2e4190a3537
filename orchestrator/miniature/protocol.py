"""What clients may ask for, checked and turned into a `Wish`.

vLLM knows dozens of parameters. One that the miniature does not implement is refused, since
ignoring it would answer another question than the one that was asked.

Error messages: vLLM 0.29.0, as recorded.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .requests import Wish
from .settings import Settings
from .tokenizer import NoTokenizerError, Tokenizer
from .weights import VOCABULARY_SIZE

_DEFAULT_MAX_TOKENS = 16
"""Of the completions endpoint, from OpenAI's specification."""


class RefusedError(Exception):
    """The request cannot be served; the client is told why."""

    def __init__(
        self,
        message: str,
        *,
        kind: str = "BadRequestError",
        param: str | None = None,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {"message": message, "type": kind, "param": param, "code": status.value}
        }


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StreamOptions(_Body):
    """What a stream tells besides its tokens."""

    include_usage: bool = False


class _Generation(_Body):
    """What both generating endpoints take."""

    model: str | None = None
    cache_salt: str | None = Field(default=None, min_length=1)
    temperature: float = Field(default=1.0, ge=0)
    seed: int | None = Field(default=None, ge=0)
    top_p: Literal[1] | None = None
    top_k: Literal[-1, 0] | None = None
    repetition_penalty: Annotated[float, Field(ge=1, le=1)] | None = None
    """`vllm bench serve` always sends 1.0."""

    n: Literal[1] = 1
    stream: bool = False
    stream_options: StreamOptions | None = None
    stop_token_ids: list[int] = Field(default_factory=list)
    ignore_eos: bool = False
    min_tokens: int = Field(default=0, ge=0)
    skip_special_tokens: bool = True
    return_tokens_as_token_ids: bool = False
    return_token_ids: bool = False


class CompletionBody(_Generation):
    """POST /v1/completions."""

    prompt: list[Annotated[int, Field(ge=0)]] | str
    max_tokens: int = Field(default=_DEFAULT_MAX_TOKENS, ge=1)
    logprobs: int | None = Field(default=None, ge=0)


class Message(_Body):
    """One turn of a conversation."""

    role: str
    content: str


class ChatBody(_Generation):
    """POST /v1/chat/completions."""

    messages: list[Message]
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0)
    chat_template_kwargs: dict[str, object] | None = None
    """Accepted: the template of the tiny model has no variable that it could set."""


class TokenizeBody(_Body):
    """POST /tokenize, of a text or of a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_generation_prompt: bool = True
    add_special_tokens: bool = True
    return_token_strs: bool = False


class DetokenizeBody(_Body):
    """POST /detokenize."""

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0)]]


@dataclass(frozen=True, slots=True)
class Checker:
    """Turns bodies into wishes for one server."""

    settings: Settings
    tokenizer: Tokenizer

    def completion(self, body: CompletionBody) -> Wish:
        """Check a completion request.

        Raises:
            RefusedError: It cannot be served.
        """
        prompt = self._encode(body.prompt) if isinstance(body.prompt, str) else body.prompt
        return self._wish(body, prompt, body.max_tokens, body.logprobs, "logprobs")

    def chat(self, body: ChatBody) -> Wish:
        """Check a chat request; without a limit it may fill the context.

        Raises:
            RefusedError: It cannot be served.
        """
        prompt = self.chat_prompt(body.messages, generation_prompt=True)
        room = self.settings.limits.max_model_len - len(prompt)
        max_tokens = body.max_completion_tokens or body.max_tokens or max(room, 1)
        top = (body.top_logprobs or 0) if body.logprobs else None
        return self._wish(body, prompt, max_tokens, top, "top_logprobs")

    def chat_prompt(self, messages: list[Message], *, generation_prompt: bool) -> list[int]:
        """Token ids of a conversation."""
        pairs = [(message.role, message.content) for message in messages]
        return self._encode(self.tokenizer.render_chat(pairs, generation_prompt=generation_prompt))

    def tokenize(self, body: TokenizeBody) -> list[int]:
        """Token ids of a text or of a conversation.

        Raises:
            RefusedError: Not exactly one of the two was given, or there is no tokenizer.
        """
        if (body.prompt is None) == (body.messages is None):
            raise RefusedError("exactly one of prompt and messages is wanted")
        if body.messages is not None:
            return self.chat_prompt(body.messages, generation_prompt=body.add_generation_prompt)
        return self._encode(body.prompt or "")

    def model(self, name: str | None) -> None:
        """Refuse a model that is not served here."""
        if name is not None and name != self.settings.served_model_name:
            raise RefusedError(
                f"The model `{name}` does not exist.",
                kind="NotFoundError",
                param="model",
                status=HTTPStatus.NOT_FOUND,
            )

    def _encode(self, text: str) -> list[int]:
        try:
            return self.tokenizer.encode(text)
        except NoTokenizerError:
            raise RefusedError(
                "This server has no tokenizer (--tokenizer FILE): send token ids."
            ) from None

    def _wish(
        self, body: _Generation, prompt: list[int], max_tokens: int, top: int | None, param: str
    ) -> Wish:
        self._check_top(top, param)
        self._check_prompt(prompt, max_tokens)
        stop = frozenset(body.stop_token_ids)
        return Wish(
            prompt=tuple(prompt),
            max_tokens=max_tokens,
            salt=body.cache_salt,
            top_logprobs=top,
            temperature=body.temperature,
            seed=body.seed,
            stop_tokens=stop if body.ignore_eos else stop | self.tokenizer.stop_tokens,
            min_tokens=body.min_tokens,
        )

    def _check_top(self, top: int | None, param: str) -> None:
        if top is not None and top > self.settings.max_logprobs:
            raise RefusedError(
                f"Requested sample logprobs of {top}, which is greater than max allowed: "
                f"{self.settings.max_logprobs} (parameter={param}, value={top})",
                param=param,
            )

    def _check_prompt(self, prompt: list[int], max_tokens: int) -> None:
        if not prompt:
            raise RefusedError("The decoder prompt cannot be empty")
        if max(prompt) >= VOCABULARY_SIZE:
            raise RefusedError(f"Token id {max(prompt)} is out of vocabulary")
        total, most = len(prompt) + max_tokens, self.settings.limits.max_model_len
        if total > most:
            raise RefusedError(
                f"This model's maximum context length is {most} tokens. However, you requested "
                f"{max_tokens} output tokens and your prompt contains {len(prompt)} input tokens, "
                f"for a total of {total} tokens. Please reduce the length of the input prompt or "
                f"the number of requested output tokens. (parameter=input_tokens, "
                f"value={len(prompt)})",
                param="input_tokens",
            )


def invalid_body(error: ValidationError) -> RefusedError:
    """Say what is wrong with a body in vLLM's way."""
    errors = [
        {
            "type": item["type"],
            "loc": ("body", *item["loc"]),
            "msg": item["msg"],
            "input": item["input"],
            **({"ctx": item["ctx"]} if "ctx" in item else {}),
        }
        for item in error.errors(include_url=False)
    ]
    count = f"{len(errors)} validation error{'s' if len(errors) > 1 else ''}"
    return RefusedError(
        "\n".join([f"{count}:", *(f"  {item}" for item in errors)]),
        kind=HTTPStatus.BAD_REQUEST.phrase,
        param=".".join(str(part) for part in ("body", *error.errors()[0]["loc"])),
    )
