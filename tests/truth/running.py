"""Families about what follows for a run: rules 5, 8 and 14, and arms that failed."""

from collections.abc import Iterator

from orchestrator.model.outcome import Failed
from orchestrator.model.plan import ArmPlan, CellPlan, ProbePlan
from tests.answers import moved
from tests.definitions import experiment, plan, profile
from tests.scenarios import Change, Reply, Scenario, Script, affected, changed, plain
from tests.truth.answering import DOCUMENTS, edited, lower, target, truth
from tests.truth.built import Answers, Case, Detail, Place
from tests.truth.gating import PREDICTED, start_void

UNLISTED = profile(name="unlisted")
"""Nothing is expected of it: purpose `check`."""


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _expectations()
    yield from _attributions()
    yield from _failures()
    yield from _cut_at_the_shared_prefix()


def only(document: str) -> Script:
    """Affected in one document, and not in the other."""

    def script(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        return (affected if cell.document == document else plain)(arm, cell, probe)

    return script


def _expectations() -> Iterator[Case]:
    """Rule 14; and rule 8: a negative is counted, with what diverged elsewhere."""
    first: dict[Place, Answers] = {("contaminated", "one"): "differ"}
    for purpose, launched in (("reproduce", None), ("check", UNLISTED)):
        reproduces = launched is None
        for name, script, cells, exit_code in (
            ("affected", affected, truth(base="differ"), 0 if reproduces else 1),
            ("control that does not misbehave", plain, truth(), 1 if reproduces else 0),
            ("half of it", only("one"), truth(first), 1),
        ):
            other = "1 diverged" if name == "half of it" else None
            yield Case(
                family="control that does not misbehave" if script is plain else "purpose",
                name=f"{purpose}, {name}",
                run=Scenario(script, plan(launched=launched)),
                cells=cells,
                exit_code=exit_code,
                remark=f"2 documents × lengths ({other} in another arm)" if other else None,
            )


def _attributions() -> Iterator[Case]:
    """Rule 5: contamination is said when the arm without caching is there and equal throughout."""

    def off_flickers(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if target(arm, cell, "one", "caching-off") and probe.repeat == 2:
            reply.lists = moved(0)

    contaminated = [("contaminated", document) for document in DOCUMENTS]
    unattributed = {place: Detail(attribution="unattributed") for place in contaminated}
    yield Case(
        family="caching-off is not equal",
        name="one cell of it differs",
        run=Scenario(changed(affected, off_flickers)),
        cells=truth({("caching-off", "one"): "differ"}, base="differ"),
        details=unattributed,
        exit_code=1,
    )
    made = plan(arms=["clean", "contaminated"])
    yield Case(
        family="no caching-off arm",
        name="nothing is called contamination",
        run=Scenario(affected, made),
        cells={
            place: said for place, said in truth(base="differ").items() if "off" not in place[0]
        },
        details=unattributed,
    )

    def clean_differs(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        if target(arm, cell, "one", "clean") and (probe.repeat or 0) > 1:
            reply.lists = moved(0)

    yield Case(
        family="clean diverges",
        name="nothing came before B: no contamination",
        run=Scenario(changed(affected, clean_differs)),
        cells=truth({("clean", "one"): "differ"}, base="differ"),
        details={("clean", "one"): Detail(attribution="unattributed")},
        exit_code=1,
    )


def _failures() -> Iterator[Case]:
    """What was not measured is never equal; a definite bad answer outranks a failed arm."""

    def lost(name: str) -> Change:
        def change(reply: Reply, arm: ArmPlan, _: CellPlan, __: ProbePlan) -> None:
            reply.lost = arm.name == name

        return change

    def clean_too(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
        lost("caching-off")(reply, arm, cell, probe)
        if target(arm, cell, "one", "clean") and probe.repeat == 2:
            reply.lists = moved(0)

    for stage in ("start", "wait", "probe"):
        failed = Failed.model_validate({"stage": stage, "error": "ServerDiedError: exit code 1"})
        void = truth(start_void("caching-off"), base="differ")
        yield Case(
            family="failed arm",
            name=f"in stage {stage}",
            run=Scenario(changed(affected, lost("caching-off")), outcomes={"caching-off": failed}),
            cells=void,
            details={("caching-off", "one"): Detail(because="exit code 1")},
            exit_code=4,
        )
        yield Case(
            family="failed arm",
            name=f"in stage {stage}, and a clean arm that diverges",
            run=Scenario(changed(affected, clean_too), outcomes={"caching-off": failed}),
            cells=void | {("clean", "one"): "differ"},
            exit_code=1,
        )
    stop = Failed(stage="stop", error="did not end")
    yield Case(
        family="failed arm",
        name="after everything was measured",
        run=Scenario(outcomes={"clean": stop}),
        cells=truth(base="differ"),
        exit_code=4,
    )


def _cut_at_the_shared_prefix() -> Iterator[Case]:
    """Nothing that B restores is of mixed origin, and its first run is cut where A's keys end."""
    made = plan(experiment(sizes={"shared": "35", "b": "50", "a": ["48"]}), PREDICTED)

    def script(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        assert cell.prediction is not None
        index = cell.probes.index(probe)
        reply = plain(arm, cell, probe)
        reply.cached = cell.prediction.requests[index].cached_tokens
        if arm.name == "contaminated" and cell.place == "measured" and probe.repeat == 1:
            reply.lists = edited(reply.lists, 0, lower(1, 0.125))
        return reply

    yield Case(
        family="not eligible, cut at the shared prefix",
        name="the reason names the place",
        run=Scenario(script, made),
        cells=truth(base="differ"),
        details={
            ("contaminated", document): Detail(
                repeats="first-differs", because="cut at the shared prefix, at 16"
            )
            for document in DOCUMENTS
        },
    )
