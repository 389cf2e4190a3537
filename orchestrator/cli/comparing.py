"""`vllm-arms compare`: a run and its baseline, from their folders."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.text import Text

from orchestrator.adapters.run_store import RunStore
from orchestrator.baselines.comparison import compare_runs
from orchestrator.cli.progress import terminal
from orchestrator.judging.measured import ArmEvidence
from orchestrator.model.comparison import JudgedRun
from orchestrator.model.plan import Plan
from orchestrator.model.provenance import ArmProvenance
from orchestrator.reporting.comparison import change_table, field_table, speed_table
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
    if comparison.cold:
        console.print(speed_table(comparison.cold))
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
        pins=_pins(store, [store.provenance(arm.name) for arm in plan.arms]),
        patches={name: found.provenance for name, found in overlays.items() if found is not None},
        references=_references(evidence),
        cold={arm.plan.name: arm.cold for arm in evidence},
    )


def _pins(store: RunStore, provenance: Sequence[ArmProvenance | None]) -> dict[str, str | None]:
    host = store.start().host
    models = [None if made is None else made.model for made in provenance]
    installed = [None if made is None else made.installation for made in provenance]
    return {
        "model files": _of_all([None if m is None else m.list_sha256[:12] for m in models]),
        "vLLM build": _of_all([None if i is None else i.vllm_commit for i in installed]),
        "torch": _of_all([None if i is None else i.packages.get("torch") for i in installed]),
        "CUDA of torch": _of_all([None if i is None else i.torch_cuda for i in installed]),
        "architecture": host.architecture,
        "processor": host.cpu,
        "logical processors": str(host.cpus),
        "GPU driver": host.gpu_driver,
    }


def _of_all(readings: Sequence[str | None]) -> str | None:
    """What the arms have, in their order, each once; `None` when one of them does not say."""
    said = [reading for reading in readings if reading is not None]
    return ", ".join(dict.fromkeys(said)) if len(said) == len(readings) else None


def _references(evidence: Iterable[ArmEvidence]) -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for arm in evidence:
        for cell in arm.cells:
            if cell.plan.place != "measured":
                digests = found.setdefault((arm.plan.name, cell.plan.document), set())
                digests.update(p.digests.id_order for p in cell.probes if p.role == "b")
    return {key: frozenset(digests) for key, digests in found.items()}
