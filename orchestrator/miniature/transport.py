"""The faults of `faults.IN_TRANSPORT`, and `drip`: an answer that reaches its client otherwise."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from starlette.responses import RedirectResponse, Response, StreamingResponse

from .tampering import Wanted

PIECES = 10
"""Of a body that drips."""

_JSON = "application/json"
_MIB = 2**20
_PAGE = b"<!doctype html><title>502</title><p>Bad gateway"


def response(body: bytes, wanted: Wanted) -> Response:
    """Send the body, or what the faults that are on make of it."""
    if (status := wanted.get("status")) is not None:
        return Response(b'{"error": "MINIATURE: a fault"}', int(status), media_type=_JSON)
    if "html" in wanted:
        return Response(_PAGE, media_type="text/html")
    if "redirect" in wanted:
        return RedirectResponse("/health")
    stream = _streamed(body, wanted)
    return Response(body, media_type=_JSON) if stream is None else stream


def _streamed(body: bytes, wanted: Wanted) -> Response | None:
    if (size_mib := wanted.get("huge")) is not None:
        return StreamingResponse(_followed(body, int(size_mib)), media_type=_JSON)
    if "cut-off" in wanted:
        return StreamingResponse(_cut_off(body), media_type=_JSON)
    if (pause_s := wanted.get("drip")) is not None:
        return StreamingResponse(_drip(body, pause_s), media_type=_JSON)
    return None


def _pieces(body: bytes) -> list[bytes]:
    size = -(-len(body) // PIECES)
    return [body[start : start + size] for start in range(0, len(body), size)]


def _followed(body: bytes, size_mib: int) -> Iterator[bytes]:
    yield body
    for _ in range(size_mib):
        yield b" " * _MIB


async def _cut_off(body: bytes) -> AsyncIterator[bytes]:
    yield body[: len(body) // 2]
    await asyncio.sleep(0)  # the half leaves before the connection does
    raise ConnectionAbortedError("MINIATURE: a fault closes the connection")


async def _drip(body: bytes, pause_s: float) -> AsyncIterator[bytes]:
    for piece in _pieces(body):
        yield piece
        await asyncio.sleep(pause_s)
