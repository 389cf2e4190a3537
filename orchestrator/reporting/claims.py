"""What a comment claims of each arm, and what it does not claim. Sentences only."""

from collections.abc import Iterator, Sequence

from orchestrator.model.experiment import CellKind
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import ArmVerdict, Attribution, CellVerdict, RunVerdict
from orchestrator.reporting.rows import differences

_SEQUENCES: dict[CellKind, str] = {
    "reference": "B alone",
    "contaminated": "A, then B",
    "reversed": "B, A, then B",
    "primed": "the document, A, then B",
    "suite": "every item, run after run",
}


_ATTRIBUTED: dict[Attribution, str] = {
    "contamination": (
        "{} attributed to another request's cache: the references agree, and with caching off all"
        " answers are equal"
    ),
    "nondeterministic": "{} nondeterministic: answers differ within one hit state",
    "first-request": "{} due to the start's very first request: only that one differs",
    "unattributed": "{} attributed to nothing",
}
"""What stands behind each word; said only where the word was given (rules 4 and 5)."""


def setup(arm: ArmVerdict) -> str:
    """What is particular about an arm, in a few words."""
    at_once = max((cell.concurrency for cell in arm.cells), default=1)
    said = [_SEQUENCES[arm.cell] if at_once == 1 else f"{at_once} copies of B at once"]
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
    asked = "an item's question" if arm.cell == "suite" else "B"
    if arm.verdict == "inconclusive":
        return f"inconclusive in {arm.inconclusive} of {total} cells: {arm.reason}."
    if arm.verdict == "stable":
        return f"no answer to {asked} differs from another or from its reference, in {total} cells."
    if arm.verdict == "batch-equal":
        return f"no answer depends on the requests that were sent with it, in {total} cells."
    if arm.verdict == "batch-dependent":
        return (
            f"answers depend on the requests that were sent with them in {arm.batch_dependent} of"
            f" {total} cells; that says nothing about the cache."
        )
    return (
        f"answers to {asked} differ from each other or from their reference in {arm.diverged} of"
        f" {total} cells. Of these, {'; '.join(_attributed(arm.cells))}."
    )


def _attributed(cells: Sequence[CellVerdict]) -> Iterator[str]:
    """Each word that was given, counted; of what is unattributed, why the first cell is."""
    for word, said in _ATTRIBUTED.items():
        given = [cell for cell in cells if cell.attribution == word]
        if given:
            why = f" ({given[0].reason})" if word == "unattributed" else ""
            yield said.format(f"{len(given)} {'is' if len(given) == 1 else 'are'}") + why


def limits(plan: Plan, verdict: RunVerdict) -> Iterator[str]:
    """What the comment does not claim; what was not measured is `verdict.not_covered`."""
    yield (
        f"that anything but {plan.engine} on this machine, with this model and these flags,"
        " is affected or is not"
    )
    yield (
        "which operation gives the first number that differs: the server was looked at from outside"
    )
    if any(arm.stable for arm in verdict.arms):
        yield (
            "that a stable cell's cached states are equal: nothing differs in the"
            f" top {plan.top_logprobs} of {plan.max_tokens} generated tokens, no more"
        )
    found = [difference for _, _, difference in differences(verdict)]
    equal = sum(difference.text_equal for difference in found)
    if equal:
        often = "" if equal == len(found) else " always"
        yield (
            f"that the visible text{often} changes: it is equal in {equal} of the {len(found)}"
            " pairs of answers that differ"
        )
    if any(arm.patch is not None for arm in verdict.arms):
        yield (
            "that the patch is right, whole, or fit to be merged; or that its price is the same"
            " for another model, length or machine"
        )
