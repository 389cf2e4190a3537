"""Families of runs that differ in what B is answered: rules 2, 5, 9, 10 and 11."""

import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from tests.answers import PLAIN, Pair, f32
from tests.definitions import experiment, plan
from tests.scenarios import Change, Reply, Scenario, changed, plain
from tests.truth.built import Answers, Case, Detail, Place

DOCUMENTS = ("one", "two")
ARMS = ("clean", "contaminated", "caching-off")
TOKENS = range(len(PLAIN))
Lists = Sequence[Sequence[Pair]]
Edit = Callable[[list[Pair]], list[Pair]]


def truth(
    changes: Mapping[Place, Answers] = {}, *, base: Answers = "equal"
) -> dict[Place, Answers]:
    """Of the three arms over two documents: all equal, but for `base` where A came first."""
    cells: dict[Place, Answers] = {
        (arm, document): base if arm == "contaminated" else "equal"
        for arm in ARMS
        for document in DOCUMENTS
    }
    return cells | dict(changes)


def target(arm: ArmPlan, cell: CellPlan, document: str, name: str = "contaminated") -> bool:
    """Whether a probe belongs to the measured cell that a case is about."""
    return (arm.name, cell.place, cell.document) == (name, "measured", document)


def edited(lists: Lists, token: int, edit: Edit) -> Lists:
    """The same answer with the candidates of one generated token edited."""
    return [edit(list(entries)) if i == token else entries for i, entries in enumerate(lists)]


def one_ulp_lower(value: float) -> float:
    """The next float32 below a negative one."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    (lower,) = struct.unpack("<f", struct.pack("<I", bits + 1))
    return float(lower)


def moving(document: str, token: int, edit: Edit, *, repeats: Sequence[int] = (2, 3, 4)) -> Change:
    """B is answered otherwise in these repeats of one document's contaminated cell."""

    def change(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if target(arm, cell, document) and probe.repeat in repeats:
            reply.lists = edited(reply.lists, token, edit)

    return change


def lower(index: int, amount: float | None = None) -> Edit:
    """One candidate less probable, by an amount or by a single ulp; the order stays sorted."""

    def edit(entries: list[Pair]) -> list[Pair]:
        token, value = entries[index]
        entries[index] = (token, one_ulp_lower(value) if amount is None else f32(value - amount))
        return entries

    return edit


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _stable()
    yield from _diverged()
    yield from _equal_but_not_to_the_reference()
    yield from _choices_of_a_sort()
    yield from _shifts()
    yield from _nondeterministic()
    yield from _first_request()
    yield from _confounded()


def _stable() -> Iterator[Case]:
    for repeats, references, seed in itertools.product((2, 4, 9), (2, 3), (0, 1)):
        made = plan(experiment(repeats=repeats, reference_repeats=references, seed=seed))
        yield Case(
            family="stable",
            name=f"{repeats} repeats, {references} references, seed {seed}",
            run=Scenario(plain, made),
            cells=truth(),
            exit_code=1,  # `reproduce`: the control does not misbehave
        )


def _diverged() -> Iterator[Case]:
    for document, token, index in itertools.product(DOCUMENTS, TOKENS, range(4)):
        for told, amount in (("one ulp", None), ("a lot", 0.0625)):
            change = moving(document, token, lower(index, amount))
            place = ("contaminated", document)
            yield Case(
                family="one-ulp" if amount is None else "diverged at token k",
                name=f"{document}, token {token}, candidate {index}, {told}",
                run=Scenario(changed(plain, change)),
                cells=truth({place: "differ"}),
                details={
                    place: Detail(
                        attribution="contamination",
                        repeats="first-differs",
                        timing="later" if token else "first-token",
                        # The most probable one moves against all others.
                        moved=0 if amount is None else 3 if index == 0 else 1,
                        common_shift=False,
                    )
                },
            )


def _equal_but_not_to_the_reference() -> Iterator[Case]:
    for document, token in itertools.product(DOCUMENTS, TOKENS):
        change = moving(document, token, lower(1, 0.125), repeats=(1, 2, 3, 4))
        place = ("contaminated", document)
        yield Case(
            family="repeats equal but against the reference",
            name=f"{document}, token {token}",
            run=Scenario(changed(plain, change)),
            cells=truth({place: "differ"}),
            details={place: Detail(attribution="contamination", repeats="equal")},
        )


def _choices_of_a_sort() -> Iterator[Case]:
    """The same numbers in another order, or another choice among those that tie at the cut."""

    def tied(entries: list[Pair]) -> list[Pair]:
        return [*entries[:2], entries[2], (entries[3][0], entries[2][1])]

    def swapped(entries: list[Pair]) -> list[Pair]:
        return [*entries[:2], *reversed(tied(entries)[2:])]

    def other_member(entries: list[Pair]) -> list[Pair]:
        return [*entries[:3], (77, entries[2][1])]

    for family, edit in (("order-only", swapped), ("tie-only", other_member)):
        for document, token, repeat in itertools.product(DOCUMENTS, TOKENS, (1, 3)):
            change = moving(document, token, edit, repeats=(repeat,))

            def script(arm: ArmPlan, cell: CellPlan, probe: ProbePlan, token: int = token) -> Reply:
                reply = plain(arm, cell, probe)
                reply.lists = edited(reply.lists, token, tied)
                return reply

            yield Case(
                family=family,
                name=f"{document}, token {token}, repeat {repeat}",
                run=Scenario(changed(script, change)),
                cells=truth(),
                details={("contaminated", document): Detail(because=f"{family} differences")},
            )


def _shifts() -> Iterator[Case]:
    """All candidates by one constant: only the normaliser moved; or all but one of them."""
    for token, amount in itertools.product(TOKENS, (0.25, 2.0**-10, 0.1)):
        for one_more in (False, True):

            def shifted(
                entries: list[Pair], amount: float = amount, *, one_more: bool = one_more
            ) -> list[Pair]:
                moved = [(t, f32(value - amount)) for t, value in entries]
                return lower(2, 2.0**-8)(moved) if one_more else moved

            place = ("contaminated", "one")
            yield Case(
                family="common shift, but for one" if one_more else "common shift",
                name=f"token {token}, {amount}",
                run=Scenario(changed(plain, moving("one", token, shifted))),
                cells=truth({place: "differ"}),
                details={place: Detail(moved=int(one_more), common_shift=not one_more)},
            )


def _nondeterministic() -> Iterator[Case]:
    for document, repeats in itertools.product(DOCUMENTS, ((2,), (3,), (4,), (2, 4), (3, 4))):
        place = ("contaminated", document)
        yield Case(
            family="nondeterministic inside a hit group",
            name=f"{document}, repeats {repeats}",
            run=Scenario(changed(plain, moving(document, 1, lower(1, 0.125), repeats=repeats))),
            cells=truth({place: "differ"}),
            details={place: Detail(attribution="nondeterministic", repeats="split")},
        )


def _first_request() -> Iterator[Case]:
    """Only the very first request of a start stands apart; with a warm-up there is no such one."""
    for warm_up, references, seed in itertools.product((False, True), (False, True), (0, 1, 2)):
        made = plan(experiment(warm_up=warm_up, reference_cells=references, seed=seed))
        document = _document_of_the_first_request(made)

        def first(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
            if arm.name == "clean" and arm.cells[0].id == cell.id and probe.repeat == 1:
                reply.lists = edited(reply.lists, 0, lower(1, 0.125))

        place = ("clean", document)
        cells = truth()
        details = {}
        if not references:  # nothing is held to anything, but repeats that differ do differ
            cells = dict.fromkeys(cells, "no evidence") | {place: "differ"}
            attribution = "unattributed" if warm_up else "first-request"
            details = {place: Detail(attribution=attribution)}
        elif warm_up:  # a reference whose first answer differs from the one after it has moved
            cells |= dict.fromkeys((("clean", name) for name in DOCUMENTS), "no evidence")
        yield Case(
            family="first request only",
            name=f"warm-up {warm_up}, references {references}, seed {seed}",
            run=Scenario(changed(plain, first), made),
            cells=cells,
            details=details,
        )


def _document_of_the_first_request(made: Plan) -> str:
    return next(arm for arm in made.arms if arm.name == "clean").cells[0].document


def _confounded() -> Iterator[Case]:
    """A first difference behind the first token, beside another number of accepted drafts."""
    for token, accepted in itertools.product(TOKENS, (0, 1)):

        def change(
            reply: Reply,
            arm: ArmPlan,
            cell: CellPlan,
            probe: ProbePlan,
            token: int = token,
            accepted: int = accepted,
        ) -> None:
            moving("one", token, lower(1, 0.125))(reply, arm, cell, probe)
            if target(arm, cell, "one") and probe.repeat in (2, 3, 4):
                reply.accepted = accepted

        later = "later, speculation-confounded" if accepted else "later"
        place = ("contaminated", "one")
        yield Case(
            family="speculation-confounded",
            name=f"token {token}, {accepted} drafts accepted",
            run=Scenario(changed(plain, change)),
            cells=truth({place: "differ"}),
            details={place: Detail(timing=later if token else "first-token")},
        )


def both_differ() -> dict[Place, Answers]:
    """The truth of `affected`."""
    return truth(base="differ")
