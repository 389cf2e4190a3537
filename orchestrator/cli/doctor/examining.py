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
from orchestrator.cli.doctor.asked import Asked
from orchestrator.cli.planning import resolve_plan
from orchestrator.cli.progress import terminal
from orchestrator.errors import HostError, OrchestratorError
from orchestrator.model.check import Check, CheckResult, failed, ok
from orchestrator.model.engine import EngineFiles
from orchestrator.model.profile import DockerProfile

_STYLES: dict[CheckResult, str] = {"ok": "green", "failed": "bold red", "cannot say": "yellow"}

_OF_A_PROCESS: tuple[Callable[[Asked], Check], ...] = (
    machine_checks.machine,
    engine_checks.engine,
    engine_checks.gpu,
    engine_checks.flags,
    engine_checks.patches,
)
_OF_A_CONTAINER: tuple[Callable[[Asked], Check], ...] = (
    container_checks.engine,
    container_checks.image,
    container_checks.gpu,
    container_checks.flags,
    engine_checks.patches,
)
_OF_BOTH: tuple[Callable[[Asked], Check], ...] = (
    engine_checks.model,
    machine_checks.memory,
    machine_checks.disk,
    machine_checks.port,
    machine_checks.leftovers,
    machine_checks.rivals,
)


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
    """Every check in turn; without a plan, the first one alone."""
    definitions = Definitions(project)
    definitions.experiment(experiment)
    read = definitions.profile(profile)
    try:
        planned = resolve_plan(project, experiment, profile, "quick", (), None)
    except OrchestratorError as error:
        yield failed("plan", str(error))
        return
    yield ok("plan", f"{experiment} resolves into {len(planned.plan.arms)} arms")
    with ExitStack() as connected:
        asked = Asked(
            project=project,
            definitions=definitions,
            profile=read,
            plan=planned.plan,
            model_dir=_model_dir(planned.engine),
            client=_client(connected),
        )
        own = _OF_A_CONTAINER if isinstance(read, DockerProfile) else _OF_A_PROCESS
        for check in (*own, *_OF_BOTH):
            yield check(asked)


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
