"""The HTTP application: every path, and what it says.

Shapes: vLLM 0.29.0, as recorded. Development endpoints exist under VLLM_SERVER_DEV_MODE=1 only,
as with vLLM; the oracle is one of them.
"""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from uuid import uuid4

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from . import LABEL, VERSION, scheduler
from .engine import Engine
from .faults import Faults
from .generation import Generation, json_response, parse
from .http_metrics import HttpMetrics
from .log import log_api, log_core
from .metrics import Metrics
from .protocol import Checker, DetokenizeBody, RefusedError, TokenizeBody
from .settings import Settings
from .worker import Worker


class Server:
    """Everything that the paths need."""

    def __init__(
        self,
        checker: Checker,
        engine: Engine,
        worker: Worker,
        metrics: Metrics,
        faults: Faults,
        on_death: Callable[[], None],
    ) -> None:
        self._checker = checker
        self._settings = checker.settings
        self._engine = engine
        self._worker = worker
        self._metrics = metrics
        self._generation = Generation(worker, checker, faults, on_death)
        self._started = int(time.time())

    def application(self) -> Starlette:
        """Put the paths together."""
        paths = {route.path for route in self.routes}
        return Starlette(
            routes=self.routes,
            exception_handlers={RefusedError: _refused, 404: _not_found},
            middleware=[Middleware(HttpMetrics, registry=self._metrics.registry, paths=paths)],
        )

    @property
    def routes(self) -> list[Route]:
        """Every path, in the order of vLLM's log."""
        routes = [
            Route("/health", self.health),
            Route("/version", self.version),
            Route("/metrics", self.metrics),
            Route("/v1/models", self.models),
            Route("/tokenize", self.tokenize, methods=["POST"]),
            Route("/detokenize", self.detokenize, methods=["POST"]),
            Route("/v1/completions", self._generation.complete, methods=["POST"]),
            Route("/v1/chat/completions", self._generation.chat, methods=["POST"]),
        ]
        if self._settings.development:
            routes += [
                Route("/server_info", self.server_info),
                Route("/reset_prefix_cache", self.reset_prefix_cache, methods=["POST"]),
                Route("/oracle/{request}", self.oracle),
            ]
        return routes

    async def health(self, _: HttpRequest) -> Response:
        """200 while the engine's thread lives, whether or not it moves."""
        return Response(status_code=503 if self._worker.dead else 200)

    async def version(self, _: HttpRequest) -> Response:
        """The label, and the miniature's own version."""
        return json_response({"version": f"{LABEL} {VERSION}"})

    async def metrics(self, _: HttpRequest) -> Response:
        """The Prometheus page."""
        page = generate_latest(self._metrics.registry)
        return Response(page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def models(self, _: HttpRequest) -> Response:
        """The one model."""
        permission = {
            "id": f"modelperm-{uuid4().hex[:16]}",
            "object": "model_permission",
            "created": self._started,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        model = {
            "id": self._settings.served_model_name,
            "object": "model",
            "created": self._started,
            "owned_by": LABEL,
            "root": self._settings.model,
            "parent": None,
            "max_model_len": self._settings.limits.max_model_len,
            "permission": [permission],
        }
        return json_response({"object": "list", "data": [model]})

    async def tokenize(self, request: HttpRequest) -> Response:
        """Text or conversation to token ids."""
        body = await parse(request, TokenizeBody)
        self._checker.model(body.model)
        tokens = self._checker.tokenize(body)
        name = self._checker.tokenizer.name
        strings = [name(token, as_id=False) for token in tokens] if body.return_token_strs else None
        return json_response(
            {
                "count": len(tokens),
                "max_model_len": self._settings.limits.max_model_len,
                "tokens": tokens,
                "token_strs": strings,
            }
        )

    async def detokenize(self, request: HttpRequest) -> Response:
        """Token ids to text."""
        body = await parse(request, DetokenizeBody)
        self._checker.model(body.model)
        return json_response({"prompt": self._checker.tokenizer.decode(body.tokens, special=True)})

    async def server_info(self, request: HttpRequest) -> Response:
        """The resolved configuration, and which scheduler runs."""
        config = server_config(self._settings)
        as_json = request.query_params.get("config_format") == "json"
        return json_response(
            {
                "vllm_config": config if as_json else str(config),
                "vllm_env": {
                    name: value for name, value in os.environ.items() if name.startswith("VLLM_")
                },
                "system_env": {},
                "miniature": {"label": LABEL, "scheduler": _scheduler_source()},
            }
        )

    async def reset_prefix_cache(self, _: HttpRequest) -> Response:
        """Forget every block; 200 either way, as vLLM's."""
        log_api.info("Resetting prefix cache...")
        return json_response({"success": await self._worker.call(self._reset)})

    def _reset(self) -> bool:
        cache = self._engine.scheduler.cache
        held = cache.count - cache.free
        if held:
            log_core.warning(
                "Failed to reset prefix cache because some blocks (%d) are not freed yet", held
            )
            return False
        cache.evict_idle()
        log_core.info("Successfully reset prefix cache")
        return True

    async def oracle(self, request: HttpRequest) -> Response:
        """The truth about a finished request; see `oracle.Truth`."""
        name = request.path_params["request"]
        truth = await self._worker.call(lambda: self._engine.truths.get(name))
        if truth is None:
            raise RefusedError(
                f"no finished request {name}", kind="NotFoundError", status=HTTPStatus.NOT_FOUND
            )
        return json_response({"label": LABEL, **asdict(truth)})


def server_config(settings: Settings) -> dict[str, object]:
    """The settings under vLLM's names for them; what has no meaning here is left out."""
    limits = settings.limits
    drafts = limits.num_speculative_tokens
    return {
        "model_config": {
            "model": settings.model,
            "tokenizer": str(settings.tokenizer or settings.model),
            "dtype": "torch.bfloat16",
            "seed": settings.seed,
            "max_model_len": limits.max_model_len,
            "max_logprobs": settings.max_logprobs,
            "served_model_name": settings.served_model_name,
        },
        "cache_config": {
            "block_size": limits.block_size,
            "enable_prefix_caching": limits.prefix_caching,
            "mamba_cache_mode": settings.mamba_cache_mode,
            "mamba_block_size": settings.mamba_block_size,
            "num_gpu_blocks": limits.num_blocks,
            "prefix_cache_retention_interval": settings.retention_interval,
        },
        "scheduler_config": {
            "max_num_batched_tokens": limits.max_num_batched_tokens,
            "max_num_seqs": limits.max_num_seqs,
            "enable_chunked_prefill": True,
        },
        "speculative_config": (
            {"method": "mtp", "num_speculative_tokens": drafts} if drafts else None
        ),
    }


def _scheduler_source() -> dict[str, str]:
    """Which scheduler this process runs; a patch is only tried where its file is the one named."""
    source = Path(scheduler.__file__)
    return {"path": str(source), "sha256": hashlib.sha256(source.read_bytes()).hexdigest()}


async def _refused(_: HttpRequest, error: Exception) -> Response:
    if not isinstance(error, RefusedError):
        raise error
    return json_response(error.body, error.status)


async def _not_found(_: HttpRequest, __: Exception) -> Response:
    status = HTTPStatus.NOT_FOUND
    return json_response(RefusedError("Not Found", kind=status.phrase, status=status).body, status)
