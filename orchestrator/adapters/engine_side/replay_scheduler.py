"""Replay requests through vLLM's own scheduler and cache manager: no model, no server, no GPU.

What vLLM's unit tests do: the real `Scheduler` over a hybrid model's cache groups, one request at
a time, with made-up sampled tokens. Who wrote a block or a state is followed by physical block
id, so nothing of it is a restatement.

Asks:    {"cells": [{"block_tokens", "token_budget", "prefix_caching", "speculative",
                     "retention_tokens", "max_tokens", "requests": [[token id, …], …]}, …]}
Answers: {"version", "cells": [[{"cached_tokens", "junction", "chunks", "restored_blocks",
                                 "restored_state"}, …], …]}
         or {"refused": why}
"""

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any, TextIO

RECURRENT_GROUPS = 3
"""Cache groups of recurrent layers beside one of attention: Qwen3-Next has three in four."""

DRAFT_TOKENS = 2
"""As in the measured servers. How many changes no prefill."""

FIRST_SAMPLED = 1 << 40
"""Sampled tokens are numbered from here: no prompt holds them, so no prompt matches them."""


class RefusedError(Exception):
    """This vLLM cannot be replayed; says why."""


def main() -> None:
    """Answer one question."""
    question = json.load(sys.stdin)
    with _answer_alone_on_stdout() as out:
        try:
            answer = _replay(question)
        except (RefusedError, ImportError, AttributeError, TypeError) as error:
            # An attribute or a parameter that a release renamed must end in a sentence.
            answer = {"refused": f"this vLLM's scheduler cannot be replayed: {error}"}
        json.dump(answer, out)


@contextmanager
def _answer_alone_on_stdout() -> Iterator[TextIO]:
    """Hand out standard output, and send what vLLM logs there to standard error."""
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        yield out


def _replay(question: dict[str, Any]) -> dict[str, Any]:
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"  # else the choice looks into the model's files
    vllm = importlib.import_module("vllm")
    return {
        "version": vllm.__version__,
        "cells": [_Replay(cell).requests() for cell in question["cells"]],
    }


def _blocks_needed(cell: dict[str, Any]) -> int:
    """Enough that nothing is ever evicted."""
    block, groups = cell["block_tokens"], 1 + RECURRENT_GROUPS
    spare = 4 + DRAFT_TOKENS
    return 1 + groups * sum(
        (len(p) + cell["max_tokens"]) // block + spare for p in cell["requests"]
    )


def _of(module: str, name: str) -> Any:  # noqa: ANN401 - whatever that release calls so
    return getattr(importlib.import_module(module), name)


def _accepted(factory: Callable[..., Any], **given: object) -> dict[str, object]:
    """Those of `given` that this release's `factory` takes."""
    return {k: v for k, v in given.items() if k in inspect.signature(factory).parameters}


@dataclass
class _Replay:
    """One cell in a fresh scheduler."""

    cell: dict[str, Any]
    sampled: int = FIRST_SAMPLED

    keys_and_values: dict[int, list[dict[str, int]]] = field(default_factory=dict)
    """By physical block of the attention group: who computed its present content."""

    states: dict[int, dict[str, int]] = field(default_factory=dict)
    """By physical block of the first recurrent group: the step whose end it holds."""

    def __post_init__(self) -> None:
        blocks = _blocks_needed(self.cell)
        if self.cell["retention_tokens"] is not None:
            # Releases before v0.29 know only this variable.
            retention = str(self.cell["retention_tokens"])
            os.environ["VLLM_PREFIX_CACHE_RETENTION_INTERVAL"] = retention
        else:
            os.environ.pop("VLLM_PREFIX_CACHE_RETENTION_INTERVAL", None)
        config = _vllm_config(self.cell, blocks)
        self.scheduler = _of("vllm.v1.core.sched.scheduler", "Scheduler")(
            vllm_config=config,
            kv_cache_config=_kv_cache_config(self.cell, blocks),
            structured_output_manager=SimpleNamespace(
                should_advance=lambda *_, **__: False,
                accept_tokens=lambda *_, **__: True,
                validate_tokens=lambda _, drafts: drafts,
            ),
            block_size=self.cell["block_tokens"],
            hash_block_size=self.cell["block_tokens"],
        )
        self.hasher = _block_hasher(self.cell["block_tokens"], config)

    def requests(self) -> list[dict[str, Any]]:
        """Every request of the cell, one after the other."""
        return [self._request(i, prompt) for i, prompt in enumerate(self.cell["requests"])]

    def _request(self, index: int, prompt: list[int]) -> dict[str, Any]:
        request = _new_request(index, prompt, self.cell["max_tokens"], self.hasher)
        self.scheduler.add_request(request)
        chunks: list[dict[str, Any]] = []
        found: dict[str, Any] = {}
        while self.scheduler.has_unfinished_requests():
            output = self.scheduler.schedule()
            scheduled = output.num_scheduled_tokens.get(request.request_id)
            if scheduled is None:
                raise RefusedError(f"request {index} of {len(prompt)} tokens is never scheduled")
            start = request.num_computed_tokens - scheduled
            if not found:
                found = self._found(request, start)
            # Drafts are no tokens of the request yet; v0.33 schedules some with a last prompt token.
            end = min(start + scheduled, request.num_tokens)
            step = {"request": index, "start": start, "end": end}
            saved = self._written(request, step)
            if start < len(prompt):
                chunks.append({"start": start, "end": end, "saves_state": saved})
            self._answer_step(request, output)
        return {**found, "chunks": chunks}

    def _found(self, request: Any, cached: int) -> dict[str, Any]:  # noqa: ANN401
        restored = cached // self.cell["block_tokens"]
        attention, recurrent, *_ = self.scheduler.kv_cache_manager.get_block_ids(request.request_id)
        return {
            "cached_tokens": cached,
            "junction": request.shared_prefix_boundary or None,
            "restored_blocks": [self.keys_and_values[block] for block in attention[:restored]],
            "restored_state": self.states[recurrent[restored - 1]] if restored else None,
        }

    def _written(self, request: Any, step: dict[str, int]) -> bool:  # noqa: ANN401
        """Note who fills which physical block; whether the state at the end stays cached.

        A recurrent state after n tokens lies in the block of the n-th token
        (`mamba_utils.preprocess_mamba`, v1/worker).
        """
        block = self.cell["block_tokens"]
        manager = self.scheduler.kv_cache_manager
        attention, recurrent, *_ = manager.get_block_ids(request.request_id)
        for index in range(step["start"] // block, -(-step["end"] // block)):
            if step["start"] <= index * block:
                self.keys_and_values[attention[index]] = []
            self.keys_and_values[attention[index]].append(step)
        index = (step["end"] - 1) // block
        self.states[recurrent[index]] = step
        held = manager.coordinator.single_type_managers[1].req_to_blocks[request.request_id]
        return step["end"] % block == 0 and held[index].block_hash is not None

    def _answer_step(self, request: Any, output: Any) -> None:  # noqa: ANN401
        """Play the model: one token where the prompt is done, every draft rejected."""
        request_id = request.request_id
        tokens: list[int] = []
        if request.num_computed_tokens >= request.num_tokens:
            self.sampled += 1
            tokens = [self.sampled]
        model_output = _of("vllm.v1.outputs", "ModelRunnerOutput")
        self.scheduler.update_from_output(
            output,
            model_output(
                **_accepted(
                    model_output,
                    req_ids=[request_id],
                    req_id_to_index={request_id: 0},
                    sampled_token_ids=[tokens],
                    logprobs=None,
                    prompt_logprobs_dict={},
                    pooler_output=[],
                )
            ),
        )
        if tokens and self.cell["speculative"]:
            drafts = _of("vllm.v1.outputs", "DraftTokenIds")
            self.scheduler.update_draft_token_ids(
                drafts([request_id], [[FIRST_SAMPLED] * DRAFT_TOKENS])
            )


def _vllm_config(cell: dict[str, Any], num_blocks: int) -> Any:  # noqa: ANN401
    """The release's own configuration; model and drafter are stand-ins that need no files."""
    config_of = importlib.import_module("vllm.config")
    config = config_of.VllmConfig(device_config=config_of.DeviceConfig(device="cpu"))
    config.model_config = SimpleNamespace(
        max_model_len=num_blocks * cell["block_tokens"],
        runner_type="generate",
        uses_mrope=False,
        uses_xdrope=False,
        is_diffusion=False,
        is_encoder_decoder=False,
        is_multimodal_model=False,
        multimodal_config=None,
        supports_multimodal_inputs=False,
        enable_return_routed_experts=False,
        return_sampling_mask=False,
    )
    if cell["speculative"]:
        config.speculative_config = _drafter()
    scheduler, cache = config.scheduler_config, config.cache_config
    scheduler.max_num_batched_tokens = cell["token_budget"]
    scheduler.max_num_scheduled_tokens = cell["token_budget"]
    scheduler.enable_chunked_prefill = True
    cache.block_size = cell["block_tokens"]
    cache.num_gpu_blocks = num_blocks
    cache.enable_prefix_caching = cell["prefix_caching"]
    cache.mamba_cache_mode = "align" if cell["prefix_caching"] else "none"
    return config


def _drafter() -> SimpleNamespace:
    return SimpleNamespace(
        method="mtp",
        num_speculative_tokens=DRAFT_TOKENS,
        num_speculative_tokens_per_batch_size=None,
        max_num_new_slots_for_drafting=0,
        disable_eagle_block_drop=False,
        disable_lookahead_block_hashes=False,
        use_eagle=lambda: True,
        use_eagle_block_drop=lambda: True,
        needs_eagle_block_drop=lambda: True,
        use_dflash=lambda: False,
        use_dspark=lambda: False,
        uses_draft_model=lambda: False,
        use_multi_module_mtp=lambda: False,
    )


def _kv_cache_config(cell: dict[str, Any], num_blocks: int) -> Any:  # noqa: ANN401
    interface = importlib.import_module("vllm.v1.kv_cache_interface")
    torch = importlib.import_module("torch")
    block = cell["block_tokens"]
    attention = interface.FullAttentionSpec(
        block_size=block, num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    recurrent = interface.MambaSpec(
        block_size=block,
        shapes=((1,),),
        dtypes=(torch.float32,),
        mamba_cache_mode="align" if cell["prefix_caching"] else "none",
        num_speculative_blocks=DRAFT_TOKENS if cell["speculative"] else 0,
    )
    specs = [attention, *[recurrent] * RECURRENT_GROUPS]
    group = interface.KVCacheGroupSpec
    known = {f.name for f in fields(interface.KVCacheConfig)}
    retention = {"prefix_cache_retention_interval": cell["retention_tokens"]}
    return interface.KVCacheConfig(
        num_blocks=num_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[group([f"layer{i}"], spec) for i, spec in enumerate(specs)],
        **{name: value for name, value in retention.items() if name in known},
    )


def _block_hasher(block: int, config: Any) -> Callable[..., Any]:  # noqa: ANN401
    utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
    sha256 = _of("vllm.utils.hashing", "sha256")
    utils.init_none_hash(sha256)
    hasher = utils.get_request_block_hasher
    made: Callable[..., Any] = hasher(
        block,
        sha256,
        **_accepted(
            hasher, num_hash_lookahead_tokens=getattr(config, "num_hash_lookahead_tokens", 0)
        ),
    )
    return made


def _new_request(index: int, prompt: list[int], max_tokens: int, hasher: Callable[..., Any]) -> Any:  # noqa: ANN401
    request = _of("vllm.v1.request", "Request")
    sampling = _of("vllm.sampling_params", "SamplingParams")
    return request(
        **_accepted(
            request,
            request_id=str(index),
            prompt_token_ids=prompt,
            sampling_params=sampling(max_tokens=max_tokens, ignore_eos=True, temperature=0.0),
            pooling_params=None,
            block_hasher=hasher,
        )
    )


if __name__ == "__main__":
    main()
