"""Families of runs with a patched arm: rule 7."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from orchestrator.model.experiment import CellKind
from orchestrator.model.patch import Overlay
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from tests.answers import moved
from tests.definitions import experiment, plan
from tests.patching.shipped import log_of, recorded_overlay
from tests.scenarios import CACHED, Reply, Scenario, Script, affected, changed, plain
from tests.truth.answering import target
from tests.truth.built import Answers, Case, Place

PATCHED_ARMS = ("contaminated", "patched", "sham")
EditLog = Callable[[bytes], bytes]
FOUR = ("one", "two", "three", "four")


def _patched_plan(arms: Sequence[str], patched_cell: CellKind) -> Plan:
    patches = {"patched": "stop-at-every-boundary", "sham": "sham"}
    defined = [
        {"name": name, "cell": patched_cell if name == "patched" else "contaminated"}
        for name in PATCHED_ARMS
    ]
    asked = experiment(
        documents=list(FOUR),
        arms=[arm | ({"patch": patch} if (patch := patches.get(arm["name"])) else {})
              for arm in defined],
        control="contaminated",
        expectations={},
    )  # fmt: skip
    return plan(asked, arms=arms)


def _patched_run(
    script: Script,
    *,
    log: EditLog = bytes,
    sham_log: EditLog = bytes,
    overlay: Overlay | None = None,
    arms: Sequence[str] = PATCHED_ARMS,
    patched_cell: CellKind = "contaminated",
) -> Scenario:
    """Overlays and logs are those of recorded starts; the logs may be edited."""
    return Scenario(
        script,
        _patched_plan(arms, patched_cell),
        overlays={
            "patched": overlay or recorded_overlay("patched", "stop-at-every-boundary"),
            "sham": recorded_overlay("sham", "sham"),
        },
        logs={"patched": log(log_of("patched")), "sham": sham_log(log_of("sham"))},
    )


def cured(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
    """The patch removes the effect, its sham does not."""
    return (plain if arm.name == "patched" else affected)(arm, cell, probe)


def _removal_truth(
    changes: Mapping[Place, Answers] = {}, arms: Sequence[str] = PATCHED_ARMS
) -> dict[Place, Answers]:
    cells: dict[Place, Answers] = {
        (arm, document): "equal" if arm == "patched" else "differ"
        for arm in arms
        for document in FOUR
    }
    return cells | dict(changes)


def cases() -> Iterator[Case]:
    """Rule 7: each condition missing once, and none."""
    yield Case(
        family="patch that removes it",
        name="everything is shown",
        run=_patched_run(cured),
        cells=_removal_truth(),
        removed=True,
    )
    yield from _removals_by_log()
    yield from _removals_by_answers()
    yield from _incomplete()
    yield Case(
        family="patch on other pairs",
        name="the patched arm sends no A",
        run=_patched_run(cured, patched_cell="reference"),
        cells=_removal_truth(),
        removed=False,
    )
    yield Case(
        family="sham patch did not run",
        name="its marker",
        run=_patched_run(cured, sham_log=lambda log: log.replace(b"PATCH sham", b"patch sham")),
        cells=_removal_truth(),
        removed=False,
    )


def _removals_by_log() -> Iterator[Case]:
    """The patched code must be what ran."""
    for removed in (True, False):
        marker = b"PATCH stop-at-every" if removed else b"patch of stop-at-every"
        yield Case(
            family="patch that removes it" if removed else "marker missing",
            name="the patched file is no module",
            run=_patched_run(
                cured,
                log=lambda log, marker=marker: log.replace(b"PATCH stop-at-every", marker),
                overlay=_of_no_module(),
            ),
            cells=_removal_truth(),
            removed=removed,
        )
    report = b'"runs_file": true, "pid": 29}'
    for family, name, old, new in (
        ("marker missing", "the marker", b"PATCH stop-at-every", b"patch of stop-at-every"),
        ("patch did not run", "no report", b"vllm-arms: loaded", b"vllm-arms: read"),
        ("patch did not run", "another file", b"/srv/overlays/patched/", b"/srv/engine/"),
        ("patch did not run", "another hash", b'"sha256": "c5', b'"sha256": "00'),
        ("patch did not run", "other byte code", report, report.replace(b"true", b"false")),
        ("patch did not run", "an unmarked process", b"pid=29) INFO 11-30 21:36:59 [scheduler.py",
         b"pid=28) INFO 11-30 21:36:59 [scheduler.py"),
    ):  # fmt: skip

        def edit(log: bytes, old: bytes = old, new: bytes = new) -> bytes:
            assert log.count(old) == 1, old
            return log.replace(old, new)

        yield Case(
            family=family,
            name=name,
            run=_patched_run(cured, log=edit),
            cells=_removal_truth(),
            removed=False,
        )


def _of_no_module() -> Overlay:
    """An overlay whose one patched file no interpreter imports: only the marker speaks for it."""
    overlay = recorded_overlay("patched", "stop-at-every-boundary").model_dump()
    (file,) = overlay["provenance"]["files"]
    file["file"] = "vllm/v1/core/sched/limits.json"
    return Overlay.model_validate(overlay)


def _sham_cures(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
    return (affected if arm.name == "contaminated" else plain)(arm, cell, probe)


def _too_few(name: str) -> Script:
    def script(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        few = arm.name == name and cell.document in ("three", "four")
        return (plain if few else cured)(arm, cell, probe)

    return script


def _still_diverges(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
    if target(arm, cell, "one", "patched") and probe.repeat in (2, 3, 4):
        reply.lists = moved(0)


def _other_hits(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
    if target(arm, cell, "one", "patched") and probe.repeat in (2, 3, 4):
        reply.cached = 2 * CACHED


def _unmeasured(reply: Reply, arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> None:
    reply.lost = target(arm, cell, "one", "patched") and probe.repeat == 4


def _removals_by_answers() -> Iterator[Case]:
    """The same pairs must be equal with the same hits, and the sham must not do the same."""
    few: dict[str, dict[Place, Answers]] = {
        name: dict.fromkeys(((name, document) for document in ("three", "four")), "equal")
        for name in ("contaminated", "sham")
    }
    sham_equal: dict[Place, Answers] = {("sham", document): "equal" for document in FOUR}
    patched = ("patched", "one")
    for family, name, script, changes in (
        ("sham patch that removes it", "it too is equal", _sham_cures, sham_equal),
        ("control that does not misbehave", "two documents", _too_few("contaminated"),
         few["contaminated"]),
        ("sham patch that removes it", "but for two documents", _too_few("sham"), few["sham"]),
        ("patch that does not remove it", "one document", changed(cured, _still_diverges),
         {patched: "differ"}),
        ("patch with other hits", "one document", changed(cured, _other_hits), {}),
        ("patch with a cell that is no evidence", "one document", changed(cured, _unmeasured),
         {patched: "no evidence"}),
    ):  # fmt: skip
        yield Case(
            family=family,
            name=name,
            run=_patched_run(script),
            cells=_removal_truth(changes),
            removed=False,
        )


def _incomplete() -> Iterator[Case]:
    """What a patched arm must be set beside did not run."""
    for left_out in ("sham", "contaminated"):
        arms = [arm for arm in PATCHED_ARMS if arm != left_out]
        yield Case(
            family="patched arm alone",
            name=f"without {left_out}",
            run=_patched_run(cured, arms=arms),
            cells=_removal_truth(arms=arms),
            removed=False,
            remark="did not run" if left_out == "contaminated" else "no sham-patched arm ran",
        )
