"""What a comment claims of each arm, and what it does not claim. Sentences only."""

from collections.abc import Iterator

from orchestrator.model.experiment import CellKind
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import ArmVerdict, RunVerdict
from orchestrator.reporting.rows import differences

_SEQUENCES: dict[CellKind, str] = {
    "reference": "B alone",
    "contaminated": "A, then B",
    "reversed": "B, A, then B",
    "primed": "the document, A, then B",
    "suite": "every item, run after run",
}


def setup(arm: ArmVerdict) -> str:
    """What is particular about an arm, in a few words."""
    said = [_SEQUENCES[arm.cell]]
    if arm.prefix_caching == "off":
        said.append("prefix caching off")
    if arm.speculation == "off":
        said.append("no speculation")
    if arm.patch is not None:
        said.append(f"patch {arm.patch}")
    return ", ".join(said)


def claims(verdict: RunVerdict) -> Iterator[str]:
    """One sentence an arm, counted and not generalised."""
    for arm in verdict.arms:
        yield f"{arm.arm} ({setup(arm)}): {_claim(arm)}"


def _claim(arm: ArmVerdict) -> str:
    total = len(arm.cells)
    if arm.verdict == "inconclusive":
        return f"inconclusive in {arm.inconclusive} of {total} cells: {arm.reason}."
    if arm.verdict == "stable":
        return f"no answer to B differs from another or from its reference, in {total} cells."
    if arm.verdict == "batch-equal":
        return f"no answer depends on the requests that were sent with it, in {total} cells."
    if arm.verdict == "batch-dependent":
        return (
            f"answers depend on the requests that were sent with them in {arm.batch_dependent} of"
            f" {total} cells; that says nothing about the cache."
        )
    attributed = sum(cell.attribution == "contamination" for cell in arm.cells)
    return (
        f"answers to B differ from each other or from their reference in {arm.diverged} of"
        f" {total} cells; {attributed} of these are attributed to another request's cache: the"
        " references agree, and with caching off all answers are equal."
    )


def limits(plan: Plan, verdict: RunVerdict) -> Iterator[str]:
    """What the comment does not claim; what was not measured is `verdict.not_covered`."""
    yield (
        f"that anything but {plan.engine} on this machine, with this model and these flags,"
        " is affected or is not"
    )
    yield (
        "which operation gives the first number that differs: the server was looked at from outside"
    )
    yield (
        "that a stable cell's cached states are equal: nothing differs in the"
        f" top {plan.top_logprobs} of {plan.max_tokens} generated tokens, no more"
    )
    found = [difference for _, _, difference in differences(verdict)]
    if found:
        equal = sum(difference.text_equal for difference in found)
        yield (
            f"that the visible text changes: it is equal in {equal} of the {len(found)} pairs"
            " of answers that differ"
        )
    if any(arm.patch is not None for arm in verdict.arms):
        yield (
            "that the patch is right, whole, or fit to be merged; or that its price is the same"
            " for another model, length or machine"
        )
