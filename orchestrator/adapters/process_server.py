"""Process lifetime: one server with everything that it starts, gone when the block is left."""

import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import structlog

from orchestrator.adapters.process_marks import marks
from orchestrator.errors import HostError, ServerDiedError, WrongServerError
from orchestrator.model.plan import LaunchPlan

log = structlog.get_logger()

_INIT = Path(__file__).with_name("server_init.py")

_LEFTOVER_GRACE_S = 3.0
"""From the exit of the server's first process to SIGKILL of the rest. An idle vLLM's engine core
and worker were gone 1.8 s after it."""

_KILL_LIMIT_S = 10.0
"""SIGKILL leaves nothing to wait for but the kernel; past this the machine has a problem."""

_PORTS = range(20000, 32000)
"""Below Linux' default range for outgoing connections (32768 up), so that no client of anybody
can be given the port between our look and the server's bind."""


class ServerProcess:
    """A running server. Its exit is noticed at once, before and after it was ready."""

    def __init__(self, process: subprocess.Popen[bytes], control: int, report: int) -> None:
        self.started_s = time.monotonic()
        self.isolation = "unknown"
        self.survivors: tuple[str, ...] = ()
        self.shared_memory_removed: tuple[str, ...] = ()
        self._process = process
        self._control = control
        self._status: int | None = None
        self._exited = threading.Event()
        self._done = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._reader = threading.Thread(target=self._read, args=(report,), daemon=True)
        self._reader.start()

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Call `callback`, from another thread, when the server's first process ends."""
        self._callbacks.append(callback)
        if self._exited.is_set():
            callback()

    @property
    def has_exited(self) -> bool:
        """Whether the server's first process has ended."""
        return self._exited.is_set()

    def wait_for_exit(self, timeout_s: float) -> bool:
        """Sleep, but no longer than the server lives."""
        return self._exited.wait(timeout_s)

    def check_alive(self) -> None:
        """Pass while the server runs.

        Raises:
            ServerDiedError: It has ended, whatever its exit code: a vLLM whose engine died in
                the middle of a request exits with 0.
        """
        if self._exited.is_set():
            raise ServerDiedError(f"the server ended by itself: {self.how_it_ended()}")

    def how_it_ended(self) -> str:
        """Exit code or signal, in words."""
        if self._status is None:
            return "its supervisor vanished"
        if self._status < 0:
            return f"killed by {signal.Signals(-self._status).name}"
        return f"exit code {self._status}"

    def pids(self) -> set[int]:
        """Every living process of the server, as numbered outside its namespace."""
        try:
            own = psutil.Process(self._process.pid)
            return {own.pid, *(child.pid for child in own.children(recursive=True))}
        except psutil.NoSuchProcess:
            return set()

    def check_port_is_ours(self, port: int) -> None:
        """Pass when every listener on the port belongs to this server.

        Every one, because two sockets with SO_REUSEPORT would share the connections.

        Raises:
            WrongServerError: Somebody else listens there.
        """
        ours = self.pids()
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            there = getattr(connection.laddr, "port", None) == port
            if listens and there and connection.pid not in ours:
                owner = _describe(connection.pid)
                raise WrongServerError(f"port {port} is served by {owner}, not by our server")

    def terminate(self) -> None:
        """Send SIGTERM to the server's first process."""
        self._order(b"T")

    def kill(self) -> None:
        """Kill everything that the server consists of."""
        self._order(b"K")

    def wait_until_gone(self, timeout_s: float, hurry: threading.Event) -> bool:
        """Wait until nothing of it is left; `hurry` ends the wait early. True when gone."""
        deadline = time.monotonic() + timeout_s
        while not self._done.wait(0.02):
            if hurry.is_set() or time.monotonic() > deadline:
                return self._done.is_set()
        return True

    def close(self) -> None:
        """Close the control pipe, which kills whatever may be left, and collect the process."""
        os.close(self._control)
        try:
            self._process.wait(_KILL_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            raise HostError(f"process {self._process.pid} could not be killed") from error
        self._reader.join(_KILL_LIMIT_S)

    def _order(self, letter: bytes) -> None:
        with suppress(BrokenPipeError):  # the supervisor is gone, and with it the server
            os.write(self._control, letter)

    def _read(self, report: int) -> None:
        with os.fdopen(report, encoding="utf-8") as lines:
            for line in lines:
                self._note(json.loads(line))
        self._end()
        self._done.set()

    def _note(self, event: dict[str, object]) -> None:
        match event:
            case {"event": "started", "isolation": str(isolation)}:
                self.isolation = isolation
            case {"event": "exited", "status": int(status)}:
                self._status = status
                self._end()
            case {"event": "done", "survivors": list(names), "shared_memory_removed": list(files)}:
                self.survivors = tuple(map(str, names))
                self.shared_memory_removed = tuple(map(str, files))
                self._done.set()
            case _:
                log.warning("server.report_unknown", report=event)

    def _end(self) -> None:
        if not self._exited.is_set():
            self._exited.set()
            for callback in self._callbacks:
                callback()


@contextmanager
def running_process(
    launch: LaunchPlan, *, port: int, log_file: Path, hurry: threading.Event
) -> Iterator[ServerProcess]:
    """Start a server and leave nothing of it behind but its log.

    However the block is left: SIGTERM, the profile's grace, SIGKILL of everything it consists of,
    and a look for survivors and shared memory. When this program dies without leaving the block,
    the server is killed all the same (`server_init`).

    Args:
        launch: The command; `{port}` in it becomes `port`.
        port: Where it will listen.
        log_file: Gets stdout and stderr from the first byte; must not exist.
        hurry: Set by a second signal: the grace is over at once.

    Raises:
        HostError: The server could not be killed.
    """
    with ExitStack() as cleanup:
        server = _start(launch, port, log_file)
        cleanup.callback(server.close)
        cleanup.callback(_stop, server, launch.stop.grace_s, hurry)
        yield server


def command_line(launch: LaunchPlan, port: int) -> list[str]:
    """The arguments as really used."""
    return [argument.replace("{port}", str(port)) for argument in launch.argv]


def environment(launch: LaunchPlan, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables as really used: the named ones of `inherited`, and the profile's over them."""
    kept = {name: inherited[name] for name in launch.inherit if name in inherited}
    return kept | launch.environment


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on, outside the range of outgoing connections.

    Raises:
        HostError: None was found in a hundred tries.
    """
    for _ in range(100):
        port = random.choice(_PORTS)  # noqa: S311 - not a secret
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise HostError(f"no free port in {_PORTS.start}-{_PORTS.stop}; what listens there?")


def _start(launch: LaunchPlan, port: int, log_file: Path) -> ServerProcess:
    argv = command_line(launch, port)
    order_out, order_in = os.pipe()
    report_out, report_in = os.pipe()
    try:
        with log_file.open("xb") as output:
            process = subprocess.Popen(
                [
                    sys.executable, "-I", str(_INIT),
                    str(order_out), str(report_in), str(_LEFTOVER_GRACE_S), *argv,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(launch, os.environ) | marks(log_file.parent),
                pass_fds=(order_out, report_in),
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        for descriptor in (order_in, report_out):
            os.close(descriptor)
        raise HostError(f"cannot start a process: {error}") from error
    finally:
        os.close(order_out)
        os.close(report_in)
    log.info("server.started", pid=process.pid, port=port, argv=shlex.join(argv))
    return ServerProcess(process, order_in, report_out)


def _stop(server: ServerProcess, grace_s: float, hurry: threading.Event) -> None:
    started = time.monotonic()
    server.terminate()
    if not server.wait_until_gone(grace_s, hurry):
        log.warning("server.killed", grace_s=grace_s, hurried=hurry.is_set())
        server.kill()
        server.wait_until_gone(_KILL_LIMIT_S, threading.Event())
    log.info(
        "server.stopped",
        ended=server.how_it_ended(),
        took_s=round(time.monotonic() - started, 2),
        survivors=server.survivors,
        shared_memory_removed=server.shared_memory_removed,
    )


def _describe(pid: int | None) -> str:
    if pid is None:
        return "another user's process"
    try:
        return f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"process {pid}"
