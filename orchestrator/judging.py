"""Patterns, gates and expectations → verdicts, with what they do not cover.

Numbers in parentheses are rules of `docs/verdicts.md`. The precedence is the same everywhere:
inconclusive over diverged over stable (2); a cell that was not measured is never equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.comparing import Repeat, VariantLetters, pattern
from orchestrator.digest import numeric_key
from orchestrator.model.experiment import Expectation
from orchestrator.model.host import Plateau
from orchestrator.model.intent import IntentRow
from orchestrator.model.outcome import Failed, Outcome
from orchestrator.model.plan import ArmPlan, CellPlan, Place, Plan
from orchestrator.model.serverlog import Finding
from orchestrator.model.verdict import (
    ArmVerdict,
    Attribution,
    CellVerdict,
    GateFinding,
    Pattern,
    ProbeResult,
    Result,
    RunVerdict,
    Word,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEvidence:
    """What was measured of one cell."""

    plan: CellPlan
    repeats: tuple[Repeat, ...]
    probes: tuple[ProbeResult, ...]
    findings: tuple[GateFinding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEvidence:
    """What was measured on one start; its cells in the order in which they were run."""

    plan: ArmPlan
    outcome: Outcome
    cells: tuple[CellEvidence, ...]
    findings: tuple[GateFinding, ...]
    intent: tuple[IntentRow, ...]
    memory: tuple[Plateau, ...]
    log_findings: tuple[Finding, ...]


def judge(plan: Plan, arms: Sequence[ArmEvidence]) -> RunVerdict:
    """Judge a whole run.

    Args:
        plan: What was meant to happen.
        arms: What happened, one entry for each arm of the plan, in its order.
    """
    judged = {arm.plan.name: _judge_cells(arm) for arm in arms}
    caching_off = [
        cell
        for arm in arms
        if arm.plan.prefix_caching == "off"
        for cell in judged[arm.plan.name][0]
    ]
    verdicts = []
    for arm in arms:
        cells, findings = judged[arm.plan.name]
        attributed = [_attribute(cell, arm, caching_off) for cell in cells]
        elsewhere = {
            (cell.document, cell.a_tokens)
            for name, (others, _) in judged.items()
            for cell in others
            if name != arm.plan.name and cell.verdict == "diverged"
        }
        expected = plan.expectations.get(arm.plan.name)
        verdicts.append(_judge_arm(arm, attributed, findings, expected, elsewhere))
    failed = [arm.plan.name for arm in arms if isinstance(arm.outcome, Failed)]
    result, exit_code = _result(plan, verdicts, failed)
    return RunVerdict(
        experiment=plan.experiment,
        profile=plan.profile,
        engine=plan.engine,
        purpose=plan.purpose,
        result=result,
        exit_code=exit_code,
        sentence=_sentence(result, verdicts, failed),
        arms=tuple(verdicts),
        removal=None,
        not_covered=_not_covered(plan, verdicts),
    )


def _judge_cells(arm: ArmEvidence) -> tuple[list[CellVerdict], tuple[GateFinding, ...]]:
    """The measured cells of one start, and every finding of that start."""
    references = _References(arm)
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


class _References:
    """The reference cells of a start, by document, with the letters of its variants."""

    def __init__(self, arm: ArmEvidence) -> None:
        voided = _voided_cells(arm)
        self._cells: dict[tuple[str, Place], tuple[Repeat, ...]] = {
            (cell.plan.document, cell.plan.place): _without_first_request(cell, arm)
            for cell in arm.cells
            if cell.plan.place != "measured" and cell.plan.id not in voided
        }
        self.letters: dict[str, VariantLetters] = {}
        documents = dict.fromkeys(cell.plan.document for cell in arm.cells)
        self.disagreements = tuple(
            GateFinding(
                rule=1,
                scope="start",
                cell=None,
                summary=f"{document}: the reference before differs from the reference after",
            )
            for document in documents
            if self._disagree(document)
        )

    def of(self, document: str, place: Place) -> tuple[Repeat, ...] | None:
        """Its answers; `None` when there is no such cell, or when it is evidence of nothing."""
        return self._cells.get((document, place))

    def letters_of(self, document: str) -> VariantLetters:
        return self.letters.setdefault(document, VariantLetters())

    def _disagree(self, document: str) -> bool:
        before, after = self.of(document, "before"), self.of(document, "after")
        if before is None or after is None:
            return False
        return _by_hit_state(before) != _by_hit_state(after)


def _by_hit_state(repeats: Sequence[Repeat]) -> dict[int | None, set[bytes]]:
    states: dict[int | None, set[bytes]] = {}
    for repeat in repeats:
        states.setdefault(repeat.cached_tokens, set()).add(numeric_key(repeat.observation))
    keys = set[bytes]().union(*states.values())
    # A reference that agrees with itself is one answer, in whatever hit state it was given.
    return {None: keys} if len(keys) == 1 else states


def _without_first_request(cell: CellEvidence, arm: ArmEvidence) -> tuple[Repeat, ...]:
    """Leave out the start's very first request where it alone differs (5)."""
    rest = cell.repeats[1:]
    if (
        rest
        and _is_first_request(cell, arm)
        and len({numeric_key(r.observation) for r in rest}) == 1
    ):
        return rest
    return cell.repeats


def _is_first_request(cell: CellEvidence, arm: ArmEvidence) -> bool:
    return not arm.plan.warm_up and bool(arm.cells) and arm.cells[0] is cell


def _voided_cells(arm: ArmEvidence) -> dict[str, str]:
    """Cell id to the reason why it is evidence of nothing, `start` scope left aside."""
    voided: dict[str, str] = {}
    later: str | None = None
    for cell in arm.cells:
        own = [f for f in cell.findings if f.scope in ("cell", "later")]
        if later is not None:
            voided[cell.plan.id] = f"comes after: {later}"
        elif own:
            voided[cell.plan.id] = f"{own[0].summary} (rule {own[0].rule})"
        if later is None:
            later = next((f.summary for f in own if f.scope == "later"), None)
    return voided


def _judge_cell(
    cell: CellEvidence,
    arm: ArmEvidence,
    findings: Iterable[GateFinding],
    references: _References,
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
    voided = _voided_cells(arm).get(cell.plan.id)
    if isinstance(arm.outcome, Failed) and not complete:
        verdict, reason = _inconclusive(f"the arm failed: {arm.outcome.error}")
    elif start is not None:
        verdict, reason = _inconclusive(f"{start.summary} (rule {start.rule})")
    elif voided is not None:
        verdict, reason = _inconclusive(voided)
    elif seen is None:
        verdict, reason = _inconclusive("it was not measured in full")
    else:
        verdict, reason = _read(seen)
    return CellVerdict(
        arm=arm.plan.name,
        cell=cell.plan.id,
        kind=cell.plan.kind,
        place=cell.plan.place,
        document=document,
        a_tokens=cell.plan.a_tokens,
        b_tokens=cell.plan.b_tokens,
        verdict=verdict,
        reason=reason,
        attribution=None,
        eligible=None if cell.plan.prediction is None else cell.plan.prediction.eligible,
        pattern=seen,
        probes=cell.probes,
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


def _attribute(
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
    if _is_first_request(evidence, arm) and len(set(seen.variants[1:])) == 1:
        return "first-request", "only the very first request of the start differs"
    if any(len(set(group.variants)) > 1 for group in seen.hit_groups):
        return "nondeterministic", "answers differ within one hit state"
    missing = _missing_for_contamination(cell, seen, caching_off)
    if missing is not None:
        return "unattributed", missing
    return "contamination", "it follows the hit state or stands against an unmoved reference"


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


def _judge_arm(
    arm: ArmEvidence,
    cells: Sequence[CellVerdict],
    findings: tuple[GateFinding, ...],
    expected: Expectation | None,
    elsewhere: set[tuple[str, int | None]],
) -> ArmVerdict:
    count = {word: sum(c.verdict == word for c in cells) for word in _WORDS}
    if count["inconclusive"] or not cells:
        verdict: Word = "inconclusive"
        reason = next((c.reason for c in cells if c.verdict == "inconclusive"), "no cell")
    elif count["diverged"]:
        verdict = "diverged"
        reason = f"{count['diverged']} of {len(cells)} cells diverged"
    else:
        verdict = "stable"
        other = sum((c.document, c.a_tokens) in elsewhere for c in cells)
        reason = f"not seen in {len(cells)} documents × lengths ({other} diverged in another arm)"
    return ArmVerdict(
        arm=arm.plan.name,
        cell=arm.plan.cell,
        prefix_caching=arm.plan.prefix_caching,
        speculation=arm.plan.speculation,
        patch=arm.plan.patch,
        verdict=verdict,
        reason=reason,
        stable=count["stable"],
        diverged=count["diverged"],
        inconclusive=count["inconclusive"],
        cells=tuple(cells),
        findings=findings,
        intent=arm.intent,
        memory=arm.memory,
        log_findings=arm.log_findings,
        expected=expected,
        as_expected=_as_expected(expected, verdict, count["diverged"], len(cells)),
    )


_WORDS: tuple[Word, ...] = ("stable", "diverged", "inconclusive")


def _as_expected(
    expected: Expectation | None, verdict: Word, diverged: int, cells: int
) -> bool | None:
    if expected is None or verdict == "inconclusive":
        return None
    if expected == "mostly-diverged":
        return 2 * diverged > cells
    return verdict == expected


def _result(plan: Plan, arms: Sequence[ArmVerdict], failed: Sequence[str]) -> tuple[Result, int]:
    """A definite bad answer outranks a failed arm, and that outranks an inconclusive one."""
    if plan.purpose == "reproduce" and any(arm.as_expected is False for arm in arms):
        return "not as expected", 1
    if plan.purpose == "check" and any(arm.verdict == "diverged" for arm in arms):
        return "affected", 1
    if failed:
        return "failed", 4
    if any(arm.verdict == "inconclusive" for arm in arms):
        return "inconclusive", 3
    return ("as expected", 0) if plan.purpose == "reproduce" else ("not seen", 0)


def _sentence(result: Result, arms: Sequence[ArmVerdict], failed: Sequence[str]) -> str:
    told = ", ".join(f"{arm.arm}: {arm.verdict} ({_counts(arm)})" for arm in arms)
    if result == "failed":
        return f"Failed: {' and '.join(failed)} did not complete. {told}."
    if result == "inconclusive":
        first = next(arm for arm in arms if arm.verdict == "inconclusive")
        return f"Inconclusive: {first.arm}: {first.reason}. {told}."
    return f"{result.capitalize()}. {told}."


def _counts(arm: ArmVerdict) -> str:
    total = len(arm.cells)
    named: Mapping[Word, int] = {
        "stable": arm.stable, "diverged": arm.diverged, "inconclusive": arm.inconclusive,
    }  # fmt: skip
    return f"{named[arm.verdict]} of {total} cells"


def _not_covered(plan: Plan, arms: Sequence[ArmVerdict]) -> tuple[str, ...]:
    """What nobody may read into the verdict (16)."""
    said = [
        f"Candidates beyond the top {plan.top_logprobs}: equal answers can come of unequal states.",
        "Other starts: each arm ran on one, and digests of two starts are not set side by side.",
        "Concurrent requests: everything was sent one at a time.",
        _drafts(plan, arms),
    ]
    if all(arm.patch is None for arm in arms):
        said.append("The cause: no patched and no sham-patched arm ran.")
    if "not vLLM" in plan.engine:
        said.insert(0, f"vLLM: what answered is {plan.engine}.")
    documents, lengths = len(plan.documents) - 1, len(plan.a_tokens)
    if documents < _PANEL_DOCUMENTS or lengths < _PANEL_LENGTHS:
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
    return tuple(said)


_PANEL_DOCUMENTS, _PANEL_LENGTHS = 6, 3
"""Rule 8: on one real engine 3 of 14 documents did not show the effect at one length of A."""


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
