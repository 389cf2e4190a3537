"""The life of a server process, from its first line of log to its exit code.

Order and exit codes: vLLM 0.29.0, as recorded. The port is bound before anything is built, so one
that somebody listens on ends the process at once; it listens only when everything is ready.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points

import uvicorn

from . import LABEL, VERSION
from .engine import Engine
from .faults import Faults
from .log import log_api, log_core, set_up, uvicorn_config, write_line
from .metrics import Metrics
from .model import Model
from .protocol import Checker
from .server import Server
from .settings import Settings, read_settings
from .statistics import INTERVAL_S, Statistics
from .tokenizer import Tokenizer
from .weights import VOCABULARY_SIZE, random_weights
from .worker import Worker

_ARCHITECTURE = "MiniatureHybridForCausalLM"

_ORPHAN_S = 600
"""How long the fault `orphan` keeps the port at most: nothing is left behind for ever."""


def main(argv: Sequence[str]) -> int:
    """Serve until SIGTERM or until the engine is dead; both end with 0, as with vLLM."""
    write_line(f"{LABEL}. An engine for looks, tests and faults; no evidence about vLLM.")
    for plugin in entry_points(group="vllm.general_plugins", name="vllm_arms_reporter"):
        plugin.load()()  # as vLLM loads its plugins; this one says which file a module came from
    settings = read_settings(argv)
    faults = Faults()
    set_up()
    _announce(settings)
    listener = _bind(settings)
    _suffer_start(faults, listener)
    tokenizer, engine = _build(settings, faults)
    asyncio.run(_serve(settings, faults, listener, tokenizer, engine))
    return 0


def _announce(settings: Settings) -> None:
    log_api.info("%s, version %s, model %s", LABEL, VERSION, settings.model)
    log_api.info("non-default args: %s", dict(settings.given))
    log_api.info("Resolved architecture: %s", _ARCHITECTURE)
    log_api.info("Using max model len %d", settings.limits.max_model_len)
    if settings.limits.num_speculative_tokens:
        log_api.info(
            "Hybrid model with EAGLE speculative decoding: defaulting "
            "prefix_cache_retention_interval to dense checkpointing."
        )
    if settings.limits.prefix_caching:
        log_api.info(
            "Mamba cache mode is set to 'align' for %s by default when prefix caching is enabled",
            _ARCHITECTURE,
        )


def _bind(settings: Settings) -> socket.socket:
    # asyncio sets TCP_NODELAY only where the protocol is named; without it, an answer waits 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((settings.host, settings.port))
    return listener


_FILLING = " " + "." * 960
"""Makes a line of a flood a kibibyte."""


def _suffer_start(faults: Faults, listener: socket.socket) -> None:
    wanted = faults.at_start()
    for name in wanted:
        log_core.info("MINIATURE: fault %s", name)
    if "ignore-sigterm" in wanted:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "orphan" in wanted:
        _leave_orphan(listener)
    if "invalid-utf8" in wanted:
        sys.stdout.buffer.write(b"a line of log that is no UTF-8: \xff\xfe\n")
        sys.stdout.flush()
    for number in range(int(wanted.get("log-flood") or 0)):
        log_core.info("MINIATURE: line %d of a flood%s", number, _FILLING)
    for _ in range(int(wanted.get("slow-start") or 0)):
        time.sleep(1)
        log_core.info("MINIATURE: still starting")
    if "no-progress" in wanted:
        threading.Event().wait()


def _leave_orphan(listener: socket.socket) -> None:
    listener.listen()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.setsid()
        time.sleep(_ORPHAN_S)
        os._exit(0)


def _build(settings: Settings, faults: Faults) -> tuple[Tokenizer, Engine]:
    """Make the engine.

    Raises:
        RuntimeError: It could not be made; the log tells why.
    """
    started = time.monotonic()
    config = ", ".join(f"{name}={value}" for name, value in _flat_config(settings).items())
    log_core.info("Initializing a V1 LLM engine (v%s; %s) with config: %s", VERSION, LABEL, config)
    try:
        tokenizer, engine = _build_parts(settings, faults)
    except (ImportError, OSError, ValueError):
        log_core.exception("EngineCore failed to start.")
        raise RuntimeError(
            "Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        ) from None
    elapsed = time.monotonic() - started
    log_core.info("init engine (profile, create kv cache, warmup model) took %.2f s", elapsed)
    return tokenizer, engine


def _build_parts(settings: Settings, faults: Faults) -> tuple[Tokenizer, Engine]:
    limits = settings.limits
    if "crash-at-start" in faults.at_start():
        raise ModuleNotFoundError("No module named 'miniature_kernels'")
    if settings.max_concurrency < 1:
        raise ValueError(
            f"To serve at least one request with the model's max seq len ({limits.max_model_len}),"
            f" more blocks are needed than the {limits.num_blocks} that there are. Try increasing "
            "`num_gpu_blocks_override` or decreasing `max_model_len`."
        )
    tokenizer = Tokenizer(settings.tokenizer)
    if tokenizer.size > VOCABULARY_SIZE:
        raise ValueError(f"the tokenizer has {tokenizer.size} tokens, the model {VOCABULARY_SIZE}")
    log_core.info("Starting to load model %s...", settings.model)
    started = time.monotonic()
    model = Model(random_weights(settings.seed))
    log_core.info("Loading weights took %.2f seconds", time.monotonic() - started)
    engine = Engine(model, limits, seed=settings.seed)
    log_core.info(
        "GPU KV cache size: %s tokens, Maximum concurrency for %s tokens per request: %.2fx",
        f"{settings.cache_size_tokens:,}",
        f"{limits.max_model_len:,}",
        settings.max_concurrency,
    )
    return tokenizer, engine


def _flat_config(settings: Settings) -> dict[str, object]:
    """In the order and under the names of vLLM's line."""
    limits = settings.limits
    drafts = limits.num_speculative_tokens
    return {
        "model": repr(settings.model),
        "speculative_config": (
            f"SpeculativeConfig(method='mtp', model={settings.model!r}, num_spec_tokens={drafts})"
            if drafts
            else None
        ),
        "tokenizer": repr(str(settings.tokenizer or settings.model)),
        "dtype": "torch.bfloat16",
        "max_seq_len": limits.max_model_len,
        "device_config": "cpu",
        "seed": settings.seed,
        "served_model_name": settings.served_model_name,
        "enable_prefix_caching": limits.prefix_caching,
        "enable_chunked_prefill": True,
    }


async def _serve(
    settings: Settings,
    faults: Faults,
    listener: socket.socket,
    tokenizer: Tokenizer,
    engine: Engine,
) -> None:
    metrics = Metrics(settings)
    worker = Worker(engine, metrics.observe)

    def stop() -> None:
        http.should_exit = True

    checker = Checker(settings, tokenizer)
    server = Server(checker, engine, worker, metrics, faults, on_death=stop)
    http = _HttpServer(uvicorn.Config(server.application(), log_config=uvicorn_config()))
    log_api.info("Supported tasks: ['generate']")
    if settings.development:
        log_api.warning(
            "SECURITY WARNING: Development endpoints are enabled! This should NOT be used in "
            "production!"
        )
    log_api.info("Starting vLLM server on http://%s:%d (%s)", settings.host, settings.port, LABEL)
    log_api.info("Available routes are:")
    for route in server.routes:
        methods = ", ".join(sorted((route.methods or set()) - {"HEAD"}))  # Starlette adds HEAD
        log_api.info("Route: %s, Methods: %s", route.path, methods)
    _stop_on_signal(faults, stop)
    worker.start()
    writing = asyncio.create_task(_write_statistics(Statistics(engine)))
    await http.serve(sockets=[listener])
    writing.cancel()


class _HttpServer(uvicorn.Server):
    """Leaves the signals alone: uvicorn would raise them again and end with another exit code."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _stop_on_signal(faults: Faults, stop: Callable[[], None]) -> None:
    def on_signal() -> None:
        log_api.info("[shutdown] API server: shutdown triggered")
        stop()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, on_signal)
    if "ignore-sigterm" not in faults.at_start():
        loop.add_signal_handler(signal.SIGTERM, on_signal)


async def _write_statistics(statistics: Statistics) -> None:
    while True:
        await asyncio.sleep(INTERVAL_S)
        statistics.write()
