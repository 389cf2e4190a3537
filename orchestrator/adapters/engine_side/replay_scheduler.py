"""Replay requests through vLLM's own scheduler and cache manager: no model, no server, no GPU.

What vLLM's unit tests do: the real `Scheduler` over a hybrid model's cache groups, one request at
a time, with made-up sampled tokens. Who wrote a block or a state is followed by physical block
id, so nothing of it is a restatement. Works with v0.26 and later.

Called with the path of a question, answers on standard output.

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
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

Anything = Any
"""An object of vLLM, whose types are not known here."""

ATTENTION, RECURRENT = 0, 1
"""Cache groups whose blocks are followed."""

RECURRENT_GROUPS = 3
"""Groups of recurrent layers beside one of attention: Qwen3-Next has three in four."""

DRAFT_TOKENS = 2
"""As in the measured servers. How many changes no prefill."""

FIRST_SAMPLED = 1 << 40
"""Sampled tokens are numbered from here: no prompt holds them, so no prompt matches them."""

RETENTION_VARIABLE = "VLLM_PREFIX_CACHE_RETENTION_INTERVAL"
"""What releases before v0.29 have instead of a setting."""


class RefusedError(Exception):
    """This vLLM cannot be replayed; says why."""


def main() -> None:
    """Answer one question."""
    question = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
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
            # Drafts are no tokens of the request; v0.33 pads a chunk of one token with them.
            end = min(start + scheduled, request.num_tokens)
            step = {"request": index, "start": start, "end": end}
            found = found or self._found(request, start)
            saved = self.cell["prefix_caching"] and self._written(request, step)
            if start < len(prompt):
                chunks.append({"start": start, "end": end, "saves_state": saved})
            self._answer_step(request, output)
        return {**found, "chunks": chunks}

    def _found(self, request: Anything, cached: int) -> dict[str, Any]:
        restored = cached // self.cell["block_tokens"]
        ids = self.scheduler.kv_cache_manager.get_block_ids(request.request_id)
        try:
            blocks = [self.keys_and_values[block] for block in ids[ATTENTION][:restored]]
        except KeyError as error:  # seen with drafts in v0.22 to v0.25
            raise RefusedError("it restores a block that no request computed") from error
        return {
            "cached_tokens": cached,
            "junction": request.shared_prefix_boundary or None,
            "restored_blocks": blocks,
            "restored_state": self.states[ids[RECURRENT][restored - 1]] if restored else None,
        }

    def _written(self, request: Anything, step: dict[str, int]) -> bool:
        """Note who fills which physical block; whether the state at the end stays cached.

        The state after n tokens lies in the block of the n-th token: v1/worker/mamba_utils.py.
        """
        block, manager = self.cell["block_tokens"], self.scheduler.kv_cache_manager
        ids = manager.get_block_ids(request.request_id)
        last = (step["end"] - 1) // block
        for index in range(step["start"] // block, last + 1):
            if step["start"] <= index * block:
                self.keys_and_values[ids[ATTENTION][index]] = []
            self.keys_and_values[ids[ATTENTION][index]].append(step)
        self.states[ids[RECURRENT][last]] = step
        held = manager.get_blocks(request.request_id).blocks[RECURRENT]
        return step["end"] % block == 0 and held[last].block_hash is not None

    def _answer_step(self, request: Anything, output: Anything) -> None:
        """Play the model: one token where the prompt is done, every draft rejected."""
        name, tokens = request.request_id, []
        if request.num_computed_tokens >= request.num_tokens:
            self.sampled += 1
            tokens = [self.sampled]
        model_output = _made(
            _of("vllm.v1.outputs", "ModelRunnerOutput"),
            req_ids=[name],
            req_id_to_index={name: 0},
            sampled_token_ids=[tokens],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        self.scheduler.update_from_output(output, model_output)
        if tokens and self.cell["speculative"]:
            drafts = _of("vllm.v1.outputs", "DraftTokenIds")
            self.scheduler.update_draft_token_ids(drafts([name], [[FIRST_SAMPLED] * DRAFT_TOKENS]))


def _of(module: str, name: str) -> Anything:
    return getattr(importlib.import_module(module), name)


def _made(factory: Callable[..., Anything], *args: object, **given: object) -> Anything:
    """Call `factory` with those of `given` that this release's has a parameter for."""
    known = inspect.signature(factory).parameters
    return factory(*args, **{name: value for name, value in given.items() if name in known})


def _blocks_needed(cell: dict[str, Any]) -> int:
    """Enough that nothing is ever evicted."""
    spare = 4 + DRAFT_TOKENS
    each = [(len(p) + cell["max_tokens"]) // cell["block_tokens"] + spare for p in cell["requests"]]
    return 1 + (1 + RECURRENT_GROUPS) * int(sum(each))


def _vllm_config(cell: dict[str, Any], num_blocks: int) -> Anything:
    """The release's own configuration; model and drafter are stand-ins that need no files."""
    module = importlib.import_module("vllm.config")
    config = module.VllmConfig(device_config=module.DeviceConfig(device="cpu"))
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
    cache.mamba_cache_mode = _mode(cell)
    return config


def _drafter() -> SimpleNamespace:
    """MTP with one module, and every switch at its default."""
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


def _mode(cell: dict[str, Any]) -> str:
    return "align" if cell["prefix_caching"] else "none"


def _kv_cache_config(cell: dict[str, Any], num_blocks: int) -> Anything:
    interface = importlib.import_module("vllm.v1.kv_cache_interface")
    torch = importlib.import_module("torch")
    attention = interface.FullAttentionSpec(
        block_size=cell["block_tokens"], num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    recurrent = interface.MambaSpec(
        block_size=cell["block_tokens"],
        shapes=((1,),),
        dtypes=(torch.float32,),
        mamba_cache_mode=_mode(cell),
        num_speculative_blocks=DRAFT_TOKENS if cell["speculative"] else 0,
    )
    specs = [attention, *[recurrent] * RECURRENT_GROUPS]
    retention = cell["retention_tokens"]
    if "prefix_cache_retention_interval" not in {f.name for f in fields(interface.KVCacheConfig)}:
        os.environ.pop(RETENTION_VARIABLE, None)
        if retention is not None:
            os.environ[RETENTION_VARIABLE] = str(retention)
    return _made(
        interface.KVCacheConfig,
        num_blocks=num_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[
            interface.KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(specs)
        ],
        prefix_cache_retention_interval=retention,
    )


def _block_hasher(block: int, config: Anything) -> Callable[..., Anything]:
    utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
    sha256 = _of("vllm.utils.hashing", "sha256")
    utils.init_none_hash(sha256)
    hasher: Callable[..., Anything] = _made(
        utils.get_request_block_hasher,
        block,
        sha256,
        num_hash_lookahead_tokens=getattr(config, "num_hash_lookahead_tokens", 0),
    )
    return hasher


def _new_request(
    index: int, prompt: list[int], max_tokens: int, hasher: Callable[..., Anything]
) -> Anything:
    sampling = _of("vllm.sampling_params", "SamplingParams")
    return _made(
        _of("vllm.v1.request", "Request"),
        request_id=str(index),
        prompt_token_ids=prompt,
        sampling_params=sampling(max_tokens=max_tokens, ignore_eos=True, temperature=0.0),
        pooling_params=None,
        block_hasher=hasher,
    )


if __name__ == "__main__":
    main()
