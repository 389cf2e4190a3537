"""A long-running program: its output, its progress, and that it never outlives us."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from orchestrator.adapters.logged_child import last_line, run_logged

LIMIT_S = 20.0
"""Until a test gives up on something that takes a fraction of a second."""


def until(condition: Callable[[], bool]) -> bool:
    """Wait for a condition; False when it never comes."""
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(0.01)
    return False


def is_running(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_output_goes_to_the_log_and_the_exit_code_comes_back(tmp_path: Path) -> None:
    """Stdout and stderr both, after what the log had."""
    log = tmp_path / "log"
    log.write_text("before\n")

    exit_code = run_logged(
        ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"],
        environment={},
        log_file=log,
        progress=lambda _elapsed_s, _line: None,
    )

    assert exit_code == 3
    assert log.read_text() == "before\nout\nerr\n"


def test_progress_is_reported_while_the_program_works(tmp_path: Path) -> None:
    """With the last line of its output, so that a wait has a reason."""
    heard: list[tuple[float, str]] = []

    run_logged(
        ["/bin/sh", "-c", "echo Collecting numpy; sleep 0.5"],
        environment=dict(os.environ),
        log_file=tmp_path / "log",
        progress=lambda elapsed_s, line: heard.append((elapsed_s, line)),
        interval_s=0.2,
    )

    elapsed_s, line = heard[-1]
    assert line == "Collecting numpy"
    assert elapsed_s >= 0.2


def test_an_exception_in_the_parent_ends_the_whole_program(tmp_path: Path) -> None:
    """The program's own children too: here one that ignores SIGTERM's first receiver."""
    log = tmp_path / "log"
    pids: list[int] = []

    def interrupt(_elapsed_s: float, line: str) -> None:
        if line:
            pids.extend(int(word) for word in line.split())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_logged(
            ["/bin/sh", "-c", "sleep 60 & echo $$ $!; wait"],
            environment=dict(os.environ),
            log_file=log,
            progress=interrupt,
            interval_s=0.05,
        )

    assert len(pids) == 2
    assert until(lambda: not any(is_running(pid) for pid in pids))


PARENT = """\
import os, sys
from pathlib import Path
from orchestrator.adapters.logged_child import run_logged

run_logged(
    ["/bin/sh", "-c", "echo $$; exec sleep 60"],
    environment=dict(os.environ),
    log_file=Path(sys.argv[1]),
    progress=lambda elapsed_s, line: None,
)
"""


def test_the_program_ends_when_the_parent_is_killed(tmp_path: Path) -> None:
    """SIGKILL leaves the parent no time to do anything; the kernel does it."""
    log = tmp_path / "log"
    log.touch()
    with subprocess.Popen([sys.executable, "-c", PARENT, log]) as parent:
        assert until(lambda: last_line(log) != "")
        child = int(last_line(log))
        assert is_running(child)

        parent.send_signal(signal.SIGKILL)

    assert until(lambda: not is_running(child))


@pytest.mark.parametrize(
    ("content", "line"), [("", ""), ("one\ntwo\n", "two"), ("one\n\n  two  \n \n", "two")]
)
def test_the_last_line_is_the_last_one_with_something_on_it(
    tmp_path: Path, content: str, line: str
) -> None:
    """Pip indents lines and leaves some empty."""
    log = tmp_path / "log"
    log.write_text(content)

    assert last_line(log) == line
