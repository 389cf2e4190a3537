"""Asks an engine what its own scheduler does, under the engine's interpreter, never under ours.

Two depths: its align-split function on its own (needs no import of vLLM, so a bare folder of the
package will do), and its whole scheduler with the cache manager (needs the package to import).
No server is started and no GPU is needed.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker
from pydantic import TypeAdapter, ValidationError

from orchestrator.adapters.image_package import looked_into, output_of
from orchestrator.errors import HostError
from orchestrator.model.container import Mount
from orchestrator.model.prediction import (
    RequestPrediction,
    SchedulerSettings,
    SplitCase,
    SplitSource,
)

SCRIPTS = Path(__file__).parent / "engine_side"

TIMEOUT_S = 600.0
"""Importing vLLM takes 5 to 60 s on two busy cores; 2,500 cells were replayed in 43 s."""

QUOTED_CHARACTERS = 600
"""Of what a failed script printed last, in the error message."""

RunScript = Callable[[str, Path], bytes]
"""Runs one of the scripts of `engine_side` on a question file; returns what it printed."""

_CELLS = TypeAdapter(tuple[tuple[RequestPrediction, ...], ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class CellQuestion:
    """One cell to replay. `settings.rule` and `every_boundary` are the engine's own business."""

    settings: SchedulerSettings
    requests: Sequence[Sequence[int]]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What the engine's own scheduler did."""

    version: str
    cells: tuple[tuple[RequestPrediction, ...], ...]


def under_interpreter(python: Path, environment: Mapping[str, str] | None = None) -> RunScript:
    """Run the scripts under the interpreter of a virtual environment, as a process of its own.

    Args:
        python: The interpreter.
        environment: What the engine needs beyond our own environment, such as a `PYTHONPATH` with
            a patched copy.
    """

    def run(script: str, question: Path) -> bytes:
        # -B: the engine's folder stays as it is, byte code included.
        command = [str(python), "-B", str(SCRIPTS / script), str(question)]
        quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **quiet, **(environment or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except OSError as error:
            raise HostError(f"the engine's interpreter cannot be started: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise HostError(f"{script} under {python} took over {TIMEOUT_S:g} s") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()[-QUOTED_CHARACTERS:]
            raise HostError(f"{script} failed under {python}: {said}")
        return done.stdout

    return run


def under_image(client: docker.DockerClient, image: str, python: str) -> RunScript:
    """Run the scripts under an image's interpreter, in a container without network.

    Args:
        client: The engine.
        image: Its id or name.
        python: The image's interpreter.
    """

    def run(script: str, question: Path) -> bytes:
        command = [python, "-B", "-c", (SCRIPTS / script).read_text(encoding="utf-8"), _QUESTION]
        mount = Mount(source=str(question), target=_QUESTION)
        with looked_into(client, image, command, {}, [mount]) as look:
            return output_of(look)

    return run


_QUESTION = "/question.json"
"""Where it stands in a container."""


def ask_split(
    run: RunScript, cases: Sequence[SplitCase], *, package: Path | None = None
) -> tuple[SplitSource, tuple[int, ...]]:
    """Locate an engine's align-split function and run it; tokens scheduled in each case.

    Args:
        run: Reaches the engine.
        cases: What to ask.
        package: Folder of the vllm package, such as an unpacked wheel: any interpreter will do
            then. The interpreter's own package when `None`.

    Raises:
        HostError: The function is not there, or has a shape that nobody here has read.
    """
    question = {
        "package": None if package is None else str(package),
        "cases": [case.model_dump() for case in cases],
    }
    answer = _ask(run, "split_function.py", question)
    scheduled = TypeAdapter(tuple[int, ...]).validate_python(answer.pop("scheduled"))
    return SplitSource.model_validate_json(json.dumps(answer)), scheduled


def replay(run: RunScript, cells: Sequence[CellQuestion]) -> Replayed:
    """Send cells through the engine's whole scheduler and cache manager.

    Raises:
        HostError: This vLLM cannot be replayed; says why.
    """
    question = {
        "cells": [
            {
                **cell.settings.model_dump(exclude={"rule", "every_boundary"}),
                "max_tokens": cell.max_tokens,
                "requests": [list(prompt) for prompt in cell.requests],
            }
            for cell in cells
        ]
    }
    answer = _ask(run, "replay_scheduler.py", question)
    return Replayed(
        version=str(answer["version"]),
        cells=_CELLS.validate_json(json.dumps(answer["cells"])),
    )


def _ask(run: RunScript, script: str, question: object) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="vllm-arms-question-") as folder:
        path = Path(folder) / "question.json"
        path.write_text(json.dumps(question), encoding="utf-8")
        said = run(script, path)
    try:
        answer = TypeAdapter(dict[str, object]).validate_json(said)
    except ValidationError as error:
        raise HostError(f"{script} did not answer with JSON: {said[:200]!r}") from error
    if "refused" in answer:
        raise HostError(str(answer["refused"]))
    return answer
