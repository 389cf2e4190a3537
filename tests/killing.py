"""Kills an orchestrator at a stage of its first arm, and says what is left of it."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from orchestrator.adapters.process_marks import read_marks
from tests.conftest import COMMAND

Sign = Callable[[Path], bool]
"""Whether a stage has begun, to be seen in the arm's folder."""

_LIMIT_S = 60.0


def has(name: str) -> Sign:
    """A file of the arm is there, and not empty."""
    return lambda arm: (arm / name).is_file() and (arm / name).stat().st_size > 0


STAGES: dict[str, tuple[str, Sign]] = {
    "wait": ("no-progress", has("server.log")),
    "warm-up": ("hang@2", has("exchanges/000-ready.metrics.txt")),
    "probe": ("hang@4", has("exchanges/002-warm-up.metrics.txt")),
    "stop": ("ignore-sigterm", has("metrics-end.txt")),
}
"""A fault that holds the miniature in the stage, and what shows that it has begun."""


def project_with(project: Path, profile: str, faults: str) -> None:
    """Give a project's profile a fault, and a grace that is longer than a test."""
    path = project / "launch_profiles" / f"{profile}.toml"
    text = path.read_text(encoding="utf-8")
    text = text.replace("[environment]", f'[environment]\nMINIATURE_FAULTS = "{faults}"', 1)
    path.write_text(text.replace("grace_s = 5.0", "grace_s = 60.0"), encoding="utf-8")


@contextmanager
def orchestrating(project: Path, profile: str) -> Iterator[subprocess.Popen[bytes]]:
    """`vllm-arms run` of one arm, as a process; killed at the end if it still runs."""
    output = (project / "output").open("ab")
    with output, subprocess.Popen(
        [
            *COMMAND, "run", "three-arm", "--quick", "--arm", "clean",
            "--profile", profile, "--project", str(project),
        ],
        stdout=output,
        stderr=output,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Until it holds, at most a minute."""
    deadline_s = time.monotonic() + _LIMIT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"never came: {what}"
        time.sleep(0.01)


def kill_at(project: Path, profile: str, sign: Sign) -> Path:
    """Run until the sign is seen, and SIGKILL the orchestrator; the arm's folder."""
    with orchestrating(project, profile) as process:
        wait_for(
            lambda: any(sign(arm) for arm in arms(project)) or process.poll() is not None, "sign"
        )
        assert process.poll() is None, (project / "output").read_text()
        process.send_signal(signal.SIGKILL)
        process.wait()
    (arm,) = arms(project)
    return arm


def arms(project: Path) -> list[Path]:
    """The folder of the arm of every run."""
    return list(project.glob("runs/three-arm/*/arms/clean"))


def reap(project: Path, *options: str) -> tuple[int, list[str]]:
    """`vllm-arms reap`: exit code and lines."""
    done = subprocess.run(
        [*COMMAND, "reap", "--project", str(project), *options],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def about(arm: Path, lines: list[str]) -> list[str]:
    """The lines about an arm's run: other runs of this machine are none of a test's business."""
    return [line for line in lines if arm.parent.parent.name in line]


def how_it_ended(arm: Path) -> dict[str, object]:
    """The run's `end.json`."""
    ended: dict[str, object] = json.loads((arm.parent.parent / "end.json").read_bytes())
    return ended


def processes_of(arm: Path) -> list[int]:
    """Living processes that carry the arm's marks."""
    found = []
    for process in psutil.process_iter():
        marks = read_marks(process)
        if marks is not None and marks.folder == str(arm.absolute()):
            found.append(process.pid)
    return found
