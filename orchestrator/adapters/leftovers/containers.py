"""Containers of ours, on the engine that DOCKER_HOST or the Docker context names."""

from contextlib import suppress
from pathlib import Path

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from orchestrator.adapters.container_log import keep_engines_copy
from orchestrator.adapters.docker_engine import UNREACHABLE, said
from orchestrator.adapters.docker_server import inspect
from orchestrator.adapters.leftovers.leftover import Leftover
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.server_container import kill
from orchestrator.errors import HostError
from orchestrator.model.labels import OWNER, read_labels


def left_containers(client: docker.DockerClient) -> tuple[Leftover, ...]:
    """Every container that carries our label, running or not.

    Raises:
        HostError: The engine does not answer.
    """
    try:
        containers = client.containers.list(
            all=True,
            filters={"label": OWNER},
            ignore_removed=True,  # while they are being looked at, by their own orchestrator
        )
    except UNREACHABLE as error:
        raise HostError(f"the engine does not list its containers: {said(error)}") from error
    return tuple(map(_leftover, containers))


def _leftover(container: Container) -> Leftover:
    labels = read_labels(container.labels)
    belongs = "" if labels is None or labels.run is None else f" of run {labels.run}"
    arm = "" if labels is None or labels.arm is None else f", arm {labels.arm}"
    named = None if labels is None else labels.folder
    folder = None if named is None or not Path(named).is_dir() else Path(named)
    return Leftover(
        what=f"container {container.short_id}{belongs}{arm}",
        owner=None if labels is None else labels.owner,
        removal="removed; no run's folder is there for its log"
        if folder is None
        else "its log and inspection saved, then removed",
        remove=lambda: _remove(container, folder),
    )


def _remove(container: Container, folder: Path | None) -> None:
    """Kill, save, remove; what cannot be saved is not removed."""
    try:
        with suppress(NotFound):  # another reap was faster
            kill(container)
            if folder is not None:
                _save(container, folder)
            container.remove(force=True, v=True)
    except (*UNREACHABLE, OSError) as error:
        raise HostError(f"not removed: {said(error)}") from error


def _save(container: Container, folder: Path) -> None:
    """What the orchestrator wrote of the log ends where it was killed; the engine has all of it."""
    keep_engines_copy(container, folder / "server.log")
    with suppress(FileExistsError):  # it was killed after that
        inspect(container, lambda text: RunStore(folder).write_text("inspection.json", text))
