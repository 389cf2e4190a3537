"""A vLLM version → the scheduler's rule that it follows, and what sets the rules apart."""

import re

from orchestrator.model.prediction import Rule, SchedulerSettings

_SINCE: tuple[tuple[int, Rule], ...] = (
    (33, "v0.33"),
    (32, "v0.32"),
    (30, "v0.30"),
    (27, "v0.27"),
    (26, "v0.26"),
    (24, "v0.24"),
    (15, "v0.15"),
)
"""First minor release of each rule, the newest first."""

_NEWEST_READ = 33
"""A later release may follow another rule; nothing is predicted for it."""

_FIRST_COVERED_WITH_DRAFTS = 26
"""Before it, a lookup with drafts could restore a state one block beyond the keys and values that
it restored (v0.20 to v0.25); nothing here describes that."""

_FIRST_SPARSE = 29
"""`--prefix-cache-retention-interval` exists since this release; an environment variable, unset by
default, was there before. In this release alone drafts make the default dense."""


def rule_of(version: str, *, speculative: bool = False) -> Rule | None:
    """The rule of a release; `None` where no rule of ours was checked against its source.

    A build between releases (`0.1.dev20073+g8e685d198`) says nothing about its source.

    Args:
        version: As vLLM states it, such as `0.29.0` or `0.29.0+cpu`.
        speculative: Whether the server drafts tokens.
    """
    minor = _minor(version)
    if minor is None or minor > _NEWEST_READ:
        return None
    if speculative and minor < _FIRST_COVERED_WITH_DRAFTS:
        return None
    return next((rule for since, rule in _SINCE if minor >= since), None)


def default_retention(version: str, *, speculative: bool) -> int | None:
    """What `SchedulerSettings.retention_tokens` is where nobody sets it.

    Source: `EngineArgs.create_engine_config` (v0.29), `CacheConfig` (v0.30 and later),
    `envs.VLLM_PREFIX_CACHE_RETENTION_INTERVAL` (before).

    Args:
        version: One that `rule_of` knows.
        speculative: Whether the server drafts tokens.
    """
    minor = _minor(version)
    if minor is None or minor < _FIRST_SPARSE or (minor == _FIRST_SPARSE and speculative):
        return None
    return 0


def drops_last_block(settings: SchedulerSettings) -> bool:
    """Whether a hit gives its last block back.

    The drafter's keys and values at a block's last position depend on the token after it, which
    the block's hash does not cover before v0.33.
    """
    return settings.speculative and settings.rule != "v0.33"


def lookahead_tokens(settings: SchedulerSettings) -> int:
    """Tokens after a block that its hash covers; a module of MTP reads one ahead."""
    return 1 if settings.speculative and settings.rule == "v0.33" else 0


def _minor(version: str) -> int | None:
    match = re.fullmatch(r"0\.(\d+)\.\d+(\.post\d+)?(\+\w+)?", version)
    return None if match is None else int(match[1])
