"""The command line: those of vLLM's flags that launch profiles use, and two of its own.

A flag that is not here is an error with exit code 2, as it is with vLLM.
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .scheduler import Limits

_BLOCKS = 8192
"""Of the pool by default: 262,144 tokens at a block of 32, about what vLLM for CPU has with a
gigabyte. Memory is taken when a block is used: 33 KB for keys and values, 197 KB for a state."""

_DEFAULTS: dict[str, Any] = {
    "host": "127.0.0.1",
    "port": 8000,
    "model": "miniature",
    "served_model_name": None,
    "tokenizer": None,
    "max_model_len": 8192,
    "block_size": 16,
    "enable_prefix_caching": True,
    "enable_prompt_tokens_details": False,
    "max_logprobs": 20,
    "max_num_batched_tokens": 2048,
    "num_gpu_blocks_override": None,
    "speculative_config": None,
    "seed": 0,
}
"""vLLM's for a CPU, except for the host: a miniature is not for others to reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A server's configuration, resolved."""

    host: str
    port: int
    model: str
    """Reported, never read: the weights are made from `seed`."""

    served_model_name: str
    tokenizer: Path | None
    """A `tokenizer.json`. Without one, prompts are token ids."""

    max_logprobs: int
    prompt_tokens_details: bool
    seed: int
    limits: Limits
    given: Mapping[str, object]
    """What the command line said, for the log."""

    development: bool
    """VLLM_SERVER_DEV_MODE: /server_info, /reset_prefix_cache and the oracle are served."""

    @property
    def mamba_cache_mode(self) -> str:
        """In vLLM's word."""
        return "align" if self.limits.prefix_caching else "none"

    @property
    def mamba_block_size(self) -> int:
        """In tokens; with caching off the whole context, as vLLM reports it."""
        return self.limits.block_size if self.limits.prefix_caching else self.limits.max_model_len

    @property
    def retention_interval(self) -> int | None:
        """Which states are kept: None is every one, 0 only those that a repetition finds."""
        return None if self.limits.num_speculative_tokens else 0

    @property
    def max_concurrency(self) -> float:
        """Requests of the greatest length that fit into the pool together."""
        limits = self.limits
        states = 1 + limits.num_speculative_tokens
        needed = -(-limits.max_model_len // limits.block_size) + states
        return limits.num_blocks / needed

    @property
    def cache_size_tokens(self) -> int:
        """The pool in tokens, as vLLM states it: at the greatest length, states included."""
        return int(self.max_concurrency * self.limits.max_model_len)


def read_settings(argv: Sequence[str]) -> Settings:
    """Parse a command line; exits with 2 when it is wrong."""
    given = vars(_parser().parse_args(argv))
    value = {**_DEFAULTS, **given}
    speculation = value["speculative_config"]
    return Settings(
        host=value["host"],
        port=value["port"],
        model=value["model"],
        served_model_name=value["served_model_name"] or value["model"],
        tokenizer=value["tokenizer"],
        max_logprobs=value["max_logprobs"],
        prompt_tokens_details=value["enable_prompt_tokens_details"],
        seed=value["seed"],
        limits=Limits(
            block_size=value["block_size"],
            max_num_batched_tokens=value["max_num_batched_tokens"],
            max_model_len=value["max_model_len"],
            prefix_caching=value["enable_prefix_caching"],
            num_speculative_tokens=speculation["num_speculative_tokens"] if speculation else 0,
            num_blocks=value["num_gpu_blocks_override"] or _BLOCKS,
        ),
        given=given,
        development=os.environ.get("VLLM_SERVER_DEV_MODE") == "1",
    )


def _parser() -> argparse.ArgumentParser:
    """Without defaults, so that what was given can be told from what was not."""
    parser = argparse.ArgumentParser(
        prog="miniature.py", allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    flag = parser.add_argument
    flag("--host")
    flag("--port", type=int)
    flag("--model")
    flag("--served-model-name")
    flag("--tokenizer", type=Path)
    flag("--max-model-len", type=_positive)
    flag("--block-size", type=_positive)
    flag("--enable-prefix-caching", action=argparse.BooleanOptionalAction)
    flag("--enable-prompt-tokens-details", action="store_true")
    flag("--max-logprobs", type=int)
    flag("--max-num-batched-tokens", type=_positive)
    flag("--num-gpu-blocks-override", type=_positive)
    flag("--speculative-config", type=_speculation)
    flag("--seed", type=int)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{value} is not above 0")
    return value


def _speculation(text: str) -> dict[str, object]:
    """Read `{"method": "mtp", "num_speculative_tokens": N}`."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"no JSON: {error}") from error
    if not isinstance(value, dict) or set(value) != {"method", "num_speculative_tokens"}:
        raise argparse.ArgumentTypeError("wants the keys method and num_speculative_tokens")
    count = value["num_speculative_tokens"]
    if value["method"] != "mtp" or not isinstance(count, int) or count <= 0:
        raise argparse.ArgumentTypeError("wants the method mtp and at least one token")
    return value
