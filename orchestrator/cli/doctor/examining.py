"""The checks in order, their table, and the exit code."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import docker
from rich.table import Table
from rich.text import Text

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.cli.doctor import container_checks, engine_checks, machine_checks
from orchestrator.cli.doctor.asked import Asked, Resolved
from orchestrator.cli.planning import resolve_plan
from orchestrator.cli.progress import terminal
from orchestrator.errors import HostError, OrchestratorError
from orchestrator.model.check import Check, CheckResult, failed, ok
from orchestrator.model.engine import EngineFiles
from orchestrator.model.profile import DockerProfile

_STYLES: dict[CheckResult, str] = {"ok": "green", "failed": "bold red", "cannot say": "yellow"}

_Asks = tuple[Callable[[Asked], Check], ...]
_AsksResolved = tuple[Callable[[Resolved], Check], ...]

_OF_A_CONTAINER_ENGINE: _Asks = (
    container_checks.engine,
    container_checks.image,
    container_checks.gpu,
)
_OF_THE_MACHINE: _Asks = (
    machine_checks.machine,
    machine_checks.memory,
    machine_checks.disk,
    machine_checks.port,
    machine_checks.leftovers,
    machine_checks.rivals,
)
_OF_A_CONTAINER_PLAN: _AsksResolved = (container_checks.flags,)
_OF_A_PROCESS_PLAN: _AsksResolved = (
    engine_checks.engine,
    engine_checks.gpu,
    engine_checks.flags,
)
_OF_EVERY_PLAN: _AsksResolved = (engine_checks.patches, engine_checks.model)


def examine(project: Path, experiment: str, profile: str) -> int:
    """Check everything that a run needs, and print one line each.

    Returns:
        0, or 4 when a check failed. What cannot be said fails nothing: it is shown as what it is.

    Raises:
        DefinitionError: The experiment or the profile is no valid definition at all.
    """
    table = Table(header_style="bold")
    for heading in ("", "check", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    found = []
    for check in checks(project, experiment, profile):
        found.append(check.result)
        style = _STYLES[check.result]
        cells = (Text(check.sentence), Text(check.advice))
        table.add_row(Text(check.result, style=style), Text(check.name), *cells)
    console = terminal()
    console.print(table)
    unsaid, bad = found.count("cannot say"), found.count("failed")
    console.print(
        f"{profile}, {experiment}: {len(found)} checks, {bad} failed, {unsaid} cannot say"
    )
    return HostError.exit_code if bad else 0


def checks(project: Path, experiment: str, profile: str) -> Iterator[Check]:
    """Every check in turn; without a plan, those that need none."""
    definitions = Definitions(project)
    definitions.experiment(experiment)
    read = definitions.profile(profile)
    in_container = isinstance(read, DockerProfile)
    with ExitStack() as connected:
        asked = Asked(
            project=project, definitions=definitions, profile=read, client=_client(connected)
        )
        for check in (*(_OF_A_CONTAINER_ENGINE if in_container else ()), *_OF_THE_MACHINE):
            yield check(asked)
        try:
            planned = resolve_plan(project, experiment, profile, "quick", (), None)
        except OrchestratorError as error:
            yield failed("plan", f"{error}; what depends on it was not checked")
            return
        yield ok("plan", f"{experiment} resolves into {len(planned.plan.arms)} arms")
        resolved = Resolved(
            project=project,
            definitions=definitions,
            profile=read,
            client=asked.client,
            plan=planned.plan,
            model_dir=_model_dir(planned.stacks[0].engine),
        )
        own = _OF_A_CONTAINER_PLAN if in_container else _OF_A_PROCESS_PLAN
        for check_plan in (*own, *_OF_EVERY_PLAN):
            yield check_plan(resolved)


def _client(connected: ExitStack) -> docker.DockerClient | None:
    try:
        return connected.enter_context(docker_engine())
    except HostError:
        return None


def _model_dir(engine: EngineFiles) -> Path | None:
    """The model's folder on this machine, whatever the server sees it as."""
    if engine.container is None:
        folder = Path(engine.model_dir)
        return folder if folder.is_absolute() else None  # the miniature's is a mere name
    for mount in engine.container.mounts:
        if engine.model_dir and Path(engine.model_dir).is_relative_to(mount.target):
            return Path(mount.source) / Path(engine.model_dir).relative_to(mount.target)
    return None
