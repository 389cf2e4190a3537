"""Tunnels to the engine's machine, each a child process: the system's `ssh`.

The remote end of each is a `cat` that reads what we never write: when we end, in whatever way, its
input ends, and with it the whole connection: ssh by itself would wait for every forwarded one, and
the engine keeps that of a container's output for as long as there is the container.

Nothing is ever asked (BatchMode), so what works here works in a nightly; keys, agents, jump hosts
and host keys are ssh's own business (docs/decisions/0014).
"""

import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import structlog

from orchestrator.adapters.engine_place import SshPlace
from orchestrator.errors import HostError

log = structlog.get_logger()

_OPTIONS = {
    "BatchMode": "yes",
    "ExitOnForwardFailure": "yes",
    "ConnectTimeout": "10",  # seconds
    "ServerAliveInterval": "5",  # seconds; a machine that is gone is noticed after three of them
    "ServerAliveCountMax": "3",
    "StreamLocalBindUnlink": "yes",  # the same socket file, when a tunnel is opened again
    "ControlMaster": "no",  # a shared connection would outlive us
    "ControlPath": "none",
}

_UP = b"vllm-arms: the tunnel is up"

_REMOTE = f"echo '{_UP.decode()}' && cat >/dev/null; kill $PPID"
"""The parent is sshd's process for this connection."""

_END_LIMIT_S = 5.0

_AGAIN_S = 1.0
"""Between two attempts to open the engine's tunnel again."""


@contextmanager
def engine_tunnel(place: SshPlace) -> Iterator[str]:
    """The engine's socket on this machine, as an address for docker-py.

    A tunnel that ends is opened again until the block is left: a container whose machine was out
    of reach for a while can then still be taken down.

    Raises:
        HostError: ssh does not get there; with what it says.
    """
    with tempfile.TemporaryDirectory(prefix="vllm-arms-ssh-") as folder:  # of mode 0700
        socket = f"{folder}/docker.sock"
        kept = _KeptTunnel(place, f"{socket}:{place.socket}")
        try:
            yield f"unix://{socket}"
        finally:
            kept.close()


@contextmanager
def port_tunnel(
    place: SshPlace, *, port: int, port_there: int, on_end: Callable[[str], None]
) -> Iterator[None]:
    """A port of this machine's loopback that leads to one of the other's.

    Args:
        place: The other machine.
        port: Here.
        port_there: On its 127.0.0.1.
        on_end: Called, from another thread, with the reason when the tunnel ends before the block.

    Raises:
        HostError: ssh does not get there, or the port is taken here.
    """
    tunnel = _Tunnel(place, f"127.0.0.1:{port}:127.0.0.1:{port_there}")
    closing = threading.Event()

    def watch() -> None:
        told = tunnel.wait()
        if not closing.is_set():
            on_end(told)

    watching = threading.Thread(target=watch, name="tunnel", daemon=True)
    watching.start()
    try:
        yield
    finally:
        closing.set()
        tunnel.end()
        watching.join()
        tunnel.close()


def told_there(place: SshPlace, command: str, *, limit_s: float) -> str | None:
    """What a command says on the other machine; `None` when it fails or is not there."""
    try:
        done = subprocess.run(
            ssh_command(place, command),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


class _Tunnel:
    """One `ssh` that forwards, from the moment on at which it does."""

    def __init__(self, place: SshPlace, forward: str) -> None:
        self._place = place
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            self._process = subprocess.Popen(
                ssh_command(place, _REMOTE, "-L", forward),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C reaches us alone, and we still need the tunnel
            )
        except OSError as error:
            self._errors.close()
            raise HostError(f"ssh cannot be started: {error}; is openssh-client there?") from error
        try:
            up = any(line.strip() == _UP for line in self._process.stdout or ())
        except BaseException:  # a signal while we wait
            self.end()
            self.close()
            raise
        if not up:
            told = self.wait()
            self.close()
            raise HostError(f"{told}; `ssh {place.destination} true` must work without a question")

    def wait(self) -> str:
        """Sleep until it has ended; what it said at the end."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        said = "; ".join(line.strip() for line in lines if line.strip()) or f"exit code {code}"
        return f"the SSH tunnel to {self._place.destination} ended: {said[-600:]}"

    def end(self) -> None:
        """End it; nothing when it has ended."""
        self._process.terminate()
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Close what is left of one that has ended, once nobody waits for it any more."""
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()


class _KeptTunnel:
    """A tunnel that is opened again whenever it ends."""

    def __init__(self, place: SshPlace, forward: str) -> None:
        self._place, self._forward = place, forward
        self._tunnel = _Tunnel(place, forward)
        self._closing = threading.Event()
        self._keeping = threading.Thread(target=self._keep, name="engine-tunnel", daemon=True)
        self._keeping.start()

    def close(self) -> None:
        """End it for good."""
        self._closing.set()
        while self._keeping.is_alive():  # and may have opened another one meanwhile
            self._tunnel.end()
            self._keeping.join(0.1)

    def _keep(self) -> None:
        opened = True
        while opened:
            told = self._tunnel.wait()
            self._tunnel.close()
            opened = self._opened_again(told)

    def _opened_again(self, told: str) -> bool:
        while not self._closing.is_set():
            log.warning("tunnel.ended", told=told)
            try:
                self._tunnel = _Tunnel(self._place, self._forward)
            except HostError as error:
                told = str(error)
                self._closing.wait(_AGAIN_S)
            else:
                log.info("tunnel.opened_again")
                return True
        return False


def ssh_command(place: SshPlace, command: str, *options: str) -> list[str]:
    """The words that run a command there, and never ask anything."""
    settings = [part for name, value in _OPTIONS.items() for part in ("-o", f"{name}={value}")]
    port = [] if place.port is None else ["-p", str(place.port)]
    return ["ssh", "-T", *settings, *options, *port, "--", place.destination, command]
