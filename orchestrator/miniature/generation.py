"""The two generating endpoints: body → wish → engine → answer, whole or in pieces."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse

from . import tampering, transport
from .answers import Answer, Json, Naming, chat, completion
from .faults import Faults
from .log import log_api
from .protocol import ChatBody, Checker, CompletionBody, RefusedError, invalid_body
from .requests import Wish
from .streams import DONE, Pieces, chat_pieces, completion_pieces, usage_piece
from .worker import EngineDeadError, Worker

B = TypeVar("B", bound=BaseModel)

_CLIENT_LEFT = 499
"""Nobody reads it; the access log shows it."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Where the two endpoints differ."""

    id_prefix: str
    whole: str
    piece: str
    pieces: Callable[[], Pieces]


_COMPLETION = _Kind("cmpl-", "text_completion", "text_completion", completion_pieces)
_CHAT = _Kind("chatcmpl-", "chat.completion", "chat.completion.chunk", chat_pieces)


@dataclass(frozen=True, slots=True)
class _Job:
    """One request under way."""

    kind: _Kind
    wish: Wish
    answer: Answer
    faults: tampering.Wanted
    include_usage: bool


class Generation:
    """Serves POST /v1/completions and POST /v1/chat/completions."""

    def __init__(
        self, worker: Worker, checker: Checker, faults: Faults, on_death: Callable[[], None]
    ) -> None:
        self._worker = worker
        self._checker = checker
        self._faults = faults
        self._on_death = on_death
        self._received = 0

    async def complete(self, request: HttpRequest) -> Response:
        """Continue a prompt."""
        body = await parse(request, CompletionBody)
        self._checker.model(body.model)
        return await self._serve(request, _COMPLETION, body, self._checker.completion(body))

    async def chat(self, request: HttpRequest) -> Response:
        """Answer in a conversation."""
        body = await parse(request, ChatBody)
        self._checker.model(body.model)
        return await self._serve(request, _CHAT, body, self._checker.chat(body))

    async def _serve(
        self, request: HttpRequest, kind: _Kind, body: CompletionBody | ChatBody, wish: Wish
    ) -> Response:
        self._received += 1
        job = self._job(kind, body, wish)
        if body.stream:
            return StreamingResponse(self._stream(job), media_type="text/event-stream")
        try:
            await _unless_client_leaves(request, self._collect(job))
        except EngineDeadError as error:
            log_api.exception("Engine Exception caught. Request id: %s", job.answer.id)
            self._on_death()
            return json_response(_engine_error(error), HTTPStatus.INTERNAL_SERVER_ERROR)
        except _ClientLeftError:
            return Response(status_code=_CLIENT_LEFT)
        whole = self._whole(job)
        encoded = tampering.change_bytes(
            encode(tampering.change_answer(whole, job.faults)), job.faults
        )
        return transport.response(encoded, job.faults)

    def _job(self, kind: _Kind, body: CompletionBody | ChatBody, wish: Wish) -> _Job:
        faults = self._faults.for_request(self._received)
        for name in faults:
            log_api.info("MINIATURE: fault %s at request %d", name, self._received)
        wish = tampering.change_wish(wish, faults)
        naming = Naming(
            tokenizer=self._checker.tokenizer,
            as_ids=body.return_tokens_as_token_ids,
            special_tokens=not body.skip_special_tokens,
        )
        settings = self._checker.settings
        answer = Answer(
            id=kind.id_prefix + uuid4().hex[:16],
            model=settings.served_model_name,
            prompt=wish.prompt,
            naming=naming,
            top_logprobs=wish.top_logprobs,
            show_ids=body.return_token_ids,
            details=settings.prompt_tokens_details,
        )
        usage = body.stream_options is not None and body.stream_options.include_usage
        return _Job(kind, wish, answer, faults, usage)

    async def _updates(self, job: _Job) -> AsyncGenerator[int]:
        """Let the answer grow; yields how many tokens were added each time."""
        generate = self._worker.generate(job.answer.id, job.wish, job.faults)
        async with aclosing(generate) as updates:
            async for update in updates:
                job.answer.tokens += tampering.change_tokens(update.added, job.faults)
                job.answer.finish_reason = update.finish_reason
                job.answer.cached_tokens = update.cached_tokens
                yield len(update.added)

    async def _collect(self, job: _Job) -> None:
        async with aclosing(self._updates(job)) as updates:
            async for _ in updates:
                pass

    def _whole(self, job: _Job) -> Json:
        if job.kind is _COMPLETION:
            return completion(job.answer)
        return chat(job.answer, created_cache_tokens=self._created_cache_tokens(job.answer))

    def _created_cache_tokens(self, answer: Answer) -> int:
        """Of the prompt, what was written to the cache: its full blocks, if there is a cache."""
        limits = self._checker.settings.limits
        if not limits.prefix_caching:
            return 0
        size = limits.block_size
        return max(len(answer.prompt) // size * size - answer.cached_tokens, 0)

    async def _stream(self, job: _Job) -> AsyncIterator[bytes]:
        pieces = job.kind.pieces()
        try:
            async with aclosing(self._updates(job)) as updates:
                async for count in updates:
                    for piece in pieces(job.answer, job.answer.tokens[-count:]):
                        yield _event(encode(tampering.change_answer(piece, job.faults)))
                        await asyncio.sleep(job.faults.get("drip") or 0)
        except EngineDeadError as error:
            log_api.exception("Error in completion stream generator.")
            self._on_death()
            yield _event(encode(_engine_error(error)))
        if "truncated-json" in job.faults:
            return
        if job.include_usage:
            created = None if job.kind is _COMPLETION else self._created_cache_tokens(job.answer)
            yield _event(
                encode(usage_piece(job.answer, job.kind.piece, created_cache_tokens=created))
            )
        yield _event(DONE.encode())


class _ClientLeftError(Exception):
    """Whoever asked is gone."""


async def parse(request: HttpRequest, kind: type[B]) -> B:
    """Read a body.

    Raises:
        RefusedError: It is not of this kind.
    """
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        raise invalid_body(error) from error


def encode(content: Json) -> bytes:
    """JSON as vLLM's web framework writes it; NaN is only reached by a fault."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def json_response(content: Json, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Answer with JSON."""
    return Response(encode(content), status_code=status, media_type="application/json")


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _engine_error(error: EngineDeadError) -> Json:
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return RefusedError(str(error), kind="InternalServerError", status=status).body


async def _unless_client_leaves(request: HttpRequest, work: Awaitable[None]) -> None:
    """Wait for the work, or for the client to hang up, and drop the work then.

    Raises:
        _ClientLeftError: It hung up first.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_until_client_leaves(request))
    _, pending = await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if working in pending:
        await asyncio.wait({working})
        raise _ClientLeftError
    working.result()


async def _until_client_leaves(request: HttpRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
