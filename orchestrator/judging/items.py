"""A suite's items on one start, and two starts item by item."""

from collections.abc import Mapping, Sequence

from orchestrator.digest import numeric_key
from orchestrator.judging.measured import ArmEvidence, CellEvidence
from orchestrator.model.plan import Plan
from orchestrator.model.score import ItemResult, SuiteComparison
from orchestrator.model.suite import Language, SuiteItem, SuitePlan
from orchestrator.model.verdict import ArmVerdict, CellVerdict
from orchestrator.scoring.grading import letters, majority, moved_fields, scores

_MOVED = {"diverged": True, "stable": False}


def item_results(
    plan: Plan, arm: ArmEvidence, cells: Sequence[CellVerdict]
) -> tuple[ItemResult, ...]:
    """Every item that was answered in all its runs; none where the run is no suite's."""
    if plan.suite is None:
        return ()
    verdicts = {cell.document: cell for cell in cells}
    languages = {pin.name: pin.language for pin in plan.documents}
    evidence = {(cell.plan.document, cell.plan.place): cell for cell in arm.cells}
    results = []
    for item in plan.suite.items:
        measured = evidence[item.id, "measured"]
        if len(measured.repeats) == plan.suite.runs:
            references = [evidence[item.id, place] for place in ("before", "after")]
            language = languages[item.document]
            results.append(
                _result(plan.suite, item, language, measured, references, verdicts[item.id])
            )
    return tuple(results)


def _result(
    suite: SuitePlan,
    item: SuiteItem,
    language: Language,
    measured: CellEvidence,
    references: Sequence[CellEvidence],
    verdict: CellVerdict,
) -> ItemResult:
    texts = [repeat.observation.text for repeat in measured.repeats]
    return ItemResult(
        item=item.id,
        document=item.document,
        language=language,
        answers=tuple(texts),
        texts=letters(texts),
        majority=majority(texts),
        digests_moved=_MOVED.get(verdict.verdict),
        fields_moved=moved_fields(texts, item, language),
        numeric=_keys(measured),
        reference_numeric=tuple(key for cell in references for key in _keys(cell)),
        scores=scores(texts, item, language) if suite.model_trained else None,
    )


def _keys(cell: CellEvidence) -> tuple[str, ...]:
    return tuple(numeric_key(repeat.observation).hex() for repeat in cell.repeats)


def compare_suites(left: ArmVerdict, right: ArmVerdict) -> SuiteComparison:
    """Set two starts of one suite side by side, be they arms or stacks.

    Their digests are compared only where the references of every common item are bit-identical on
    both (rule 15). Texts are compared in any case, and are no evidence. A score belongs to its own
    start: what is said is on which items the grades are not the same.
    """
    ours = {result.item: result for result in left.items}
    theirs = {result.item: result for result in right.items}
    pairs = {name: (ours[name], theirs[name]) for name in ours if name in theirs}
    apart = _differing(pairs, "reference_numeric")
    scored = all(a.scores is not None and b.scores is not None for a, b in pairs.values())
    return SuiteComparison(
        left=left.arm,
        right=right.arm,
        items=len(pairs),
        digests_comparable=not apart,
        references_differ=apart,
        digests_differ=None if apart else _differing(pairs, "numeric"),
        texts_differ=_differing(pairs, "answers"),
        grades_differ=_differing(pairs, "scores") if scored else None,
    )


def _differing(pairs: Mapping[str, tuple[ItemResult, ItemResult]], what: str) -> tuple[str, ...]:
    return tuple(name for name, (a, b) in pairs.items() if getattr(a, what) != getattr(b, what))
