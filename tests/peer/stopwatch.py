"""What a server sees, with times; a middleware of vLLM's own `--middleware`, alike for both tools.

It runs inside the server, under the engine's interpreter, so it imports nothing of ours. Each
event is one line of JSON, appended to the file that `PEER_STOPWATCH` names: `started` and
`serving` once a server, `answered` once a request. Times are CLOCK_MONOTONIC, which all processes
of a machine share, in seconds. A completion's prompt is replaced by its hash.
"""

import hashlib
import json
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class Stopwatch:
    """An ASGI middleware that changes nothing of what passes through it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._file = os.environ["PEER_STOPWATCH"]
        self._note(event="started", at_s=time.monotonic() - _age_s())

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass it on, and note what passed."""
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await self._app(scope, receive, self._noting_start(send))

    def _noting_start(self, send: Send) -> Send:
        async def noted(message: Message) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                self._note(event="serving", at_s=time.monotonic())

        return noted

    async def _request(self, scope: Message, receive: Receive, send: Send) -> None:
        arrived_s, body, status = time.monotonic(), bytearray(), 0

        async def received() -> Message:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        async def sent(message: Message) -> None:
            nonlocal status
            await send(message)
            if message["type"] == "http.response.start":
                status = message["status"]
            elif not message.get("more_body", False):
                self._note(
                    event="answered",
                    path=scope["path"],
                    arrived_s=arrived_s,
                    at_s=time.monotonic(),
                    status=status,
                    asked=_asked(scope["path"], bytes(body)),
                )

        await self._app(scope, received, sent)

    def _note(self, **event: object) -> None:
        line = json.dumps(event).encode() + b"\n"
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(descriptor, line)
        os.close(descriptor)


def _age_s() -> float:
    """Of this process; the kernel counts its start in clock ticks since the machine's."""
    ticks = int(Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def _asked(path: str, body: bytes) -> dict[str, Any] | None:
    """A completion's fields; nothing of any other request."""
    if path != "/v1/completions":
        return None
    fields: dict[str, Any] = json.loads(body)
    prompt = json.dumps(fields.pop("prompt")).encode()
    return fields | {"prompt_sha256": hashlib.sha256(prompt).hexdigest()}
