"""Families of runs with something that makes answers no evidence: rules 1, 3, 4, 6, 12 and 13."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from tests.answers import moved
from tests.conftest import PROJECT
from tests.definitions import experiment, plan, profile
from tests.scenarios import CACHED, Reply, Scenario, affected, changed, plain
from tests.truth.answering import DOCUMENTS, target, truth
from tests.truth.built import Answers, Case, Detail, Place

LOGS = PROJECT / "tests" / "fixtures" / "serverlog" / "logs"
PREDICTED = profile(vllm_version="0.29.0")
"""A release whose rule was read: every probe has a prediction."""

Which = Callable[[ProbePlan], bool]


def every_b(probe: ProbePlan) -> bool:
    """Each repeat of B."""
    return probe.role == "b"


def repeat(number: int) -> Which:
    """One repeat of B."""
    return lambda probe: probe.repeat == number


def start_void(name: str) -> dict[Place, Answers]:
    """Nothing that was measured on this start counts."""
    return dict.fromkeys(((name, document) for document in DOCUMENTS), "no evidence")


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _cells_that_are_no_evidence()
    yield from _predictions()
    yield from _isolation()
    yield from _preemptions()
    yield from _logs()
    yield from _references()
    yield from _caching_off()
    yield from _remarks()


CELL_GATES: tuple[tuple[str, str, Which, Mapping[str, Any]], ...] = (
    ("hits missing", "nothing was tested", every_b, {"cached": 0}),
    ("hits missing", "does not say its cached tokens", every_b, {"cached": None, "hits": 0}),
    ("hits too many", "the counter 5", repeat(2), {"hits": 5}),
    ("hits missing", "the counter 0", repeat(3), {"hits": 0}),
    ("hits missing", "the hit counter could not be read", repeat(2), {"lacks": "hits"}),
    ("eviction", "blocks were evicted", repeat(4), {"cached": 0}),
    ("eviction", "fell from 16 to 8", repeat(3), {"cached": 8}),
    ("other prompt", "prompt tokens", repeat(1), {"prompt_tokens": 39}),
    ("company", "other requests were running", repeat(2), {"running": 1}),
    ("company", "finished 2 requests", repeat(2), {"finished": 2}),
    ("preemption", "preemption counter could not be read", repeat(2), {"lacks": "preemptions"}),
    ("unanswered", "4 of 5 probes", repeat(4), {"lost": True}),
    ("unanswered", "is no JSON", repeat(4), {"raw": b"<html>"}),
    ("unanswered", "reset", repeat(4), {"error": "reset"}),
)
"""Family, part of the reason, which probes, and what is wrong with them."""


def _cells_that_are_no_evidence() -> Iterator[Case]:
    """Whether the server is affected or not: a cell whose gate failed says neither."""
    for document, base in itertools.product(DOCUMENTS, (plain, affected)):
        for family, because, which, values in CELL_GATES:

            def change(
                reply: Reply,
                arm: ArmPlan,
                cell: CellPlan,
                probe: ProbePlan,
                *,
                document: str = document,
                which: Which = which,
                values: Mapping[str, Any] = values,
            ) -> None:
                if target(arm, cell, document) and which(probe):
                    vars(reply).update(values)

            place = ("contaminated", document)
            others: Answers = "differ" if base is affected else "equal"
            yield Case(
                family=family,
                name=f"{document}, {base.__name__}, {because}",
                run=Scenario(changed(base, change)),
                cells=truth({place: "no evidence"}, base=others),
                details={place: Detail(because=because)},
                exit_code=3 if base is affected else None,
            )


def _predictions() -> Iterator[Case]:
    """Cached tokens are held against the prediction where there is one, and only there."""
    for document, cached in itertools.product(DOCUMENTS, (2 * CACHED, 8)):
        for launched in (PREDICTED, None):

            def change(
                reply: Reply,
                arm: ArmPlan,
                cell: CellPlan,
                probe: ProbePlan,
                *,
                document: str = document,
                cached: int = cached,
            ) -> None:
                late = probe.repeat == 4 if cached > CACHED else probe.repeat in (2, 3, 4)
                if target(arm, cell, document) and late:
                    reply.cached = cached

            place = ("contaminated", document)
            void = launched is not None
            yield Case(
                family="hits too many" if cached > CACHED else "hits missing",
                name=f"{document}, {cached} cached, predicted {void}",
                run=Scenario(changed(affected, change), plan(launched=launched)),
                cells=truth({place: "no evidence" if void else "differ"}, base="differ"),
                details={place: Detail(because="predicted" if void else "differs")},
            )


def _isolation() -> Iterator[Case]:
    """A hit in the first request under a salt: nothing on the start counts."""
    for document, seed in itertools.product(DOCUMENTS, (0, 1)):

        def leak(
            reply: Reply,
            arm: ArmPlan,
            cell: CellPlan,
            probe: ProbePlan,
            *,
            document: str = document,
        ) -> None:
            if target(arm, cell, document) and probe.role == "a":
                reply.cached = CACHED

        yield Case(
            family="isolation broken",
            name=f"{document}, seed {seed}",
            run=Scenario(changed(affected, leak), plan(experiment(seed=seed))),
            cells=truth(start_void("contaminated"), base="differ"),
            details={
                ("contaminated", name): Detail(because="first request under its salt")
                for name in DOCUMENTS
            },
        )


def _preemptions() -> Iterator[Case]:
    """The preempted request's cell and all later ones of the start are void; earlier ones stand."""
    for document, seed in itertools.product(DOCUMENTS, (0, 1, 2)):
        made = plan(experiment(seed=seed))

        def preempt(
            reply: Reply,
            arm: ArmPlan,
            cell: CellPlan,
            probe: ProbePlan,
            *,
            document: str = document,
        ) -> None:
            if target(arm, cell, document) and probe.repeat == 1:
                reply.preemptions = 1

        order = _measured_documents(made, "contaminated")
        void = order[order.index(document) :]
        places = [("contaminated", name) for name in void]
        yield Case(
            family="preemption",
            name=f"{document}, seed {seed}",
            run=Scenario(changed(affected, preempt), made),
            cells=truth(dict.fromkeys(places, "no evidence"), base="differ"),
            details={place: Detail(because="1 preemptions during") for place in places},
        )


def _measured_documents(made: Plan, name: str) -> list[str]:
    arm = next(entry for entry in made.arms if entry.name == name)
    return [cell.document for cell in arm.cells if cell.place == "measured"]


def _logs() -> Iterator[Case]:
    """What a recorded log says against its start; a healthy one says nothing."""
    healthy = (LOGS / "0.29.0-cpu-caching-on-mtp.log").read_bytes()
    killed = (LOGS / "0.29.0-cpu-engine-killed.log").read_bytes()
    for family, log, void in (
        ("restart in the middle", healthy + healthy, True),
        ("engine error while serving", killed, True),
        ("healthy log", healthy, False),
    ):
        for arm in ("clean", "contaminated"):
            yield Case(
                family=family,
                name=arm,
                run=Scenario(logs={arm: log}),
                cells=truth(start_void(arm) if void else {}, base="differ")
                if arm == "contaminated" or not void
                else truth(base="differ") | start_void(arm),
                exit_code=3 if void else 0,
            )


def _references() -> Iterator[Case]:
    """Rule 1: what is measured is held to references that agree with each other."""
    for document, token in itertools.product(DOCUMENTS, (0, 1, 2)):

        def drift(
            reply: Reply,
            arm: ArmPlan,
            cell: CellPlan,
            _: ProbePlan,
            *,
            document: str = document,
            token: int = token,
        ) -> None:
            if (arm.name, cell.place, cell.document) == ("contaminated", "after", document):
                reply.lists = moved(token, 0.25)

        yield Case(
            family="reference moved",
            name=f"{document}, token {token}",
            run=Scenario(changed(affected, drift)),
            cells=truth(start_void("contaminated"), base="differ"),
            exit_code=3,
        )
    for place in ("before", "after"):

        def unusable(
            reply: Reply, arm: ArmPlan, cell: CellPlan, _: ProbePlan, *, place: str = place
        ) -> None:
            """Its numbers are wrong, and so is its prompt: it is no reference."""
            if (arm.name, cell.place, cell.document) == ("contaminated", place, "one"):
                reply.prompt_tokens, reply.lists = 1, moved(2)

        yield Case(
            family="reference is no evidence",
            name=place,
            run=Scenario(changed(affected, unusable)),
            cells=truth(base="differ"),
            details={("contaminated", "one"): Detail(attribution="unattributed")},
        )
    yield from _references_by_hit_state()
    without = plan(experiment(reference_cells=False))
    nothing: dict[Place, Answers] = dict.fromkeys(truth(), "no evidence")
    yield Case(family="no references", name="plain", run=Scenario(plain, without), cells=nothing)
    split: dict[Place, Answers] = dict.fromkeys(
        (("contaminated", name) for name in DOCUMENTS), "differ"
    )
    yield Case(
        family="no references",
        name="affected",
        run=Scenario(affected, without),
        cells=nothing | split,
        details={place: Detail(attribution="unattributed") for place in split},
    )


def _references_by_hit_state() -> Iterator[Case]:
    def cold_differs(reply: Reply, arm: ArmPlan, _: CellPlan, probe: ProbePlan) -> None:
        if arm.prefix_caching == "on" and probe.role == "b" and reply.cached == 0:
            reply.lists = moved(2)

    both: dict[Place, Answers] = {
        (arm, document): "differ" for arm in ("clean", "contaminated") for document in DOCUMENTS
    }
    yield Case(
        family="reference by hit state",
        name="cold and cached runs differ everywhere alike",
        run=Scenario(changed(plain, cold_differs)),
        cells=truth(both),
        details={place: Detail(because="reference: equal") for place in both},
    )

    def third_state(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if arm.name == "contaminated" and cell.place != "measured" and reply.cached == 0:
            reply.lists = moved(2)
        if target(arm, cell, "one") and probe.role == "b":
            reply.cached = 8

    place = ("contaminated", "one")
    yield Case(
        family="reference by hit state",
        name="a state that no reference was in",
        run=Scenario(changed(plain, third_state)),
        cells=truth({place: "no evidence", ("contaminated", "two"): "differ"}),
        details={place: Detail(because="no reference to hold them to")},
    )
    for where in ("measured", "after"):

        def other_state(
            reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan, *, where: str = where
        ) -> None:
            if arm.name == "contaminated" and cell.place == where and probe.repeat == 2:
                reply.cached = 8

        yield Case(
            family="reference by hit state",
            name=f"one answer in every state, another one {where}",
            run=Scenario(changed(plain, other_state)),
            cells=truth(),
        )


def _caching_off() -> Iterator[Case]:
    """Rules 5 and 6: the arm without caching proves something only if caching is off in it."""

    def off(**values: object) -> Scenario:
        def change(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
            if arm.prefix_caching == "off" and (cell.place, probe.repeat) != ("before", 1):
                vars(reply).update(values)

        return Scenario(changed(affected, change))

    def engine_says(word: str) -> Scenario:
        return Scenario(cache_labels={"caching-off": {"enable_prefix_caching": word}})

    void = truth(start_void("caching-off"), base="differ")
    for name, run, because in (
        ("hits", off(cached=None, hits=CACHED), "cache that should be off"),
        ("counter unread", off(lacks="hits"), "hit counter could not be read, so"),
        ("engine silent", engine_says("None"), "prefix caching"),
        ("engine contrary", engine_says("True"), "prefix caching should be"),
    ):
        yield Case(
            family="caching not off",
            name=name,
            run=run,
            cells=void,
            details={("caching-off", "one"): Detail(because=because)},
        )
    yield Case(
        family="caching off, null in the answers",
        name="the counter and the engine's word are the proof",
        run=off(cached=None, hits=0),
        cells=truth(base="differ"),
        exit_code=0,
    )


def _remarks() -> Iterator[Case]:
    """What is said and voids nothing."""

    def not_best(reply: Reply, arm: ArmPlan, _: CellPlan, __: ProbePlan) -> None:
        if arm.name == "clean":
            reply.chosen = [reply.lists[0][1][0], *(entries[0][0] for entries in reply.lists[1:])]

    yield Case(
        family="remark",
        name="a chosen token that is not the most probable one",
        run=Scenario(changed(affected, not_best)),
        cells=truth(base="differ"),
        remark="[0] are not the most probable",
    )
    yield Case(
        family="remark",
        name="a cache of unknown size",
        run=Scenario(said={"clean": {"kv_cache_tokens": None}}),
        cells=truth(base="differ"),
        remark="how large its KV cache",
    )
