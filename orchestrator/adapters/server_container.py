"""A server in a container, while it runs: whether it lives, how it ended, whose its port is."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from docker.errors import APIError
from docker.models.containers import Container

from orchestrator.adapters.docker_engine import UNREACHABLE
from orchestrator.errors import HostError, ServerDiedError, WrongServerError

KILL_LIMIT_S = 30.0
"""From SIGKILL to the engine's word that the container has ended; 0.1 s when idle."""


class ServerContainer:
    """A running server in a container. Its exit is noticed at once, before and after it was ready.

    A lost connection to the engine counts as the server's end: what cannot be watched any more
    is no evidence, whether or not the container lives on.

    Args:
        container: Was started.
        published: Its port on the engine's machine; `None`: it had ended before it was asked.
    """

    def __init__(self, container: Container, published: int | None) -> None:
        self.started_s = time.monotonic()
        self.isolation = "container"
        self._container = container
        self._published = published
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
        if published != [{"HostIp": "127.0.0.1", "HostPort": str(self._published)}]:
            raise WrongServerError(f"port {port} is not our container's, which has {published}")

    def unreachable(self, told: str) -> None:
        """End the server's time, since its port is not reached any more."""
        self._end(told)

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


def published_port(container: Container, port: int) -> int | None:
    """The port of the engine's machine that it chose for one of a started container.

    `None`: the container has ended.

    Raises:
        HostError: The engine does not tell.
    """
    try:
        container.reload()
    except UNREACHABLE as error:
        raise HostError(f"the engine does not tell the server's port: {error}") from error
    published = container.attrs["NetworkSettings"]["Ports"].get(f"{port}/tcp")
    return int(published[0]["HostPort"]) if published else None


def kill(container: Container) -> None:
    """SIGKILL for everything in the container, and its end awaited; nothing when it has ended."""
    with already_ended():
        container.kill()
    container.wait(timeout=KILL_LIMIT_S)


@contextmanager
def already_ended() -> Iterator[None]:
    """Around a signal: the engine refuses it for a container that has ended, which is no error."""
    try:
        yield
    except APIError as error:
        if error.status_code not in {_NOT_FOUND, _CONFLICT}:
            raise


_NOT_FOUND, _CONFLICT = 404, 409
"""The engine's answers to a signal for a container that is gone, and for one that does not run."""


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
