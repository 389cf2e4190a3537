"""Installs an engine with pip, into a virtual environment of its own.

Everything that pip says is in a log file; a failure names its step and quotes pip.
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.adapters.engine_recipe import EngineRecipe
from orchestrator.adapters.logged_child import run_logged
from orchestrator.errors import PreparationError

NO_SUCH_WHEEL = "No matching distribution found"
"""What pip prints when no place that it is configured to look at has a requirement."""

QUOTED_LINES = 3
"""Of a failed step's output, in the error message."""

_TELLING_LINE = re.compile(r"^(?:ERROR: |WARNING: Retrying )")
_PACKAGE_LINE = re.compile(r"^(?:Collecting|Downloading|Processing) (?:\S*/)?(?P<package>[^\s/]+)")
_UNPACKING_LINE = re.compile(r"^Installing collected packages")


@dataclass(frozen=True)
class Steps:
    """Runs the programs of a preparation one after another, into one log."""

    log_file: Path
    report: Callable[[str], None]

    def run(self, step: str, command: Sequence[str | Path]) -> None:
        """Run one program.

        Raises:
            PreparationError: It failed.
        """
        self.require(step, self.attempt(step, command))

    def attempt(self, step: str, command: Sequence[str | Path]) -> "Attempt":
        """Run one program, and leave it to the caller whether its failure is one."""
        self.report(step)
        self.log_file.touch()
        offset = self.log_file.stat().st_size
        exit_code = run_logged(
            command,
            environment=_environment(),
            log_file=self.log_file,
            progress=lambda elapsed_s, line: self.report(_progress(step, elapsed_s, line)),
        )
        output = self.log_file.read_bytes()[offset:].decode(errors="replace")
        return Attempt(exit_code, output)

    def require(self, step: str, attempt: "Attempt") -> None:
        """Raise `PreparationError` unless the attempt succeeded."""
        if attempt.exit_code == 0:
            return
        raise PreparationError(
            f"{step} failed with exit code {attempt.exit_code}: {telling_lines(attempt.output)} "
            f"(whole output: {self.log_file}). Run the same command again to go on: what pip has "
            "downloaded stays in pip's cache"
        )


@dataclass(frozen=True)
class Attempt:
    """How one step's program ended, and what it printed."""

    exit_code: int
    output: str


def install(recipe: EngineRecipe, requirements: Path, environment: Path, steps: Steps) -> None:
    """Make a virtual environment with the engine in it.

    torch comes first, and on its own: where pip does not find its CPU build, it is taken from the
    recipe's index, from which nothing else is. The rest is a complete list of pins: pip resolves
    nothing and adds nothing, in particular no CUDA build.

    Raises:
        PreparationError: A step failed.
    """
    python = engine_python(environment)
    steps.run("creating a Python environment", [sys.executable, "-m", "venv", environment])

    pip: list[str | Path] = [
        *(python, "-m", "pip", "install", "--no-deps", "--only-binary=:all:"),
        *("--no-input", "--progress-bar=off", "--disable-pip-version-check"),
        "--no-compile",  # of 21,000 modules the engine imports a quarter: see below
    ]
    step = f"installing {recipe.torch}"
    attempt = steps.attempt(step, [*pip, recipe.torch])
    if attempt.exit_code != 0 and NO_SUCH_WHEEL in attempt.output:
        step = f"installing {recipe.torch} from {recipe.torch_index}"
        attempt = steps.attempt(step, [*pip, "--index-url", recipe.torch_index, recipe.torch])
    steps.require(step, attempt)

    steps.run(f"installing vLLM {recipe.version}", [*pip, "-r", requirements])

    # Shows that it can be loaded at all, and leaves the bytecode that every start then reads.
    # Measured on two cores: without bytecode a server is ready after 88 s instead of 23 s.
    imports = "; ".join(f"import {module}" for module in recipe.first_imports)
    steps.run("loading it for the first time", [python, "-c", imports])


def engine_python(environment: Path) -> Path:
    """The interpreter of an environment that `install` made."""
    return environment / "bin" / "python"


def telling_lines(output: str) -> str:
    """The lines of a failed program's output that say why, on one line.

    pip marks them; of any other program, the last lines.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if _TELLING_LINE.match(line)]
    return " | ".join((marked or lines)[-QUOTED_LINES:])


def _environment() -> dict[str, str]:
    """Ours, but no model comes from a network, and nothing of ours leads a child astray."""
    not_for_the_engine = {
        *("PYTHONPATH", "PYTHONHOME"),  # our packages, or our interpreter's
        "PYTHONDONTWRITEBYTECODE",  # the first import is there to write it
    }
    inherited = {k: v for k, v in os.environ.items() if k not in not_for_the_engine}
    return {**inherited, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}


def _progress(step: str, elapsed_s: float, last_line: str) -> str:
    progress = f"{step}: {elapsed_s:.0f} s"
    if package := _PACKAGE_LINE.match(last_line):
        return f"{progress}, {package['package']}"
    return f"{progress}, unpacking" if _UNPACKING_LINE.match(last_line) else progress
