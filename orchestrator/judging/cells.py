"""One measured cell: the two axes, the gates, and why it diverged where that may be said."""

from collections.abc import Iterable, Sequence

from orchestrator.comparing import pattern
from orchestrator.judging.company import read_company, volleys_of
from orchestrator.judging.measured import ArmEvidence, CellEvidence
from orchestrator.judging.references import References, is_first_request, voided_cells
from orchestrator.model.outcome import Failed
from orchestrator.model.verdict import Attribution, CellVerdict, GateFinding, Pattern, Word


def judge_cells(arm: ArmEvidence) -> tuple[list[CellVerdict], tuple[GateFinding, ...]]:
    """The measured cells of one start, and every finding of that start."""
    references = References(arm)
    findings = (
        *arm.findings,
        *(finding for cell in arm.cells for finding in cell.findings),
        *references.disagreements,
    )
    return (
        [_judge_cell(cell, arm, findings, references) for cell in arm.cells
         if cell.plan.place == "measured"],
        findings,
    )  # fmt: skip


def _judge_cell(
    cell: CellEvidence,
    arm: ArmEvidence,
    findings: Iterable[GateFinding],
    references: References,
) -> CellVerdict:
    document = cell.plan.document
    complete = len(cell.probes) == len(cell.plan.probes)
    seen = (
        pattern(
            cell.repeats,
            before=references.of(document, "before"),
            after=references.of(document, "after"),
            letters=references.letters_of(document),
        )
        if complete and cell.repeats
        else None
    )
    start = next((f for f in findings if f.scope == "start"), None)
    voided = voided_cells(arm).get(cell.plan.id)
    lost = references.lost(document)
    volleys = volleys_of(cell, arm)
    if isinstance(arm.outcome, Failed) and not complete:
        verdict, reason = _inconclusive(f"the arm failed: {arm.outcome.error}")
    elif start is not None:
        verdict, reason = _inconclusive(f"{start.summary} (rule {start.rule})")
    elif voided is not None:
        verdict, reason = _inconclusive(voided)
    elif seen is None:
        verdict, reason = _inconclusive("it was not measured in full")
    elif cell.plan.concurrency > 1:
        verdict, reason = read_company(seen, volleys)
    else:
        verdict, reason = _read(seen)
    if verdict in ("stable", "batch-equal") and lost is not None:
        verdict, reason = _inconclusive(f"equal, but only one reference counts; {lost}")
    return CellVerdict(
        arm=arm.plan.name,
        cell=cell.plan.id,
        kind=cell.plan.kind,
        place=cell.plan.place,
        document=document,
        a_tokens=cell.plan.a_tokens,
        b_tokens=cell.plan.b_tokens,
        concurrency=cell.plan.concurrency,
        verdict=verdict,
        reason=reason,
        attribution=None,
        eligible=None if cell.plan.prediction is None else cell.plan.prediction.eligible,
        pattern=seen,
        probes=cell.probes,
        volleys=volleys,
    )


def _inconclusive(reason: str) -> tuple[Word, str]:
    return "inconclusive", reason


def _read(seen: Pattern) -> tuple[Word, str]:
    """The two axes of rule 2."""
    if seen.repeats != "equal":
        how = {
            "first-differs": "the first repeat differs from the rest",
            "split": "the repeats fall into several variants",
        }[seen.repeats]
        return "diverged", f"{how}; reference: {seen.against_reference}"
    match seen.against_reference:
        case "equal":
            remark = "".join(f"; {kind} differences" for kind in seen.kinds)
            return "stable", f"all repeats equal each other and the reference{remark}"
        case "differs":
            return "diverged", "all repeats are equal, and differ from the reference"
        case "unknown":
            return _inconclusive("the repeats are equal, but there is no reference to hold them to")


def attribute(
    cell: CellVerdict, arm: ArmEvidence, caching_off: Sequence[CellVerdict]
) -> CellVerdict:
    """Say why a cell diverged, where the rules allow to say it (4, 5)."""
    if cell.verdict != "diverged" or cell.pattern is None:
        return cell
    attribution, why = _attribution(cell, cell.pattern, arm, caching_off)
    reason = f"{cell.reason}; {why}{_split_at(cell, arm)}"
    return CellVerdict.model_validate(
        cell.model_dump() | {"attribution": attribution, "reason": reason}
    )


def _split_at(cell: CellVerdict, arm: ArmEvidence) -> str:
    """What a cell may differ by although nothing that it restores is of mixed origin."""
    prediction = next(entry.plan.prediction for entry in arm.cells if entry.plan.id == cell.cell)
    if prediction is None or prediction.eligible != "not eligible":
        return ""
    places = {r.junction for r in prediction.requests if r.junction is not None}
    told = " and ".join(str(place) for place in sorted(places))
    return (
        f"; B's own prefill was predicted to be cut at the shared prefix, at {told}" if told else ""
    )


def _attribution(
    cell: CellVerdict, seen: Pattern, arm: ArmEvidence, caching_off: Sequence[CellVerdict]
) -> tuple[Attribution, str]:
    evidence = next(entry for entry in arm.cells if entry.plan.id == cell.cell)
    if is_first_request(evidence, arm) and len(set(seen.variants[1:])) == 1:
        return "first-request", "only the very first request of the start differs"
    if cell.kind == "suite":
        return _attribution_in_a_suite(cell, seen, evidence, caching_off)
    if any(len(set(group.variants)) > 1 for group in seen.hit_groups):
        return "nondeterministic", "answers differ within one hit state"
    missing = _missing_for_contamination(cell, seen, caching_off)
    if missing is not None:
        return "unattributed", missing
    return "contamination", "it follows the hit state or stands against an unmoved reference"


def _attribution_in_a_suite(
    cell: CellVerdict, seen: Pattern, evidence: CellEvidence, caching_off: Sequence[CellVerdict]
) -> tuple[Attribution, str]:
    """Nothing is predicted of a suite's prompts.

    So answers that differ within one hit state may be chance, or a prefill that was cut elsewhere:
    neither is said.
    """
    if any(len(set(group.variants)) > 1 for group in seen.hit_groups):
        return "unattributed", "answers differ within one hit state, and no cut was predicted"
    if not evidence.plan.shares_salt:
        return "unattributed", "no other item came before it under its salt"
    missing = _missing_for_contamination(cell, seen, caching_off)
    if missing is not None:
        return "unattributed", missing
    return "contamination", "other items came before it, against an unmoved reference"


def _missing_for_contamination(
    cell: CellVerdict, seen: Pattern, caching_off: Sequence[CellVerdict]
) -> str | None:
    if cell.kind == "reference":
        return "no other request came before B under this salt"
    if seen.reference_before is None or seen.reference_after is None:
        return "there are no references before and after it"
    if not caching_off:
        return "the run has no caching-off arm"
    if any(other.verdict != "stable" for other in caching_off):
        return "the caching-off arm is not equal throughout"
    return None
