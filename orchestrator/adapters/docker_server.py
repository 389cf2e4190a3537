"""Container lifetime: one server in a container of its own, gone when the block is left.

    create ── put our files in ── attach to its output ── start ─┐
                                                                 │ the block
    remove ── save the inspection ── rest of the output ── stop ─┘

Every step of the way down is taken whatever became of the one before it.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import docker
import psutil
import structlog
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    stop_when_event_set,
    wait_fixed,
)

from orchestrator.adapters.container_creation import create, start
from orchestrator.adapters.container_log import ContainerLog
from orchestrator.adapters.docker_engine import UNREACHABLE, said
from orchestrator.adapters.process_server import command_line
from orchestrator.errors import HostError, ServerDiedError, WrongServerError
from orchestrator.model.labels import ContainerLabels, as_labels
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.secrets import without_secrets

log = structlog.get_logger()

_KILL_LIMIT_S = 30.0
"""From SIGKILL to the engine's word that the container has ended; 0.1 s when idle."""

_ENGINE_BACK_LIMIT_S = 60.0
"""For an engine that is restarted while a container of ours runs; 1 to 3 s were seen."""


class ServerContainer:
    """A running server in a container. Its exit is noticed at once, before and after it was ready.

    A lost connection to the engine counts as the server's end: what cannot be watched any more
    is no evidence, whether or not the container lives on.
    """

    def __init__(self, container: Container) -> None:
        self.started_s = time.monotonic()
        self.isolation = "container"
        self._container = container
        self._how: str | None = None
        self._host_at_fault = False
        self._exited = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._root = _visible_pid(container)
        threading.Thread(target=self._watch, name="container-exit", daemon=True).start()

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Call `callback`, from another thread, when the container ends."""
        self._callbacks.append(callback)
        if self._exited.is_set():
            callback()

    def wait_for_exit(self, timeout_s: float) -> bool:
        """Sleep, but no longer than the server lives; true when it has ended."""
        return self._exited.wait(timeout_s)

    def check_alive(self) -> None:
        """Pass while the server runs and is watched.

        Raises:
            ServerDiedError: It has ended, whatever its exit code, or the engine went away.
            HostError: Its log cannot be written.
        """
        if self._exited.is_set():
            kind = HostError if self._host_at_fault else ServerDiedError
            raise kind(f"the server ended by itself: {self.how_it_ended()}")

    def how_it_ended(self) -> str:
        """Exit code, signal, or out of memory, in words."""
        return self._how or "it has not ended"

    def pids(self) -> set[int]:
        """Every living process of the container, where they are processes of this machine."""
        if self._root is None:
            return set()
        try:
            root = psutil.Process(self._root)
            return {root.pid, *(child.pid for child in root.children(recursive=True))}
        except psutil.NoSuchProcess:
            return set()

    def kill(self) -> None:
        """Kill everything in the container."""
        with suppress(*UNREACHABLE):  # an engine that went away counts as the server's end
            kill(self._container)

    def check_port_is_ours(self, port: int) -> None:
        """Pass when the engine publishes the port for this container, at its first start.

        The engine's own listener on the port excludes every other one: it binds the address
        without SO_REUSEPORT, and refuses to start a container whose port is taken.

        Raises:
            WrongServerError: The container does not run, was restarted, or has another port.
        """
        try:
            self._container.reload()
        except UNREACHABLE as error:
            raise WrongServerError(f"the engine does not tell whose port it is: {error}") from error
        told = self._container.attrs
        published = told["NetworkSettings"]["Ports"].get(f"{port}/tcp")
        if not told["State"]["Running"] or told["RestartCount"]:
            raise WrongServerError(
                f"port {port} answers, but our container is {told['State']['Status']} after"
                f" {told['RestartCount']} restarts"
            )
        if published != [{"HostIp": "127.0.0.1", "HostPort": str(port)}]:
            raise WrongServerError(f"port {port} is not our container's, which has {published}")

    def unwritable_log(self, told: str) -> None:
        """End the server's time, since its log cannot be kept."""
        self._host_at_fault = True
        self._end(told)

    def _end(self, how: str) -> None:
        if self._exited.is_set():
            return
        self._how = how
        self._exited.set()
        for callback in self._callbacks:
            callback()

    def _watch(self) -> None:
        try:
            self._container.wait()
            self._container.reload()
        except UNREACHABLE as error:
            self._end(f"the Docker Engine went away while it ran ({error})")
            return
        self._end(how_it_ended(self._container.attrs))


def how_it_ended(inspection: Mapping[str, object]) -> str:
    """What an ended container's inspection says: out of memory, a signal, or an exit code."""
    match inspection:
        case {
            "State": {"OOMKilled": True, "ExitCode": int(code)},
            "HostConfig": {"Memory": int(limit)},
        }:
            limited = f"at its limit of {limit} bytes (exit code {code})"
            return f"out of memory: the kernel killed it {limited}"
        case {"State": {"ExitCode": int(code), "Error": str(error)}}:
            number = code - _SIGNALLED
            name = signal.Signals(number).name if number in _SIGNAL_NUMBERS else None
            ended = f"exit code {code}" if name is None else f"killed by {name} (exit code {code})"
            return f"{ended}, {error}" if error else ended
        case _:
            return "the engine does not say how"


_SIGNALLED = 128
_SIGNAL_NUMBERS = frozenset(signal.Signals)
"""The container's first process, docker-init, exits with 128 + the signal that ended the server."""


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
) -> Iterator[ServerContainer]:
    """Start a server in a container and leave nothing of it behind but its log and inspection.

    However the block is left: SIGTERM, the profile's grace, SIGKILL; the rest of the log, the
    inspection, and removal with its anonymous volumes. When this program is killed, the container
    stays, and its labels say whose it was.

    Args:
        launch: The command, with a container; `{port}` in it becomes `port`.
        port: Where it listens, inside as well as on 127.0.0.1 outside.
        log_file: Gets stdout and stderr from the first byte; must not exist. Two files lie beside
            it (`container_log`).
        hurry: Set by a second signal: the grace is over at once.
        client: The engine; a bound argument of what is given on as a `Runtime`.
        labels: Likewise; by which the container is known to be ours.
        keep_inspection: Likewise; gets `docker inspect` as JSON, without secrets.

    Raises:
        HostError: The engine refuses, or the container could not be removed.
        ServerNotReadyError: The port is taken.
    """
    way_down = _WayDown()
    with ExitStack() as cleanup:
        # In a thread of its own: a signal interrupts our waiting and not the call, so that what
        # was created is always known, and removed.
        calls = cleanup.enter_context(ThreadPoolExecutor(1, thread_name_prefix="create"))
        created = calls.submit(_create, client, launch, port, labels)
        cleanup.callback(way_down.attempt, _remove, created)
        container = created.result()
        cleanup.callback(way_down.attempt, inspect, container, keep_inspection)
        container_log = _attached(client, container, log_file)
        cleanup.callback(way_down.attempt, container_log.finish)
        cleanup.callback(way_down.attempt, kill, container)  # whatever became of `_stop`
        cleanup.callback(way_down.attempt, _wait_for_engine, client, hurry)
        start(container, port)
        server = ServerContainer(container)
        cleanup.callback(way_down.attempt, _stop, server, container, launch.stop.grace_s, hurry)
        container_log.on_failure(server.unwritable_log)
        log.info("server.started", container=container.short_id, port=port)
        yield server
    way_down.complain()


class _WayDown:
    """Takes every step; a failed one is reported, and never hides what led here."""

    def __init__(self) -> None:
        self._failed: list[str] = []

    def attempt(self, step: Callable[..., None], *args: object) -> None:
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
    client: docker.DockerClient, launch: LaunchPlan, port: int, labels: ContainerLabels
) -> Container:
    if launch.container is None:
        raise AssertionError("this launch plan is a process's")
    return create(
        client,
        launch.container,
        command=command_line(launch, port),
        environment=launch.environment,
        labels=as_labels(labels),
        port=port,
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
        with _already_ended():
            container.kill(signal="SIGTERM")
    while not server.wait_for_exit(0.02) and not hurry.is_set():
        if time.monotonic() > deadline_s:
            break
    if not server.wait_for_exit(0):
        log.warning("server.killed", grace_s=grace_s, hurried=hurry.is_set())
        kill(container)
        server.wait_for_exit(_KILL_LIMIT_S)
    log.info(
        "server.stopped",
        ended=server.how_it_ended(),
        took_s=round(time.monotonic() - started_s, 2),
    )


def kill(container: Container) -> None:
    """SIGKILL for everything in the container, and its end awaited; nothing when it has ended."""
    with _already_ended():
        container.kill()
    container.wait(timeout=_KILL_LIMIT_S)


@contextmanager
def _already_ended() -> Iterator[None]:
    try:
        yield
    except APIError as error:
        if error.status_code not in {_NOT_FOUND, _CONFLICT}:
            raise


_NOT_FOUND, _CONFLICT = 404, 409
"""The engine's answers to a signal for a container that is gone, and for one that does not run."""


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


def _remove(created: Future[Container]) -> None:
    if created.exception() is None:
        with suppress(NotFound):
            created.result().remove(force=True, v=True)


def _visible_pid(container: Container) -> int | None:
    """The container's first process, where it is one of this machine; the engine's may be another.

    Its control group is named after the container, on whichever machine it is.
    """
    try:
        container.reload()
        pid = int(container.attrs["State"]["Pid"])
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    except (*UNREACHABLE, OSError):
        return None
    return pid if str(container.id) in groups else None
