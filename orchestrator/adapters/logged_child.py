"""Runs a program that takes its time: its output in a file, a line now and then, no orphan."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

REPORT_INTERVAL_S = 10.0

TERMINATION_GRACE_S = 5.0
"""From SIGTERM to SIGKILL. pip ends in well under a second."""

TAIL_BYTES = 8192
"""How much of a log's end is looked at for its last line."""

# Runs in the child, before it becomes the program: PR_SET_PDEATHSIG (1) makes the kernel send
# SIGTERM to the program when we are gone, also by SIGKILL. If we are gone already, it ends here.
_END_WITH_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def run_logged(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    log_file: Path,
    progress: Callable[[float, str], None],
    interval_s: float = REPORT_INTERVAL_S,
) -> int:
    """Run a program to its end and return its exit code.

    Whatever ends this process, or leaves this function, ends the program too.

    Args:
        command: The program and its arguments; no shell reads them.
        environment: The program's whole environment.
        log_file: Its stdout and stderr are appended here.
        progress: Called about every `interval_s` with the seconds elapsed and the last line of
            the log.
        interval_s: Between two calls of `progress`.
    """
    started_s = time.monotonic()
    launcher = [sys.executable, "-c", _END_WITH_PARENT, str(os.getpid())]
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [*launcher, *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,  # pip must fail rather than ask
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches us alone, and we end the whole group
        )
    try:
        while True:
            try:
                return process.wait(timeout=interval_s)
            except subprocess.TimeoutExpired:
                progress(time.monotonic() - started_s, last_line(log_file))
    finally:
        if process.poll() is None:
            _end_group(process)


def last_line(log_file: Path) -> str:
    """The last line of a log that has something on it; empty if there is none yet."""
    with log_file.open("rb") as log:
        log.seek(max(0, log_file.stat().st_size - TAIL_BYTES))
        lines = log.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=TERMINATION_GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
