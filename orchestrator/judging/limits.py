"""What nobody may read into a verdict (rule 16)."""

from collections.abc import Sequence

from orchestrator.model.plan import CellPlan, Plan
from orchestrator.model.resumption import Resumption
from orchestrator.model.verdict import ArmVerdict


def not_covered(
    plan: Plan, arms: Sequence[ArmVerdict], resumption: Resumption | None
) -> tuple[str, ...]:
    """What nobody may read into the verdict (16)."""
    starts = "two" if any(arm.of_arm is not None for arm in plan.arms) else "one"
    said = [
        f"Candidates beyond the top {plan.top_logprobs}: equal answers can come of unequal states.",
        _other_starts(plan, starts),
        _concurrency(plan),
        _drafts(plan, arms),
    ]
    if plan.throughput is not None:
        said.append(
            "Speed under load, or from the cache: cold requests were sent one at a time."
            " An interval covers chance among them, not among starts."
        )
    if all(arm.patch is None for arm in arms):
        said.append("The cause: no patched and no sham-patched arm ran.")
    if "not vLLM" in plan.engine:
        said.insert(0, f"vLLM: what answered is {plan.engine}.")
    if plan.suite is not None and not plan.suite.model_trained:
        said.append(
            "Quality: the profile does not say that the model is trained. Answers are compared with"
            " each other, and never scored."
        )
    documents, lengths = len(plan.documents) - 1, len(plan.a_tokens)
    serial = any(cell.place == "measured" and cell.concurrency == 1 for cell in _cells(plan))
    if serial and lengths and (documents < _PANEL_DOCUMENTS or lengths < _PANEL_LENGTHS):
        said.append(
            f"A panel: {documents} documents × {lengths} lengths of A were measured; a negative"
            f" needs {_PANEL_DOCUMENTS} × {_PANEL_LENGTHS}."
        )
    if any(arm.prefix_caching == "off" for arm in arms):
        said.append(
            "Absolute digests between arms: turning caching off also turns the Mamba cache mode"
            " off, so another numeric path runs."
        )
    if not any(cell.place != "measured" for arm in plan.arms for cell in arm.cells):
        said.append("Equality with a reference: the experiment leaves the reference cells out.")
    if resumption is not None and resumption.kept:
        kept = ", ".join(f"{arm.arm} ({arm.made_at:%Y-%m-%d %H:%M} UTC)" for arm in resumption.kept)
        said.append(
            f"Times between arms: the run was resumed; {kept} ran in an earlier sitting, and a"
            " price holds only among arms of one."
        )
    return tuple(said)


_PANEL_DOCUMENTS, _PANEL_LENGTHS = 6, 3
"""Rule 8: on one real engine 3 of 14 documents did not show the effect at one length of A."""


def _cells(plan: Plan) -> list[CellPlan]:
    return [cell for arm in plan.arms for cell in arm.cells]


def _other_starts(plan: Plan, starts: str) -> str:
    if plan.suite is None:
        return (
            f"Other starts: each arm ran on {starts}, and digests of two starts are not set side by"
            " side."
        )
    return (
        "Other starts: each arm ran on one. Digests of two are set side by side only where their"
        " references are bit-identical."
    )


def _concurrency(plan: Plan) -> str:
    most = max((cell.concurrency for cell in _cells(plan)), default=1)
    if most == 1:
        return "Concurrent requests: everything was sent one at a time."
    return (
        f"Other company: volleys were of copies of one request, {most} at most, and who shared a"
        " step with whom was the scheduler's choice."
    )


def _drafts(plan: Plan, arms: Sequence[ArmVerdict]) -> str:
    if plan.speculative_tokens == 0:
        return "Speculation: the profile has none."
    probes = [probe for arm in arms for cell in arm.cells for probe in cell.probes]
    drafted = [probe.draft_tokens_delta for probe in probes]
    accepted = [probe.accepted_tokens_delta for probe in probes]
    if not probes or None in drafted or None in accepted:
        return "Accepted drafts: their number could not be read."
    total = f"{sum(filter(None, accepted))} of {sum(filter(None, drafted))}"
    return f"States after accepted drafts: {total} draft tokens were accepted in measured cells."
