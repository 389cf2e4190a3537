"""A run as a user starts it, with one fault in it, and what was seen."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.conftest import COMMAND, PROJECT
from tests.faults.actions import MARK, Struck, marked
from tests.faults.campaign import Combination
from tests.faults.stages import STAGES, Stage

BASE = {"process": "miniature", "docker": "docker-miniature"}
EXPERIMENT = ("three-arm", "--quick", "--arm", "contaminated", "--profile", "campaign")
STAGE_LIMIT_S, RUN_LIMIT_S = 40, 240
WITH_OWN_CLOCK = [sys.executable, "-m", "tests.faults.own_clock"]

_PEAK = re.compile(rb"VmHWM:\s+(?P<kib>\d+) kB")
LEAVES_S = 5
"""How long what a killed orchestrator started may take to notice it."""

PROFILE = """\
extends = "{base}"
name = "campaign"
heartbeat_timeout_s = 3.0
request_timeout_s = 8.0
[environment]
MINIATURE_FAULTS = "{faults}"
{mark} = "{name}"
[ready]
total_timeout_s = 180.0
"""

DOCUMENT = "hu-szamla-orgonagyar"
"""Stable on the miniature: where a document diverges, its other answers show that without the one
that a fault has taken, and a false "stable" could not be told from a right "diverged"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a run with a fault in it came to."""

    combination: Combination
    run: Path | None
    """`None`: it came to no folder."""

    struck: bool
    """Whether the stage was seen, and the fault put."""

    exit_code: int
    told: str
    """Its standard error."""

    left: tuple[str, ...]
    """Processes and containers that are still there; of a killed run, before `reap`."""

    left_after_reap: tuple[str, ...]
    peak_bytes: int | None
    """Of the orchestrator's resident memory; `None`: it had ended before a look at it."""


@contextmanager
def played(combination: Combination) -> Iterator[Seen]:
    """Run it; its folder is there until the block ends."""
    with ExitStack() as scene:
        project = scene.enter_context(_project(combination))
        command = WITH_OWN_CLOCK if combination.fault.needs == "own clock" else COMMAND
        told = scene.enter_context(tempfile.TemporaryFile())
        with subprocess.Popen(
            [*command, "run", *EXPERIMENT, "--project", project],
            cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=told,
        ) as process:  # fmt: skip
            struck = _strike(combination, process, project)
            peak_bytes = _wait(process)
        told.seek(0)
        run = _run_of(project)
        if combination.fault.needs == "own mount" and struck is not None:
            scene.callback(subprocess.run, ["umount", "--lazy", str(struck.run)], check=True)
        for stranger in struck.holds if struck is not None else ():
            stranger.close()
        left = _left(combination, project)
        if process.returncode == -9:  # nobody was there to stop what it had started
            subprocess.run(
                [*COMMAND, "reap", "--project", project], capture_output=True, check=False
            )
        yield Seen(
            combination=combination,
            run=run,
            struck=combination.fault.act is None or struck is not None,
            exit_code=process.returncode,
            told=told.read().decode("utf-8", "replace"),
            left=left,
            left_after_reap=_left(combination, project),
            peak_bytes=peak_bytes,
        )


@contextmanager
def _project(combination: Combination) -> Iterator[Path]:
    with ExitStack() as kept:
        folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="vllm-arms-fault-")))
        if combination.fault.needs == "small disk":
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=True)
            kept.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True)
        for name in ("arms", "launch_profiles"):
            shutil.copytree(PROJECT / name, folder / name)
        profile = PROFILE.format(
            base=BASE[combination.runtime],
            faults=combination.server_faults,
            mark=MARK,
            name=combination.name,
        )
        (folder / "launch_profiles" / "campaign.toml").write_text(profile, encoding="utf-8")
        experiment = folder / "arms" / "three-arm.toml"
        text = experiment.read_text(encoding="utf-8")
        only = f'documents = ["{DOCUMENT}"]'
        text = re.sub(r"^documents = \[.*?^\]", only, text, flags=re.DOTALL | re.MULTILINE)
        experiment.write_text(text, encoding="utf-8")
        yield folder


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """The program's end, by force when it is late; the peak of its resident memory in bytes."""
    peak_bytes: int | None = None
    until_s = time.monotonic() + RUN_LIMIT_S
    while process.poll() is None:
        with suppress(OSError):
            peak = _PEAK.search(Path(f"/proc/{process.pid}/status").read_bytes())
            if peak is not None:  # what has ended has no memory
                peak_bytes = int(peak["kib"]) * 2**10
        if time.monotonic() > until_s:
            process.kill()
        time.sleep(0.05)
    return peak_bytes


def _strike(
    combination: Combination, process: subprocess.Popen[bytes], project: Path
) -> Struck | None:
    """Wait for the stage and let the fault happen; `None` when it did not come to that."""
    act = combination.fault.act
    if act is None:
        return None
    stage, until_s = STAGES[combination.stage], time.monotonic() + STAGE_LIMIT_S
    while time.monotonic() < until_s and process.poll() is None:
        run = _run_of(project)
        if run is not None and _reached(stage, run):
            struck = Struck(process=process, run=run, name=combination.name)
            act(struck)
            return struck
        time.sleep(0.002)
    return None


def _reached(stage: Stage, run: Path) -> bool:
    with suppress(FileNotFoundError):
        return stage.reached(run)
    return False


def _run_of(project: Path) -> Path | None:
    return next(iter(sorted((project / "runs" / "three-arm").glob("*-*"))), None)


def _left(combination: Combination, project: Path) -> tuple[str, ...]:
    """What is of this run and still there, after the time that a dead one's servers may take."""
    until_s = time.monotonic() + LEAVES_S
    left = _leftovers(combination, project)
    while left and time.monotonic() < until_s:
        time.sleep(0.1)
        left = _leftovers(combination, project)
    return left


def _leftovers(combination: Combination, project: Path) -> tuple[str, ...]:
    processes = []
    for process in marked(combination.name):
        with suppress(psutil.Error):
            processes.append(f"process {process.name()}")
    halves = [f"half a file {path.name}" for path in project.glob("runs/**/*.partial")]
    return (*processes, *_containers(combination), *halves)


def _containers(combination: Combination) -> list[str]:
    if combination.runtime == "process":
        return []
    listed = subprocess.run(
        ["docker", "ps", "--all", "--quiet", "--filter", "label=vllm-arms.owner"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    found = []
    for container in listed:
        shown = subprocess.run(
            ["docker", "inspect", "--format", "{{.Config.Env}}", container],
            capture_output=True, text=True, check=False,
        ).stdout  # fmt: skip
        if f"{MARK}={combination.name}" in shown:
            found.append(f"container {container}")
    return found
