"""The commands that start no server."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.engine_preparation import default_cache
from orchestrator.adapters.log_files import scan_file
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.trimming import replacements, trim
from orchestrator.cli.overlaying import check_patches, read_patches
from orchestrator.cli.planning import engine_files, resolve_plan
from orchestrator.cli.progress import terminal
from orchestrator.cli.resuming import arms_made
from orchestrator.errors import HostError
from orchestrator.model.container import ContainerPlan
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, Selection
from orchestrator.model.serverlog import LogScan
from orchestrator.model.verdict import RunVerdict
from orchestrator.planning.plans import plan_hash
from orchestrator.reporting.markdown import markdown
from orchestrator.reporting.terminal import table
from orchestrator.runner import judge_run

_PROBE_S = 0.15
"""A probe of the tiny model with its counters, for the expected time; larger models take longer."""

_STOP_S = 3.0


def print_plan(
    project: Path, experiment: str, profile: str | None, selection: Selection, arms: Sequence[str]
) -> None:
    """Launch command of each arm, cells with token counts, prediction, expected time."""
    plan = resolve_plan(project, experiment, profile, selection, arms, None).plan
    console = terminal()

    def say(text: str) -> None:
        console.print(Text(text), soft_wrap=True)

    say(f"{plan.experiment} on {plan.profile}, plan {plan_hash(plan)}, purpose {plan.purpose}")
    say(_lengths(plan))
    for arm in plan.arms:
        say("")
        say(f"{arm.name}: expected {plan.expectations.get(arm.name, 'nothing in particular')}")
        settings = [f"{name}={shlex.quote(v)}" for name, v in arm.launch.environment.items()]
        say(f"  {' '.join(settings)} {shlex.join(arm.launch.argv)}")
        if arm.launch.container is not None:
            say(f"  {_container(arm.launch.container)}")
        console.print(_cells(arm))
    say("")
    say(_patches_fit(project, plan))
    probes = sum(len(cell.probes) for arm in plan.arms for cell in arm.cells)
    probes += sum(len(run.probes) for arm in plan.arms for run in arm.cold)
    expected_s = len(plan.arms) * (plan.expected_start_s + _STOP_S) + probes * _PROBE_S
    if plan.throughput is not None:
        runs = plan.arms[0].cold
        expected_s += len(plan.arms) * len(runs) * plan.throughput.hold_s
        lengths = ", ".join(str(run.prompt_tokens) for run in runs)
        say(
            f"then, on every start, cold requests of {lengths} tokens: {plan.throughput.repeats} of"
            " each after one that warms up"
        )
    say("")
    say(f"{len(plan.arms)} server starts, {probes} probes, about {expected_s:.0f} s")


def _container(container: ContainerPlan) -> str:
    mounts = ", ".join(f"{mount.source} at {mount.target}" for mount in container.mounts)
    asked = "" if container.image == container.declared else f" ({container.image[:19]})"
    return f"in a container of {container.declared}{asked}, {container.platform}; {mounts}"


def _patches_fit(project: Path, plan: Plan) -> str:
    patches = read_patches(Definitions(project).patches_dir, plan)
    if not patches.by_name:
        return "patches: none"
    try:
        check_patches(plan, patches)
    except HostError as error:
        return f"patches: not checked, since the engine is not there: {error}"
    return f"patches: {', '.join(patches.by_name)} fit the engine's files"


def _lengths(plan: Plan) -> str:
    if plan.suite is not None:
        return (
            f"{len(plan.suite.items)} items, {plan.suite.runs} runs each between two references; "
            f"at most {plan.max_tokens} tokens generated; structured output "
            f"{'on' if plan.suite.structured_output else 'off'}"
        )
    return (
        f"block {plan.block_size_tokens}, shared {plan.shared_tokens}, B {plan.b_tokens}, "
        f"A {', '.join(map(str, plan.a_tokens))} tokens; {plan.max_tokens} generated"
    )


def _cells(arm: ArmPlan) -> Table:
    result = Table(header_style="bold")
    for heading in ("cell", "A", "B", "times", "predicted cached tokens of B", "eligible"):
        result.add_column(heading, overflow="fold")
    for cell in arm.cells:
        result.add_row(*map(Text, _cell(cell)))
    return result


def _cell(cell: CellPlan) -> list[str]:
    repeats = sum(probe.role == "b" for probe in cell.probes)
    prediction = cell.prediction
    cached = "–"
    if prediction is not None:
        counts = [
            "unknown" if request.cached_tokens is None else str(request.cached_tokens)
            for probe, request in zip(cell.probes, prediction.requests, strict=True)
            if probe.role == "b"
        ]
        cached = ", ".join(counts)
    return [
        cell.id,
        "–" if cell.a_tokens is None else str(cell.a_tokens),
        "–" if cell.b_tokens is None else str(cell.b_tokens),
        str(repeats),
        cached,
        "–" if prediction is None else prediction.eligible,
    ]


def print_preparation(project: Path, profile: str) -> None:
    """Prepare the profile's engine, and say where it is."""
    definitions = Definitions(project)
    console = terminal()
    engine = engine_files(
        definitions,
        definitions.profile(profile),
        lambda line: console.print(Text(line), soft_wrap=True),
    )
    for name in ("python", "model_dir", "tokenizer_file", "identity"):
        console.print(Text(f"{name}: {getattr(engine, name)}"), soft_wrap=True)


def print_analysis(run: Path) -> int:
    """The run's table and sentence, judged anew; whether the stored verdict is the same."""
    store, plan = _open(run)
    verdict = judge_run(plan, store)
    console = terminal()
    console.print(Text(f"server: {verdict.engine}"))
    console.print(table(verdict))
    console.print(Text(verdict.sentence), soft_wrap=True)
    if store.has("verdicts.json"):
        same = store.read("verdicts.json", RunVerdict) == verdict
        word = "the same as" if same else "DIFFERENT from"
        console.print(f"verdicts.json: {word} this judgement")
    else:
        console.print("verdicts.json: there is none; the run was not finished")
    return verdict.exit_code


def print_trimming(project: Path, run: Path, target: Path) -> None:
    """Trim a run, and say what was replaced."""
    store, plan = _open(run)
    verdict = judge_run(plan, store)
    report = markdown(
        plan,
        verdict,
        command=shlex.join(store.start().command),
        made=arms_made(plan, store),
    )
    judged = {"verdicts.json": verdict.model_dump_json() + "\n", "report.md": report}
    counts = trim(store, target, replacements(project, default_cache()), judged=judged)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    console = terminal()
    console.print(Text(f"{target}: {size:,} bytes"))
    for stand_in, count in counts.items():
        console.print(Text(f"  {stand_in} stands {count} times"))


def print_log_scans(files: Sequence[Path], *, as_json: bool) -> None:
    """Facts and findings of each log."""
    console = terminal()
    for path in files:
        scan = scan_file(path)
        if as_json:
            console.out(scan.model_dump_json(), highlight=False)
        else:
            console.print(Text(f"{path}: {scan.lines} lines"), soft_wrap=True)
            console.print(_scan_table(scan))


def _scan_table(scan: LogScan) -> Table:
    result = Table(header_style="bold")
    for heading in ("line", "what", "value", "as the log says it"):
        result.add_column(heading, overflow="fold")
    for fact in scan.facts:
        result.add_row(*map(Text, (str(fact.line), fact.name, str(fact.value), fact.text)))
    for finding in scan.findings:
        what = f"{finding.severity}: {finding.name}"
        result.add_row(
            *map(Text, (str(finding.line), what, finding.summary, finding.excerpt)), style="yellow"
        )
    return result


def _open(run: Path) -> tuple[RunStore, Plan]:
    store = RunStore.open(run)
    return store, store.read("plan.json", Plan)
