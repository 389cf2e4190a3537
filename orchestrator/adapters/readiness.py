"""Waiting until a server is able to answer, and is the one that was declared.

`/health` alone is not enough: it answered 200 on a real server whose engine died at the first
completion (a kernel library was missing). So the wait ends with a real one-token completion.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_never, wait_fixed

from orchestrator.adapters.http_probe import ServerClient
from orchestrator.adapters.log_tail import LogTail
from orchestrator.adapters.running_server import RunningServer
from orchestrator.errors import ServerDiedError, ServerNotReadyError, WrongServerError
from orchestrator.metrics import read_cache_config
from orchestrator.model.engine import EngineFacts
from orchestrator.model.plan import Declared
from orchestrator.model.profile import ReadyLimits
from orchestrator.model.serverlog import Finding

OnWait = Callable[[float, str], None]
"""Called with the seconds waited and the last log line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One server that is being waited for."""

    process: RunningServer
    client: ServerClient
    tail: LogTail
    port: int
    limits: ReadyLimits


def wait_until_healthy(waiting: Waiting, on_wait: OnWait) -> None:
    """Wait for the first 200 from `/health` of our own server.

    Raises:
        ServerDiedError: It ended; with the root cause from its log.
        ServerNotReadyError: A fatal line in its log, no progress for too long, or out of time.
        WrongServerError: Something answers on the port, and it is not our server.
    """
    clock = _Clock(waiting)
    # tenacity only repeats here; the limits are the clock's, which also counts the log's growth.
    retrying = Retrying(
        retry=retry_if_exception_type(httpx.HTTPError),
        wait=wait_fixed(waiting.limits.poll_interval_s),
        stop=stop_never,
        sleep=lambda seconds: _sleep(waiting, seconds),
    )
    try:
        for attempt in retrying:
            with attempt:
                on_wait(clock.check(), waiting.tail.last_line)
                waiting.client.page("/health")
                waiting.process.check_port_is_ours(waiting.port)
    except RetryError as error:
        raise AssertionError from error  # stop_never


def _sleep(waiting: Waiting, seconds: float) -> None:
    """Wake up at once when the server ends."""
    waiting.process.wait_for_exit(seconds)


def wait_until_ready(
    waiting: Waiting, declared: Declared, ask_once: Callable[[], object], on_wait: OnWait
) -> EngineFacts:
    """Wait until the server is healthy, is the declared one, and has really answered.

    Args:
        waiting: The server.
        declared: What it must turn out to be.
        ask_once: Puts one real request, and raises an `ArmError` when it fails.
        on_wait: Called again and again meanwhile.

    Raises:
        ArmError: See `wait_until_healthy` and `check_declared`; or what `ask_once` raised.
    """
    wait_until_healthy(waiting, on_wait)
    said = check_declared(waiting, declared)
    ask_once()
    ready_after_s = time.monotonic() - waiting.process.started_s
    return EngineFacts(**said, ready_after_s=ready_after_s)


def check_declared(waiting: Waiting, declared: Declared) -> dict[str, Any]:
    """Compare what the server says about itself with what the plan declares.

    Returns:
        The fields of `EngineFacts` but the time.

    Raises:
        WrongServerError: A value differs; names both.
        ServerNotReadyError: A page could not be had or read.
    """
    client = waiting.client
    try:
        version = json.loads(client.page("/version"))["version"]
        models = json.loads(client.page("/v1/models"))["data"]
        cache = read_cache_config(client.page("/metrics"))
        ids = _tokenize(client, declared)
    except _UNREADABLE as error:
        raise ServerNotReadyError(f"a page could not be read: {error!r}") from error
    if not isinstance(models, list) or not all(isinstance(entry, dict) for entry in models):
        raise ServerNotReadyError("`/v1/models` has no list of models")
    if ids is not None and not isinstance(ids, list):
        raise ServerNotReadyError("`/tokenize` has no list of tokens")
    model = next((m for m in models if m.get("id") == declared.served_model_name), None)
    if model is None:
        served = ", ".join(str(m.get("id")) for m in models)
        raise WrongServerError(f"it serves {served}, not {declared.served_model_name}")
    _must_equal("version", version, declared.vllm_version)
    if cache is not None and cache.block_size_tokens is not None:
        _must_equal("block size", cache.block_size_tokens, declared.block_size_tokens)
    if ids is not None:
        _must_equal("tokenizer's ids of a sample", tuple(ids), declared.tokenizer_ids)
    capacity = None if cache is None else cache.kv_cache_size_tokens
    if capacity is not None and 2 * declared.prompt_tokens >= capacity:
        raise WrongServerError(
            f"its KV cache holds {capacity} tokens, and {declared.prompt_tokens} are planned: "
            "they must stay below half of it, or eviction would look like an effect"
        )
    return {
        "vllm_version": version,
        "served_model_name": declared.served_model_name,
        "model_root": model.get("root"),
        "block_size_tokens": None if cache is None else cache.block_size_tokens,
        "prefix_caching": None if cache is None else cache.enable_prefix_caching,
        "mamba_cache_mode": None if cache is None else cache.mamba_cache_mode,
        "kv_cache_tokens": capacity,
        "port": waiting.port,
        "isolation": waiting.process.isolation,
    }


_UNREADABLE = (httpx.HTTPError, ValueError, KeyError, TypeError, IndexError, RecursionError)
"""What any bytes in the place of a page may lead to."""


def _must_equal(what: str, found: object, declared: object) -> None:
    if found != declared:
        raise WrongServerError(f"its {what} is {found}, declared is {declared}")


def _tokenize(client: ServerClient, declared: Declared) -> list[int] | None:
    """The server's own ids of the sample; `None` where it has no `/tokenize`."""
    body: dict[str, Any] = {
        "model": declared.served_model_name,
        "prompt": declared.tokenizer_sample,
        "add_special_tokens": False,
    }
    try:
        page = client.page_for("/tokenize", body)
    except httpx.HTTPStatusError as error:
        if error.response.status_code == httpx.codes.NOT_FOUND:
            return None
        raise
    tokens: list[int] = json.loads(page)["tokens"]
    return tokens


class _Clock:
    """The two deadlines of a wait: in all, and since the log last grew."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._seen_bytes = -1
        self._grew_s = time.monotonic()

    def check(self) -> float:
        """Seconds since the server was started, unless it failed or a deadline passed."""
        waiting, now = self._waiting, time.monotonic()
        waited_s = now - waiting.process.started_s
        self._stop_at_fatal(waiting.tail.read_new())
        try:
            waiting.process.check_alive()
        except ServerDiedError as error:
            cause = waiting.tail.root_cause()
            raise ServerDiedError(f"{error}; {cause or 'its log does not say why'}") from error
        if waiting.tail.bytes > self._seen_bytes:
            self._seen_bytes, self._grew_s = waiting.tail.bytes, now
        limits = waiting.limits
        if waited_s > limits.total_timeout_s:
            raise ServerNotReadyError(
                f"not ready within {limits.total_timeout_s:g} s; last line: "
                f"{waiting.tail.last_line!r}"
            )
        if now - self._grew_s > limits.no_progress_timeout_s:
            raise ServerNotReadyError(
                f"its log did not grow for {limits.no_progress_timeout_s:g} s; last line: "
                f"{waiting.tail.last_line!r}"
            )
        return waited_s

    def _stop_at_fatal(self, findings: tuple[Finding, ...]) -> None:
        if not any(finding.severity == "fatal" for finding in findings):
            return
        # The lines that tell the cause may come a moment after the first fatal one.
        self._waiting.process.wait_for_exit(_TRACEBACK_S)
        cause = self._waiting.tail.root_cause()
        raise ServerNotReadyError(f"its log reports a fatal error: {cause}")


_TRACEBACK_S = 0.5
"""A traceback is written in one burst; this is ample for it."""
