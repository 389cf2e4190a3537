"""What is done to a run from outside."""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.faults import own_clock
from tests.test_docker_server import engines_process

MARK = "VLLM_ARMS_CAMPAIGN"
"""Variable that every process of a server inherits, with the name of its combination."""


@dataclass
class Struck:
    """A run under way."""

    process: subprocess.Popen[bytes]
    run: Path
    name: str
    """Of the combination; the value of `MARK`."""

    holds: list[socket.socket] = field(default_factory=list)
    """Ports that a stranger holds until the run is over."""


def marked(name: str) -> list[psutil.Process]:
    """Processes of servers of this combination, in containers too."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == name and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def interrupt(struck: Struck) -> None:
    """SIGINT."""
    struck.process.send_signal(signal.SIGINT)


def terminate(struck: Struck) -> None:
    """SIGTERM."""
    struck.process.send_signal(signal.SIGTERM)


def kill(struck: Struck) -> None:
    """SIGKILL."""
    struck.process.kill()


def fill_disk(struck: Struck) -> None:
    """Write until the disk takes no more."""
    filler = os.open(struck.run.parents[2] / "filler", os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while os.write(filler, bytes(2**20)):
            pass
    os.close(filler)


def remove_folder(struck: Struck) -> None:
    """As somebody does who tidies up."""
    shutil.rmtree(struck.run, ignore_errors=True)


def make_read_only(struck: Struck) -> None:
    """A mount over the folder: files that are open stay writable, as on a disk with errors."""
    for options in (["--bind", str(struck.run)], ["-o", "remount,bind,ro"]):
        subprocess.run(["mount", *options, str(struck.run)], check=True)


def set_clock_back(struck: Struck) -> None:
    """An hour, as a correction by the machine's time service may."""
    struck.process.send_signal(own_clock.SET_BACK)


def steal_port(struck: Struck) -> None:
    """Listen where the server is about to."""
    until_s = time.monotonic() + 5
    while time.monotonic() < until_s:
        for process in marked(struck.name):
            command = process.cmdline()
            if "--port" in command:
                port = int(command[command.index("--port") + 1])
                stranger = socket.create_server(("127.0.0.1", port))
                struck.holds.append(stranger)
                return


def restart_engine(_: Struck) -> None:
    """Kill the daemon, and start it again as it was started."""
    daemon = engines_process()
    command = daemon.cmdline()
    daemon.kill()
    daemon.wait(10)
    subprocess.run(
        ["setsid", "--fork", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ),
        check=True,
    )
