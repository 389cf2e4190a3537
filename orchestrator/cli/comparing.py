"""`vllm-arms compare`: a run and its baseline, from their folders."""

from collections.abc import Iterable
from pathlib import Path

from rich.text import Text

from orchestrator.adapters.run_store import RunStore
from orchestrator.baselines.comparison import compare_runs
from orchestrator.cli.progress import terminal
from orchestrator.judging.measured import ArmEvidence
from orchestrator.model.comparison import JudgedRun
from orchestrator.model.plan import Plan
from orchestrator.reporting.comparison import change_table, field_table
from orchestrator.runner import judge_evidence, stored_evidence


def print_comparison(run: Path, baseline: Path, *, as_json: bool) -> int:
    """The comparison as tables or as JSON; its exit code.

    Raises:
        RunFolderError: One of the two is no run's folder, or lacks a part.
    """
    comparison = compare_runs(judged_run(run), judged_run(baseline))
    console = terminal()
    if as_json:
        console.out(comparison.model_dump_json(indent=2), highlight=False)
        return comparison.exit_code
    for heading, fields in (
        ("differs, so nothing is compared", comparison.differing),
        ("not recorded by both", comparison.unknown),
    ):
        if fields:
            console.print(Text(heading, style="bold"))
            console.print(field_table(fields))
    if comparison.changes:
        console.print(change_table(comparison.changes))
    if not comparison.differing:
        console.print(
            Text(
                f"digests were set side by side in {comparison.digests_compared} of "
                f"{comparison.cells} cells; elsewhere no reference cell shows that they may be"
            ),
            soft_wrap=True,
        )
    console.print(Text(comparison.sentence), soft_wrap=True)
    return comparison.exit_code


def judged_run(folder: Path) -> JudgedRun:
    """Judge a run from its raw files, with what identifies it.

    Raises:
        RunFolderError: It is no run's folder, or lacks a part.
    """
    store = RunStore.open(folder)
    plan = store.read("plan.json", Plan)
    evidence = stored_evidence(plan, store)
    overlays = {arm.name: store.overlay(arm.name) for arm in plan.arms}
    return JudgedRun(
        name=folder.resolve().name,
        plan=plan,
        verdict=judge_evidence(plan, evidence, store),
        pins=_pins(store),
        patches={name: found.provenance for name, found in overlays.items() if found is not None},
        references=_references(evidence),
    )


def _pins(store: RunStore) -> dict[str, str | None]:
    host = store.start().host
    return {
        "architecture": host.architecture,
        "processor": host.cpu,
        "logical processors": str(host.cpus),
        "GPU driver": host.gpu_driver,
    }


def _references(evidence: Iterable[ArmEvidence]) -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for arm in evidence:
        for cell in arm.cells:
            if cell.plan.place != "measured":
                digests = found.setdefault((arm.plan.name, cell.plan.document), set())
                digests.update(p.digests.id_order for p in cell.probes if p.role == "b")
    return {key: frozenset(digests) for key, digests in found.items()}
