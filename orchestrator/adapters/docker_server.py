"""Container lifetime: one server in a container of its own, gone when the block is left.

    create ── put our files in ── attach to its output ── start ─┐
                                                                 │ the block
    remove ── save the inspection ── rest of the output ── stop ─┘

Every step of the way down is taken whatever became of the one before it.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import docker
import structlog
from docker.models.containers import Container
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    stop_when_event_set,
    wait_fixed,
)

from orchestrator.adapters.container_creation import Creation, create, start
from orchestrator.adapters.container_log import ContainerLog
from orchestrator.adapters.docker_engine import UNREACHABLE, said
from orchestrator.adapters.engine_place import SshPlace
from orchestrator.adapters.process_server import command_line
from orchestrator.adapters.server_container import (
    KILL_LIMIT_S,
    ServerContainer,
    already_ended,
    kill,
    published_port,
)
from orchestrator.adapters.ssh_tunnel import port_tunnel
from orchestrator.errors import HostError, InterruptedRunError
from orchestrator.model.labels import ContainerLabels, as_labels
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.secrets import without_secrets

log = structlog.get_logger()

_ENGINE_BACK_LIMIT_S = 60.0
"""For an engine that is restarted while a container of ours runs; 1 to 3 s were seen."""


@contextmanager
def running_container(
    launch: LaunchPlan,
    *,
    port: int,
    log_file: Path,
    hurry: threading.Event,
    client: docker.DockerClient,
    labels: ContainerLabels,
    keep_inspection: Callable[[str], None],
    place: SshPlace | None = None,
) -> Iterator[ServerContainer]:
    """Start a server in a container and leave nothing of it behind but its log and inspection.

    However the block is left: SIGTERM, the profile's grace, SIGKILL; the rest of the log, the
    inspection, and removal with its anonymous volumes. When this program is killed, the container
    stays, and its labels say whose it was.

    Args:
        launch: The command, with a container; `{port}` in it becomes `port`.
        port: Where it listens, inside as well as on 127.0.0.1 of this machine.
        log_file: Gets stdout and stderr from the first byte; must not exist. Two files lie beside
            it (`container_log`).
        hurry: Set by a second signal: the grace is over at once.
        client: The engine; a bound argument of what is given on as a `Runtime`.
        labels: Likewise; by which the container is known to be ours.
        keep_inspection: Likewise; gets `docker inspect` as JSON, without secrets.
        place: Likewise; the engine's machine, where it is not this one. There the engine chooses a
            port, and `port` leads to it through an SSH tunnel.

    Raises:
        HostError: The engine refuses, or the container could not be removed.
        ServerNotReadyError: The port is taken.
    """
    way_down = _WayDown()
    with ExitStack() as cleanup:
        published = port if place is None else 0
        creation = Creation(
            client, lambda name: _create(client, name, launch, port, published, labels)
        )
        cleanup.callback(way_down.attempt, creation.undo)
        cleanup.callback(way_down.attempt, _wait_for_engine, client, hurry)
        container = creation.container()
        cleanup.callback(way_down.attempt, inspect, container, keep_inspection)
        container_log = _attached(client, container, log_file)
        cleanup.callback(way_down.attempt, container_log.close)
        cleanup.callback(way_down.attempt, container_log.finish)
        cleanup.callback(way_down.attempt, kill, container)  # whatever became of `_stop`
        cleanup.callback(way_down.attempt, _wait_for_engine, client, hurry)
        start(container, port)
        at = published or published_port(container, port)
        server = ServerContainer(container, at)
        cleanup.callback(way_down.attempt, _stop, server, container, launch.stop.grace_s, hurry)
        container_log.on_failure(server.unwritable_log)
        if place is not None and at is not None:
            cleanup.enter_context(
                port_tunnel(place, port=port, port_there=at, on_end=server.unreachable)
            )
        log.info("server.started", container=container.short_id, port=port)
        yield server
    way_down.complain()


class _WayDown:
    """Takes every step; a failed one is reported, and never hides what led here."""

    def __init__(self) -> None:
        self._failed: list[str] = []

    def attempt(self, step: Callable[..., None], *args: object) -> None:
        try:
            self._take(step, *args)
        except InterruptedRunError:  # comes once only; the step is taken all the same
            self._take(step, *args)
            raise

    def _take(self, step: Callable[..., None], *args: object) -> None:
        try:
            step(*args)
        except (*UNREACHABLE, OSError, HostError) as error:
            told = f"{step.__name__.strip('_')}: {said(error)}"
            log.warning("server.cleanup_failed", problem=told)
            self._failed.append(told)

    def complain(self) -> None:
        if self._failed:
            raise HostError(
                f"a container was not taken down as it should be: {'; '.join(self._failed)};"
                " `vllm-arms reap` removes what is left"
            )


def _create(
    client: docker.DockerClient,
    name: str,
    launch: LaunchPlan,
    port: int,
    published: int,
    labels: ContainerLabels,
) -> Container:
    if launch.container is None:
        raise AssertionError("this launch plan is a process's")
    return create(
        client,
        name,
        launch.container,
        command=command_line(launch, port),
        environment=launch.environment,
        labels=as_labels(labels),
        port=port,
        published=published,
    )


def _attached(client: docker.DockerClient, container: Container, log_file: Path) -> ContainerLog:
    try:
        return ContainerLog(client, container, log_file)
    except (*UNREACHABLE, OSError) as error:
        raise HostError(f"{log_file}: the server's output cannot be kept: {said(error)}") from error


def _stop(
    server: ServerContainer, container: Container, grace_s: float, hurry: threading.Event
) -> None:
    started_s = time.monotonic()
    deadline_s = started_s + grace_s
    if not server.wait_for_exit(0):
        with already_ended():
            container.kill(signal="SIGTERM")
    while not server.wait_for_exit(0.02) and not hurry.is_set():
        if time.monotonic() > deadline_s:
            break
    if not server.wait_for_exit(0):
        log.warning("server.killed", grace_s=grace_s, hurried=hurry.is_set())
        kill(container)
        server.wait_for_exit(KILL_LIMIT_S)
    log.info(
        "server.stopped",
        ended=server.how_it_ended(),
        took_s=round(time.monotonic() - started_s, 2),
    )


def _wait_for_engine(client: docker.DockerClient, hurry: threading.Event) -> None:
    retrying = Retrying(
        retry=retry_if_exception_type(UNREACHABLE),
        wait=wait_fixed(0.25),
        stop=stop_after_delay(_ENGINE_BACK_LIMIT_S) | stop_when_event_set(hurry),
        reraise=True,
    )
    retrying(client.ping)


def inspect(container: Container, keep: Callable[[str], None]) -> None:
    """Give `docker inspect` as JSON to `keep`, without secrets."""
    container.reload()
    told = container.attrs
    variables = dict(entry.partition("=")[::2] for entry in told["Config"]["Env"] or ())
    cleaned = [f"{name}={value}" for name, value in without_secrets(variables).items()]
    told["Config"]["Env"] = cleaned
    keep(json.dumps(told, indent=2, sort_keys=True) + "\n")
