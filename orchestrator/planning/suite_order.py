"""The cells of a suite: which item is asked when, and under which salt.

References stand before and after all runs, each item under a salt of its own, in the file's order.
Between them the runs go through the items in the arm's order, so the probes of one cell are not
sent at a stretch: their numbers say when they are.
"""

import random
from collections.abc import Sequence

from orchestrator.model.plan import CellPlan, Endpoint, Place, ProbePlan
from orchestrator.model.suite import SuiteArm, SuiteExperiment, SuiteItem
from orchestrator.planning.cells import salt_of

CHAT_ENDPOINT: Endpoint = "/v1/chat/completions"

_FIRST = 2
"""Number of the first probe: after readiness and one warm-up."""


def suite_cells(
    arm: SuiteArm, suite: SuiteExperiment, items: Sequence[SuiteItem]
) -> tuple[CellPlan, ...]:
    """References before, one measured cell an item, references after."""
    order = sending_order(arm, suite, items)
    digits = max(3, len(str(_FIRST + 2 * len(items) + len(order))))
    numbers = iter(range(_FIRST, _FIRST + 2 * len(items) + len(order)))

    def probe(item: SuiteItem, run: int, salt: str) -> ProbePlan:
        name = f"{next(numbers):0{digits}d}-b{run}"
        return ProbePlan(
            id=name, role="b", prompt=item.id, salt=salt, endpoint=CHAT_ENDPOINT, repeat=run
        )

    def reference(item: SuiteItem, place: Place) -> CellPlan:
        salt = salt_of(suite, arm, f"{item.id}/{place}")
        return _cell(item, place, salt, [probe(item, 1, salt)])

    before = [reference(item, "before") for item in items]
    salts = {item.id: salt_of(suite, arm, _salted(arm, item)) for item in items}
    sent: dict[str, list[ProbePlan]] = {item.id: [] for item in items}
    for item, run in order:
        sent[item.id].append(probe(item, run, salts[item.id]))
    measured = [
        _cell(item, "measured", salts[item.id], sent[item.id], shares=arm.documents == "shared")
        for item in items
    ]
    after = [reference(item, "after") for item in items]
    return (*before, *measured, *after)


def sending_order(
    arm: SuiteArm, suite: SuiteExperiment, items: Sequence[SuiteItem]
) -> list[tuple[SuiteItem, int]]:
    """Every item with the number of its run, from 1, in the order in which they are asked."""
    runs = range(1, suite.runs + 1)
    if arm.order == "grouped":
        return [(item, run) for item in items for run in runs]
    shuffle = random.Random(f"{suite.seed}/{arm.name}").shuffle  # noqa: S311 - an order, no secret
    order = []
    for run in runs:
        members = list(items)
        if arm.order == "shuffled":
            shuffle(members)
        order += [(item, run) for item in members]
    return order


def _salted(arm: SuiteArm, item: SuiteItem) -> str:
    return f"{item.document}/shared" if arm.documents == "shared" else f"{item.id}/measured"


def _cell(
    item: SuiteItem, place: Place, salt: str, probes: Sequence[ProbePlan], *, shares: bool = False
) -> CellPlan:
    return CellPlan(
        id=f"{item.id}/{place}",
        kind="suite" if place == "measured" else "reference",
        place=place,
        document=item.id,
        a_tokens=None,
        b_tokens=None,
        salt=salt,
        shares_salt=shares,
        probes=tuple(probes),
        prediction=None,
    )
