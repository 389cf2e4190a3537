"""`vllm-arms run`: everything wired together."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import structlog
from rich.text import Text

from orchestrator.adapters.arm_server import ArmServer, running_arm_server
from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.host_account import accounted_host
from orchestrator.adapters.host_facts import host_facts, host_state
from orchestrator.adapters.ownership import this_process
from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.overlaying import Patches, check_patches, overlaid, read_patches
from orchestrator.cli.planning import Planned, resolve_plan
from orchestrator.cli.progress import ConsoleProgress, terminal
from orchestrator.cli.signals import interruptible
from orchestrator.cli.starting import runtime_of, write_launch
from orchestrator.errors import InterruptedRunError, OrchestratorError
from orchestrator.model.engine import EngineFacts
from orchestrator.model.host import RunEnd, RunStart
from orchestrator.model.plan import ArmPlan, Plan, Selection
from orchestrator.planning.plans import plan_hash
from orchestrator.reporting.markdown import markdown
from orchestrator.reporting.terminal import table
from orchestrator.requesting import PATH
from orchestrator.runner import StartServer, execute, judge_run

log = structlog.get_logger()


def run_experiment(
    project: Path, experiment: str, profile: str, selection: Selection, arms: Sequence[str]
) -> int:
    """Prepare, plan, execute, judge, report; the exit code.

    Raises:
        OrchestratorError: Whatever kept the run from being made or finished. A run folder that
            was begun is closed with the reason.
    """
    console = terminal()
    progress = ConsoleProgress(console)
    with interruptible() as hurry:
        planned = resolve_plan(project, experiment, profile, selection, arms, progress.line)
        patches = read_patches(Definitions(project).patches_dir, planned.plan)
        check_patches(planned.plan, patches)
        store = _begin(project, planned.plan)
        progress.line(f"run: {store.root}")
        with _logging_to(store.root / "orchestrator.jsonl"):
            try:
                exit_code = _execute(
                    planned.plan, store, progress, _starter(planned, store, patches, hurry)
                )
            except OrchestratorError as error:
                interrupted = isinstance(error, InterruptedRunError)
                _end(store, "interrupted" if interrupted else "failed", error.exit_code, str(error))
                raise
            finally:
                progress.close()
    return exit_code


def _execute(
    plan: Plan, store: RunStore, progress: ConsoleProgress, start_server: StartServer
) -> int:
    log.info("run.started", experiment=plan.experiment, profile=plan.profile)
    execute(plan, start_server=start_server, store=store, progress=progress)
    verdict = judge_run(plan, store)
    store.write_text("verdicts.json", verdict.model_dump_json() + "\n")
    store.write_text("report.md", markdown(plan, verdict, command=shlex.join(_command())))
    _end(store, "finished", verdict.exit_code, verdict.sentence)
    log.info("run.finished", result=verdict.result, exit_code=verdict.exit_code)
    console = terminal()
    console.print(Text(f"server: {verdict.engine}"))
    console.print(table(verdict))
    progress.line(verdict.sentence)
    progress.line(f"report: {store.root / 'report.md'}")
    return verdict.exit_code


def _begin(project: Path, plan: Plan) -> RunStore:
    now = datetime.now(UTC)
    store = RunStore.create(project / "runs", plan.experiment, plan_hash(plan), now)
    store.write_text("plan.json", plan.model_dump_json() + "\n")
    start = RunStart(
        started_at=now,
        command=tuple(_command()),
        owner=this_process(),
        host=host_facts(project),
        state=host_state(),
    )
    store.write("run.json", start)
    return store


def _end(store: RunStore, how: str, exit_code: int, reason: str) -> None:
    values = {"ended_at": datetime.now(UTC), "how": how, "exit_code": exit_code, "reason": reason}
    store.write("end.json", RunEnd.model_validate(values | {"state": host_state()}))


def _command() -> list[str]:
    return ["vllm-arms", *sys.argv[1:]]


def _starter(
    planned: Planned, store: RunStore, patches: Patches, hurry: Event
) -> Callable[..., AbstractContextManager[tuple[ArmServer, EngineFacts]]]:
    @contextmanager
    def start_server(
        arm: ArmPlan, ready_body: bytes, on_wait: Callable[[float, str], None]
    ) -> Iterator[tuple[ArmServer, EngineFacts]]:
        with (
            overlaid(arm, patches, store) as launched,
            accounted_host(
                launched.launch.host,
                lambda account: store.save_host(arm.name, account),
                hurry=hurry,
            ),
            runtime_of(launched, store) as runtime,
        ):
            write_launch(store, launched, planned.engine)
            with running_arm_server(
                launched,
                ready_body=ready_body,
                path=PATH,
                log_file=store.arm_dir(arm.name) / "server.log",
                memory_file=store.arm_dir(arm.name) / "memory.jsonl",
                keep=lambda exchange: store.keep(arm.name, exchange),
                keep_beats=lambda probe, beats: store.keep_beats(arm.name, probe, beats),
                on_wait=on_wait,
                hurry=hurry,
                runtime=runtime,
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
