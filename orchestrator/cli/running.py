"""`vllm-arms run`: everything wired together."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import structlog

from orchestrator.adapters.arm_server import ArmServer, running_arm_server
from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.host_facts import host_facts, host_state
from orchestrator.adapters.ownership import this_process
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.runs_folder import point_latest
from orchestrator.cli.listing import refresh_index
from orchestrator.cli.overlaying import Patches, check_patches, overlaid, read_patches
from orchestrator.cli.planning import Planned, Wanted, resolve_plan
from orchestrator.cli.progress import ConsoleProgress, terminal
from orchestrator.cli.reporting import page
from orchestrator.cli.resuming import Earlier, Takeover, arms_made, take_over, what_to_keep
from orchestrator.cli.signals import interruptible
from orchestrator.cli.starting import host_of, runtime_of, write_launch
from orchestrator.errors import (
    HostError,
    InterruptedRunError,
    OrchestratorError,
    RunFolderError,
)
from orchestrator.model.engine import EngineFacts
from orchestrator.model.host import RunEnd, RunStart
from orchestrator.model.plan import ArmPlan
from orchestrator.model.verdict import RunVerdict
from orchestrator.planning.plans import plan_hash
from orchestrator.reporting.markdown import markdown
from orchestrator.runner import StartServer, execute, judge_run

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run whose folder holds its plan, and whose arms are still to be run."""

    project: Path
    planned: Planned
    patches: Patches
    store: RunStore
    command: tuple[str, ...]
    """Makes such a run from nothing; stands in its report."""

    takeover: Takeover | None
    """Finished arms of an earlier run; `None` when nothing is resumed."""


def run_experiment(project: Path, wanted: Wanted, earlier: Earlier | None) -> int:
    """Prepare, plan, execute, judge, report; the exit code.

    Args:
        project: The folder with `arms/`, `launch_profiles/` and `runs/`.
        wanted: What to run.
        earlier: A run of the same whose finished arms are kept.

    Raises:
        OrchestratorError: Whatever kept the run from being made or finished. A run folder that
            was begun is closed with the reason.
    """
    progress = ConsoleProgress(terminal())
    with interruptible() as hurry:
        typed = ("vllm-arms", *sys.argv[1:])
        command = typed if earlier is None else wanted.command()
        begun = begin_run(project, wanted, progress, command=command, earlier=earlier)
        verdict = carry_out(begun, progress, hurry)
    return verdict.exit_code


def begin_run(
    project: Path,
    wanted: Wanted,
    progress: ConsoleProgress,
    *,
    command: tuple[str, ...],
    earlier: Earlier | None = None,
    nightly: str | None = None,
) -> Begun:
    """Prepare the engine, make the plan, and the folder of a run of it.

    Raises:
        OrchestratorError: A definition is wrong, the engine or the disk cannot be used, or
            `earlier` was made under other conditions.
    """
    planned = resolve_plan(
        project, wanted.experiment, wanted.profile, wanted.selection, wanted.arms, progress.line
    )
    plan = planned.plan
    patches = read_patches(Definitions(project).patches_dir, plan)
    check_patches(plan, patches)
    start = RunStart(
        started_at=datetime.now(UTC),
        command=command,
        owner=this_process(),
        host=host_facts(project),
        state=host_state(),
        nightly=nightly,
    )
    takeover = None if earlier is None else what_to_keep(earlier, plan, patches, start)
    runs = project / "runs"
    store = RunStore.create(runs, plan.experiment, plan_hash(plan), start.started_at)
    store.write_text("plan.json", plan.model_dump_json() + "\n")
    store.write("run.json", start)
    point_latest(runs, store.root)
    progress.line(f"run: {store.root}")
    return Begun(
        project=project,
        planned=planned,
        patches=patches,
        store=store,
        command=command,
        takeover=takeover,
    )


def carry_out(begun: Begun, progress: ConsoleProgress, hurry: Event) -> RunVerdict:
    """Run the arms, judge, report, and leave the index page with this run in it.

    Raises:
        OrchestratorError: Whatever kept the run from being finished; its folder is closed with
            the reason.
        InterruptedRunError: Likewise.
    """
    store = begun.store
    with _logging_to(store.root / "orchestrator.jsonl"):
        try:
            return _execute(begun, progress, _starter(begun, hurry))
        except (OrchestratorError, InterruptedRunError) as error:
            if not store.has("end.json"):  # else all but the page was done: the run is finished
                interrupted = isinstance(error, InterruptedRunError)
                how = "interrupted" if interrupted else "failed"
                _end(store, how, error.exit_code, str(error))
            raise
        finally:
            progress.close()
            _list_again(begun.project, progress)


def _execute(begun: Begun, progress: ConsoleProgress, start_server: StartServer) -> RunVerdict:
    plan, store = begun.planned.plan, begun.store
    log.info("run.started", experiment=plan.experiment, profile=plan.profile)
    kept = _take_over(begun, progress)
    execute(plan, start_server=start_server, store=store, progress=progress, kept=kept)
    try:
        return _conclude(begun, progress)
    except RunFolderError as error:  # this very run wrote it: the disk's fault, not the caller's
        raise HostError(f"what this run wrote is no longer there: {error}") from error


def _conclude(begun: Begun, progress: ConsoleProgress) -> RunVerdict:
    plan, store = begun.planned.plan, begun.store
    verdict = judge_run(plan, store)
    store.write_text("verdicts.json", verdict.model_dump_json() + "\n")
    made = arms_made(plan, store)
    report = markdown(plan, verdict, command=shlex.join(begun.command), made=made)
    store.write_text("report.md", report)
    _end(store, "finished", verdict.exit_code, verdict.sentence)
    log.info("run.finished", result=verdict.result, exit_code=verdict.exit_code)
    progress.result(verdict)
    # Last, since it can be made anew: what goes wrong in drawing it leaves the run finished.
    store.write_text("report.html", page(plan, verdict, store))
    progress.line(f"report: {store.root / 'report.html'}")
    return verdict


def _take_over(begun: Begun, progress: ConsoleProgress) -> frozenset[str]:
    """Names of the arms that are there now without being run."""
    if begun.takeover is None:
        return frozenset()
    kept = take_over(begun.takeover, begun.store)
    told = ", ".join(kept) or "no arm was finished"
    progress.line(f"kept of {begun.takeover.earlier.name}: {told}")
    return frozenset(kept)


def _list_again(project: Path, progress: ConsoleProgress) -> None:
    """A page that cannot be written takes nothing from the run that it would list."""
    try:
        refresh_index(project)
    except HostError as error:
        log.warning("index.not_written", error=str(error))
        progress.line(f"the index of runs is not up to date: {error}")


def _end(store: RunStore, how: str, exit_code: int, reason: str) -> None:
    values = {"ended_at": datetime.now(UTC), "how": how, "exit_code": exit_code, "reason": reason}
    store.write("end.json", RunEnd.model_validate(values | {"state": host_state()}))


def _starter(
    begun: Begun, hurry: Event
) -> Callable[..., AbstractContextManager[tuple[ArmServer, EngineFacts]]]:
    store = begun.store

    @contextmanager
    def start_server(
        arm: ArmPlan, ready_body: bytes, on_wait: Callable[[float, str], None]
    ) -> Iterator[tuple[ArmServer, EngineFacts]]:
        with (
            overlaid(arm, begun.patches, store) as launched,
            host_of(launched, store, hurry) as read_there,
            runtime_of(launched, store) as runtime,
        ):
            write_launch(store, launched, begun.planned.engine_of(arm))
            with running_arm_server(
                launched,
                ready_body=ready_body,
                log_file=store.arm_dir(arm.name) / "server.log",
                memory_file=store.arm_dir(arm.name) / "memory.jsonl",
                keep=lambda exchange: store.keep(arm.name, exchange),
                keep_beats=lambda probe, beats: store.keep_beats(arm.name, probe, beats),
                on_wait=on_wait,
                hurry=hurry,
                runtime=runtime,
                read_there=read_there,
            ) as started:
                yield started

    return start_server


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Our own events, as JSON lines, into the run's folder."""
    with path.open("x", encoding="utf-8") as file:
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(),
            ],
            logger_factory=structlog.WriteLoggerFactory(file),
            cache_logger_on_first_use=False,
        )
        try:
            yield
        finally:
            structlog.reset_defaults()
