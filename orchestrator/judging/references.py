"""The reference cells of a start, and which cells are evidence of nothing."""

from collections.abc import Sequence

from orchestrator.comparing import Repeat, VariantLetters
from orchestrator.judging.measured import ArmEvidence, CellEvidence
from orchestrator.model.plan import Place
from orchestrator.model.verdict import GateFinding


class References:
    """The reference cells of a start, by document, with the letters of its variants."""

    def __init__(self, arm: ArmEvidence) -> None:
        voided = voided_cells(arm)
        self._cells: dict[tuple[str, Place], tuple[Repeat, ...]] = {
            (cell.plan.document, cell.plan.place): _without_first_request(cell, arm)
            for cell in arm.cells
            if cell.plan.place != "measured" and cell.plan.id not in voided
        }
        self._lost = {
            cell.plan.document: f"its reference {cell.plan.place}: {voided[cell.plan.id]}"
            for cell in reversed(arm.cells)  # the first one lost is the one told
            if cell.plan.place != "measured" and cell.plan.id in voided
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

    def lost(self, document: str) -> str | None:
        """Why a reference that was planned is evidence of nothing; `None` when none is lost.

        One that is left cannot show that nothing moved between the two (1).
        """
        return self._lost.get(document)

    def letters_of(self, document: str) -> VariantLetters:
        """The letters that all cells of a document share on this start."""
        return self.letters.setdefault(document, VariantLetters())

    def _disagree(self, document: str) -> bool:
        before, after = self.of(document, "before"), self.of(document, "after")
        if before is None or after is None:
            return False
        return _by_hit_state(before) != _by_hit_state(after)


def _by_hit_state(repeats: Sequence[Repeat]) -> dict[int | None, set[bytes]]:
    states: dict[int | None, set[bytes]] = {}
    for repeat in repeats:
        states.setdefault(repeat.cached_tokens, set()).add(repeat.key)
    keys = set[bytes]().union(*states.values())
    # A reference that agrees with itself is one answer, in whatever hit state it was given.
    return {None: keys} if len(keys) == 1 else states


def _without_first_request(cell: CellEvidence, arm: ArmEvidence) -> tuple[Repeat, ...]:
    """Leave out the start's very first request where it alone differs (5)."""
    rest = cell.repeats[1:]
    if rest and is_first_request(cell, arm) and len({r.key for r in rest}) == 1:
        return rest
    return cell.repeats


def is_first_request(cell: CellEvidence, arm: ArmEvidence) -> bool:
    """Whether the cell begins with the start's very first request."""
    return not arm.plan.warm_up and bool(arm.cells) and arm.cells[0] is cell


def voided_cells(arm: ArmEvidence) -> dict[str, str]:
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
