"""How a run was made, in sentences: what was sent, how, and what the words of its table mean.

Read from the plan and the verdict, so that nothing is said to have been sent, left out or predicted
that was not.
"""

from collections.abc import Iterator

from orchestrator.model.plan import ArmPlan, Plan
from orchestrator.model.suite import SuitePlan
from orchestrator.model.verdict import RunVerdict


def method(plan: Plan) -> Iterator[str]:
    """One sentence, or a few that belong together, a line."""
    yield f"One fresh server start an arm; {_sending(plan)}; greedy."
    yield _suite_sizes(plan, plan.suite) if plan.suite is not None else _pair_sizes(plan)
    yield _salts(plan)


def words(verdict: RunVerdict) -> Iterator[str]:
    """What each word of the table says; only the words that could be said of this run."""
    cells = [cell for arm in verdict.arms for cell in arm.cells]
    asked = "an item's runs" if any(cell.kind == "suite" for cell in cells) else "repeats of B"
    lone = [cell for cell in cells if cell.concurrency == 1]
    if lone:
        gates = any(p.predicted_cached_tokens is not None for cell in lone for p in cell.probes)
        yield (
            f"`diverged`: {asked} differ from each other, or from the reference. `stable`:"
            f" neither{', with cached tokens as predicted' if gates else ''}."
        )
    if len(lone) < len(cells):
        yield (
            "`batch-dependent`: an answer differs from the lone ones of the same start."
            " `batch-equal`: none does, and the engine did compute requests together."
        )


def _sending(plan: Plan) -> str:
    at_once = {arm.name: _most_at_once(arm) for arm in plan.arms}
    together = [f"{count} in {name}" for name, count in at_once.items() if count > 1]
    if not together:
        return "one request at a time"
    return f"measured requests at once ({', '.join(together)}) and all others one at a time"


def _most_at_once(arm: ArmPlan) -> int:
    """An arm of cold requests alone has no cells."""
    return max((cell.concurrency for cell in arm.cells), default=1)


def _pair_sizes(plan: Plan) -> str:
    roles = {probe.role for arm in plan.arms for cell in arm.cells for probe in cell.probes}
    pair = (
        f"A and B share the first {plan.shared_tokens} tokens of a document; A has"
        f" {', '.join(map(str, plan.a_tokens))} tokens, B {plan.b_tokens}"
        if "a" in roles
        else f"B has {plan.b_tokens} tokens; no other request was sent before it under its salt"
    )
    volleys = any(cell.concurrency > 1 for arm in plan.arms for cell in arm.cells)
    return (
        f"{pair}; a cache block has {plan.block_size_tokens}; {len(plan.documents) - 1} documents,"
        f" {plan.max_tokens} generated tokens each, {plan.repeats} repeats of B in a measured cell"
        f"{' (of volleys, where requests are sent at once)' if volleys else ''}."
    )


def _suite_sizes(plan: Plan, suite: SuitePlan) -> str:
    schemas = "enforced by the server" if suite.structured_output else "part of the prompt only"
    graded = (
        "" if suite.model_trained else "; random weights, so no answer is called right or wrong"
    )
    return (
        f"{len(suite.items)} items over {len(plan.documents) - 1} documents were asked"
        f" {suite.runs} times each; at most {plan.max_tokens} tokens were generated; response"
        f" schemas {schemas}; a cache block has {plan.block_size_tokens} tokens{graded}. A cell is"
        " an item, and B its question."
    )


def _salts(plan: Plan) -> str:
    sharing = [arm.name for arm in plan.arms if any(cell.shares_salt for cell in arm.cells)]
    salts = (
        f"Items of one document share a `cache_salt` in {', '.join(sharing)}; every other cell has"
        " one of its own."
        if sharing
        else "Every cell has a `cache_salt` of its own."
    )
    places = {cell.place for arm in plan.arms for cell in arm.cells}
    if not {"before", "after"} <= places:
        return f"{salts} Not every measured cell has reference cells before and after it."
    alone = "the item alone" if plan.suite is not None else "B alone"
    return (
        f"{salts} Reference cells ({alone}, sent {_times(plan.reference_repeats)}) stand before and"
        " after the measured ones on the same start."
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
