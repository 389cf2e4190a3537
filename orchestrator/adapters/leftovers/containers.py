"""Containers of ours, on the engine that DOCKER_HOST or the Docker context names."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from orchestrator.adapters.container_log import ContainerLog
from orchestrator.adapters.docker_engine import UNREACHABLE, said
from orchestrator.adapters.docker_server import inspect, kill
from orchestrator.adapters.leftovers.leftover import Leftover
from orchestrator.adapters.run_store import RunStore
from orchestrator.errors import HostError
from orchestrator.model.labels import OWNER, ContainerLabels, read_labels


def left_containers(client: docker.DockerClient) -> Iterator[Leftover]:
    """Every container that carries our label, running or not.

    Raises:
        HostError: The engine does not answer.
    """
    try:
        containers = client.containers.list(all=True, filters={"label": OWNER})
    except UNREACHABLE as error:
        raise HostError(f"the engine does not list its containers: {said(error)}") from error
    for container in containers:
        labels = read_labels(container.labels)
        belongs = "" if labels is None or labels.run is None else f" of run {labels.run}"
        arm = "" if labels is None or labels.arm is None else f", arm {labels.arm}"
        yield Leftover(
            what=f"container {container.short_id}{belongs}{arm}",
            owner=None if labels is None else labels.owner,
            removal="its log and inspection saved, then removed",
            remove=lambda container=container, labels=labels: _remove(client, container, labels),  # type: ignore[misc]  # bound at once
        )


def _remove(client: docker.DockerClient, container: Container, labels: ContainerLabels) -> None:
    """Kill, save, remove; what cannot be saved is not removed."""
    try:
        with suppress(NotFound):  # another reap was faster
            kill(container)
            if labels.folder is not None and Path(labels.folder).is_dir():
                _save(client, container, Path(labels.folder))
            container.remove(force=True, v=True)
    except (*UNREACHABLE, OSError) as error:
        raise HostError(f"not removed: {said(error)}") from error


def _save(client: docker.DockerClient, container: Container, folder: Path) -> None:
    """The engine has the whole log; the orchestrator's copy ends where it was killed."""
    whole = folder / "server.log.reaped"
    names = {whole: "server.log", whole.with_name(f"{whole.name}.times"): "server.log.times"}
    for path in names:  # of a reap that was killed
        path.unlink(missing_ok=True)
    ContainerLog(client, str(container.id), whole).finish()
    for path, name in names.items():
        path.replace(folder / name)
    with suppress(FileExistsError):  # it was killed after that
        inspect(container, lambda text: RunStore(folder).write_text("inspection.json", text))
