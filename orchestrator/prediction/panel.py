"""Random questions to an engine's align-split function, and which rule gives its answers.

What an engine does is established by asking its own function, not by reading its version: a
patched copy keeps the version and changes the rule.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from orchestrator.model.prediction import Rule, SchedulerSettings, SplitCase
from orchestrator.prediction.splitting import chunk_end

BLOCKS = (1, 4, 16, 32, 48, 288, 1600)
"""Block sizes in tokens: small ones reach every corner, 288 and 1600 were measured on servers."""

PROMPT_BLOCKS = 12
"""The longest prompt, in blocks."""


@dataclass(frozen=True, slots=True)
class Restatement:
    """A rule of ours."""

    rule: Rule
    every_boundary: bool


def split_panel(count: int, *, seed: int) -> tuple[SplitCase, ...]:
    """Cases that hit boundaries, junctions and tight budgets far more often than traffic does."""
    generator = random.Random(seed)  # noqa: S311 - a panel, not a secret
    return tuple(_case(generator) for _ in range(count))


def answer(restatement: Restatement, case: SplitCase) -> int:
    """Tokens that a rule schedules in a case."""
    settings = SchedulerSettings(
        rule=restatement.rule,
        every_boundary=restatement.every_boundary,
        block_tokens=case.block_tokens,
        token_budget=case.token_budget,
        prefix_caching=True,
        speculative=case.speculative,
        retention_tokens=None,
    )
    handed = case.first or restatement.rule != "v0.24"  # see cells.py
    junction = case.junction if handed else None
    end = chunk_end(
        case.start, case.start + case.new_tokens, case.prompt_tokens, junction, settings
    )
    return end - case.start


def rules_giving(cases: Sequence[SplitCase], scheduled: Sequence[int]) -> tuple[Restatement, ...]:
    """Every rule that gives all of these answers, in the order of the releases.

    Several releases that differ elsewhere split alike; none at all means a scheduler that nobody
    here has read.
    """
    return tuple(
        restatement
        for restatement in _restatements()
        if all(
            answer(restatement, case) == tokens
            for case, tokens in zip(cases, scheduled, strict=True)
        )
    )


def _restatements() -> list[Restatement]:
    rules: tuple[Rule, ...] = get_args(Rule)
    patchable = [rule for rule in rules if rule not in ("v0.15", "v0.24")]
    return [
        *(Restatement(rule, every_boundary=False) for rule in rules),
        *(Restatement(rule, every_boundary=True) for rule in patchable),
    ]


def _case(generator: random.Random) -> SplitCase:
    block = generator.choice(BLOCKS)
    prompt = generator.randint(1, PROMPT_BLOCKS * block)
    anywhere, boundary = generator.randrange(prompt), generator.randrange(prompt) // block * block
    start = generator.choice((anywhere, boundary))
    tight, wide = generator.randint(1, 2 * block), generator.randint(block, 6 * block)
    budget = generator.choice((tight, wide, 20 * block))
    most = min(prompt - start, budget)
    some = generator.randint(1, most)
    shared = generator.randint(1, prompt)
    return SplitCase(
        block_tokens=block,
        token_budget=budget,
        speculative=generator.choice((True, False)),
        prompt_tokens=prompt,
        start=start,
        new_tokens=generator.choice((most, most, some)),
        junction=generator.choice((None, shared, shared // block * block or None)),
        first=generator.choice((True, False)),
    )
