"""Random cells: documents shared to any depth, sent again, cut, and gone on with."""

import random

from orchestrator.adapters.scheduler_source import CellQuestion
from orchestrator.model.prediction import Rule, SchedulerSettings

OWN = 10**6
"""Token ids from here on belong to one prompt only."""


def random_cells(count: int, *, seed: int, rule: Rule, every_boundary: bool) -> list[CellQuestion]:
    """Cells of two to five requests, with every setting drawn anew."""
    generator = random.Random(seed)  # noqa: S311 - a panel, not a secret
    return [_cell(generator, rule, every_boundary=every_boundary) for _ in range(count)]


def _cell(generator: random.Random, rule: Rule, *, every_boundary: bool) -> CellQuestion:
    """One cell; small blocks, so that short prompts cross many boundaries."""
    block = generator.choice((8, 16, 32, 48))
    # v0.26 never finishes a prompt whose block is wider than the budget.
    blocks_of_budget = generator.choice((1, 1.3, 2.5, 4, 40, 1 if rule == "v0.26" else 0.6))
    retained_blocks = generator.choice((None, None, 0, 0, 1, 2, 3))
    settings = SchedulerSettings(
        rule=rule,
        every_boundary=every_boundary,
        block_tokens=block,
        token_budget=int(blocks_of_budget * block),
        prefix_caching=generator.choice((True, True, True, False)),
        speculative=generator.choice((True, False)),
        retention_tokens=None if retained_blocks is None else retained_blocks * block,
    )
    document = [generator.randrange(1000) for _ in range(9 * block)]
    prompts: list[list[int]] = []
    for _ in range(generator.randint(2, 5)):
        prompts.append(_prompt(generator, document, prompts, block))
    return CellQuestion(
        settings=settings, requests=prompts, max_tokens=generator.choice((1, 2, 8, 20, 60))
    )


def _prompt(
    generator: random.Random, document: list[int], earlier: list[list[int]], block: int
) -> list[int]:
    """One prompt that relates to those before it as requests do."""
    kind = generator.choice(("again", "again", "new", "new", "new", "whole blocks", "longer"))
    if earlier and kind == "again":
        return generator.choice(earlier)
    own = [OWN + generator.randrange(OWN) for _ in range(generator.randint(1, 3 * block))]
    if earlier and kind == "longer":
        return [*generator.choice(earlier), *own]
    prompt = [*document[: generator.randint(0, 8 * block)], *own]
    if kind == "whole blocks":
        prompt = prompt[: max(len(prompt) // block * block, 1)]
    return prompt
