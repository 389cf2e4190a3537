"""Counts HTTP requests as vLLM's instrumentation library does.

Source: prometheus_fastapi_instrumentator's default metrics, as recorded with vLLM 0.29.0.
"""

import time

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_EXCLUDED = {"/metrics", "/health", "/load", "/ping", "/version", "/server_info"}
"""vLLM: entrypoints/serve/instrumentator/metrics.py."""

_MANY = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10),
    *(30, 60),
)
_FEW = (0.1, 0.5, 1)


class HttpMetrics:
    """Middleware around the application."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry, paths: set[str]) -> None:
        self._app = app
        self._paths = paths - _EXCLUDED
        self._total = Counter(
            "http_requests",
            "Total number of requests by method, status and handler.",
            ("method", "status", "handler"),
            registry=registry,
        )
        self._in = Summary(
            "http_request_size_bytes",
            "Content length of incoming requests by handler. Only value of header is respected. "
            "Otherwise ignored. No percentile calculated. ",
            ("handler",),
            registry=registry,
        )
        self._out = Summary(
            "http_response_size_bytes",
            "Content length of outgoing responses by handler. Only value of header is respected. "
            "Otherwise ignored. No percentile calculated. ",
            ("handler",),
            registry=registry,
        )
        self._fine = Histogram(
            "http_request_duration_highr_seconds",
            "Latency with many buckets but no API specific labels. Made for more accurate "
            "percentile calculations. ",
            buckets=_MANY,
            registry=registry,
        )
        self._coarse = Histogram(
            "http_request_duration_seconds",
            "Latency with only few buckets by handler. Made to be only used if aggregation by "
            "handler is important. ",
            ("method", "handler"),
            buckets=_FEW,
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it when its answer is complete."""
        if scope["type"] != "http" or scope["path"] not in self._paths:
            await self._app(scope, receive, send)
            return
        started, status, size = time.perf_counter(), 500, 0

        async def watching(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status, size = message["status"], _length(message["headers"])
            await send(message)

        await self._app(scope, receive, watching)
        handler, method = scope["path"], scope["method"]
        elapsed = time.perf_counter() - started
        self._total.labels(method, f"{status // 100}xx", handler).inc()
        self._in.labels(handler).observe(_length(scope["headers"]))
        self._out.labels(handler).observe(size)
        self._fine.observe(elapsed)
        self._coarse.labels(method, handler).observe(elapsed)


def _length(headers: list[tuple[bytes, bytes]]) -> int:
    """Content-Length, 0 where there is none."""
    return next((int(value) for name, value in headers if name.lower() == b"content-length"), 0)
