"""Notices an engine that hangs in the middle of a request: `/health` stays 200, and nothing moves.

What was seen on vLLM 0.29.0 for CPU, engine or worker stopped by SIGSTOP while a request ran:

- `/health` is 200 and `/metrics` answers in 5 ms, since both are the API server's.
- In the first step of a request `vllm:num_requests_running` stays 0: the engine reports a request
  when its first step is done. So the gauge cannot be asked whether there is something to wait for;
  that a request is under way is known here, where its answer is awaited.
- `vllm:iteration_tokens_total` counts steps that gave out a token. A chunk of a long prefill gives
  out none (`v1/engine/async_llm.py`: iteration_stats only with outputs) and moves
  `vllm:kv_cache_usage_perc` alone: 63 chunks in 6.3 s, and the count stood still. So any counter
  that moves is a sign of life.
- On a machine that is busy with other things (a load of 9 on two cores) a healthy engine was once
  still for 4.8 s: a limit of less than ten times that would call it dead.
"""

import time
from collections.abc import Callable

import httpx

from orchestrator.adapters.server_connections import ServerConnections
from orchestrator.errors import ProbeError
from orchestrator.metrics import counter_lines, read_metrics
from orchestrator.model.host import Beat
from orchestrator.model.metrics import MetricsReading

INTERVAL_S = 5.0
"""Between two looks, where the limit is 20 s or more. The page costs the API server 5 to 15 ms, and
a request that is answered sooner none of them."""

_PAGE_LIMIT_S = 5.0
"""Several hundred times what the page takes on a busy machine."""


class Heartbeat:
    """Reads the counters of one server, on a connection of its own, while a request is awaited.

    Made to be asked by whoever waits, in that same thread: `begin` before each request, then
    `check` about every `interval_s` until there is an answer. It judges, and ends nothing itself.

    Args:
        port: Of the server.
        timeout_s: How long nothing may move: longer than the longest single step takes.
        clock: Of the exchanges.
    """

    def __init__(
        self,
        port: int,
        *,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.interval_s = min(INTERVAL_S, timeout_s / 4)
        self.beats: list[Beat] = []
        """Of the present request, or of the last one: the periodic metrics of a run."""

        self._clock = clock
        self._timeout_s = timeout_s
        self._moved_s = 0.0
        self._last: MetricsReading | None = None
        self._connections = ServerConnections(port, timeout_s=min(_PAGE_LIMIT_S, timeout_s))

    def begin(self) -> None:
        """A request is about to be sent."""
        self.beats = []
        self._last = None
        self._moved_s = self._clock()

    def check(self) -> None:
        """Read the page once, and say so when there was no sign of life for too long.

        A page that has none of the counters is no evidence either way and never an objection.

        Raises:
            ProbeError: Nothing moved for `timeout_s`, or the page did not answer for so long; with
                the figures.
        """
        lines, problem = self._page()
        now_s = self._clock()
        self.beats.append(Beat(at_s=now_s, counters=lines))
        reading = read_metrics(lines)
        if problem is None and (reading != self._last or reading == MetricsReading()):
            self._last, self._moved_s = reading, now_s
        still_s = now_s - self._moved_s
        if still_s > self._timeout_s:
            raise ProbeError(
                f"no sign of life from the engine for {still_s:.1f} s, {self._timeout_s:g} s are"
                f" allowed: {problem or _standing(reading)}"
            )

    def close(self) -> None:
        """Close the connection: a server with an open one may refuse to end."""
        self._connections.close()

    def _page(self) -> tuple[str, str | None]:
        try:
            page = self._connections.page("/metrics")
        except httpx.HTTPError as error:
            return "", f"its metrics page does not answer ({error!r})"
        return counter_lines(page), None


def _standing(reading: MetricsReading) -> str:
    figures = {
        "steps": reading.iteration_tokens_count,
        "generated tokens": reading.generation_tokens,
        "KV cache usage": reading.kv_cache_usage_ratio,
        "running": reading.requests_running,
        "waiting": reading.requests_waiting,
    }
    told = ", ".join(f"{name} {'unknown' if n is None else n}" for name, n in figures.items())
    return f"its counters stand still at {told}"
