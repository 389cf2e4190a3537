"""What whoever waits for a server, or asks it, knows of it: the same for a process and a container.

A runtime is a function like `running_process` and `running_container`: it starts a server, and
leaves nothing of it behind but its log, however its block is left.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from orchestrator.model.plan import LaunchPlan


class RunningServer(Protocol):
    """A server that was started, ready or not."""

    started_s: float
    """On the monotonic clock."""

    isolation: str
    """What keeps it together, as in `EngineFacts`."""

    def on_exit(self, callback: Callable[[], None], /) -> None:
        """Call `callback`, from another thread, when the server ends."""

    def wait_for_exit(self, timeout_s: float, /) -> bool:
        """Sleep, but no longer than the server lives; true when it has ended."""

    def check_alive(self) -> None:
        """Pass while the server runs; else raise `ServerDiedError`, or `HostError`."""

    def how_it_ended(self) -> str:
        """Exit code, signal or whatever ended it, in words."""

    def pids(self) -> set[int]:
        """Its living processes, as this machine numbers them; empty where they cannot be seen."""

    def kill(self) -> None:
        """Kill everything that it consists of, at once; from any thread."""

    def check_port_is_ours(self, port: int, /) -> None:
        """Pass when what listens on the port is this server; else raise `WrongServerError`."""


class Runtime(Protocol):
    """Starts a server; the end of the block stops it."""

    def __call__(
        self, launch: LaunchPlan, *, port: int, log_file: Path, hurry: threading.Event
    ) -> AbstractContextManager[RunningServer]:
        """Start, without waiting for it to be ready."""
