"""Requests → raw bytes and latency. Never retries, never parses."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import Protocol

import httpx

from orchestrator.adapters.server_connections import ServerConnections
from orchestrator.errors import ProbeError, ServerDiedError
from orchestrator.model.exchange import Arrival, Exchange, ExchangeTimes
from orchestrator.model.plan import ProbePlan

LARGEST_ANSWER_BYTES = 64 * 2**20
"""An answer of 4096 tokens with 100 candidates each is about 25 MB; more is no answer to us."""

EVENT_STREAM = "text/event-stream"

_LAST_WORDS_S = 0.1
"""How long a request may still deliver after the server's exit was noticed."""


class Watch(Protocol):
    """Says whether an answer is still worth waiting for."""

    interval_s: float
    """How often it wants to be asked."""

    def begin(self) -> None:
        """A request is about to be sent."""

    def check(self) -> None:
        """Pass, or raise what ends the wait."""


_AT_ONCE = 64
"""Requests that can be under way together: the most that an arm's `concurrency` may ask for."""


class ServerClient:
    """The connections to a server, one for each request under way, and the threads that wait there.

    The caller waits on two things at once, the answer and the server's exit, so that an exit is
    noticed at once even where the connection stays open; now and then it asks `watch`.
    """

    def __init__(
        self,
        port: int,
        *,
        timeout_s: float,
        largest_answer_bytes: int = LARGEST_ANSWER_BYTES,
        watch: Watch | None = None,
    ) -> None:
        self._watch = watch
        self._timeout_s = timeout_s
        self._largest_answer_bytes = largest_answer_bytes
        self._worker = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="probe")
        self._server_ended = threading.Event()
        self._wake = threading.Event()
        self._connections = ServerConnections(port, timeout_s=timeout_s)

    def server_ended(self) -> None:
        """To be called, from any thread, when the server's process ends."""
        self._server_ended.set()
        self._wake.set()

    def send(
        self, volley: Sequence[tuple[ProbePlan, bytes]], keep: Callable[[Exchange], None]
    ) -> tuple[Exchange, ...]:
        """Send one request, or several at once, each once; return when all are answered.

        Args:
            volley: Each probe that an exchange is filed under, and its body, sent as it is.
            keep: Called from the sending thread with whatever came, before anybody looks at it
                and also when nobody waits for it any more.

        Raises:
            ProbeError: No whole answer came, or its status is not 200. It was kept all the same.
            ServerDiedError: The server ended before the answer came.
            ArmError: Whatever `watch` raises.
        """
        self._wake.clear()
        if self._watch is not None:
            self._watch.begin()
        futures = [self._worker.submit(self._exchange, probe, body, keep) for probe, body in volley]
        for future in futures:
            future.add_done_callback(lambda _: self._wake.set())
        try:
            self._wait(futures)
        except BaseException:
            self._connections.disconnect()
            raise
        exchanges = tuple(future.result() for future in futures)
        for exchange in exchanges:
            _must_be_answered(exchange)
        return exchanges

    def page(self, path: str) -> str:
        """A page of the server as text; see `ServerConnections.page`."""
        return self._connections.page(path)

    def page_for(self, path: str, body: object) -> str:
        """What a page answers to a JSON body; see `ServerConnections.page`."""
        return self._connections.page_for(path, body)

    def close(self) -> None:
        """Close every connection: a server with an open one may refuse to end."""
        self._connections.disconnect()
        self._worker.shutdown(wait=True)
        self._connections.close()

    def _wait(self, futures: Sequence[Future[Exchange]]) -> None:
        def answered() -> bool:
            return all(future.done() for future in futures)

        while not answered():
            if self._watch is None:
                self._wake.wait()
            elif not self._wake.wait(self._watch.interval_s):
                self._watch.check()
            self._wake.clear()  # before the look at the futures: none can end unnoticed
            if self._server_ended.is_set() and not answered():
                wait(futures, timeout=_LAST_WORDS_S)
                if not answered():
                    raise ServerDiedError("the server ended before it answered")

    def _exchange(
        self, probe: ProbePlan, body: bytes, keep: Callable[[Exchange], None]
    ) -> Exchange:
        received = bytearray()
        arrivals: list[Arrival] = []
        status: int | None = None
        error: str | None = None
        with self._connections.limited(self._timeout_s) as over:
            started_at, started_s = datetime.now(UTC), time.monotonic()
            try:
                with self._connections.http.stream(
                    "POST",
                    probe.endpoint,
                    content=body,
                    headers={"Content-Type": "application/json"},
                ) as response:
                    status = response.status_code
                    streamed = response.headers.get("Content-Type", "").startswith(EVENT_STREAM)
                    for size in self._collect(response.iter_raw(), received):
                        if streamed:
                            at_s = time.monotonic() - started_s
                            arrivals.append(Arrival(bytes=size, at_s=at_s))
            except (httpx.HTTPError, _TooLargeError) as problem:
                error = f"{type(problem).__name__}: {problem}"
        if over.is_set():
            error = f"the answer was not whole after {self._timeout_s:g} s"
        exchange = Exchange(
            times=ExchangeTimes(
                probe=probe,
                path=probe.endpoint,
                started_at=started_at,
                started_s=started_s,
                latency_s=time.monotonic() - started_s,
                status=status,
                error=error,
                arrivals=tuple(arrivals),
            ),
            request=body,
            response=bytes(received),
        )
        keep(exchange)
        return exchange

    def _collect(self, blocks: Iterable[bytes], received: bytearray) -> Iterator[int]:
        """How much there is after each block, when it came."""
        for block in blocks:
            received += block
            if len(received) > self._largest_answer_bytes:
                raise _TooLargeError(f"the answer exceeds {self._largest_answer_bytes} bytes")
            yield len(received)


def _must_be_answered(exchange: Exchange) -> None:
    name, times = exchange.times.probe.id, exchange.times
    if times.error is not None:
        raise ProbeError(f"{name}: {times.error}")
    if times.status != httpx.codes.OK:
        start = exchange.response[:300].decode("utf-8", "replace")
        raise ProbeError(f"{name}: HTTP {times.status}: {start}")


class _TooLargeError(Exception):
    """More bytes than any answer to a probe has."""
