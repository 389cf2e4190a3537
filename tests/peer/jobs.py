"""The command line of each tool for the same work."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from orchestrator.adapters.engine_preparation import default_cache
from orchestrator.adapters.process_server import command_line, environment
from orchestrator.model.plan import ArmPlan, CellPlan
from orchestrator.requesting import request_body
from tests.conftest import COMMAND
from tests.peer.work import Work

OURS, PEER = "vllm-arms", "vllm bench sweep serve"

PANDAS = ("pandas==2.3.3", "python-dateutil==2.9.0.post0", "pytz==2025.2", "tzdata==2025.2",
          "six==1.17.0")  # fmt: skip
"""What `vllm bench` needs beside vLLM itself; without it a sweep fails at its first request, since
even its own kind of prompt file is read with pandas. numpy is the engine's."""

SWITCH = {"on": "--enable-prefix-caching", "off": "--no-enable-prefix-caching"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One call of a tool."""

    tool: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    kept: Path
    """The folder below which it puts whatever it keeps."""


def our_job(work: Work) -> Job:
    """`vllm-arms run`."""
    return Job(
        tool=OURS,
        argv=(*COMMAND, "run", "peer", "--quick", "--project", str(work.folder)),
        environment=dict(os.environ),
        kept=work.folder / "runs",
    )


def peer_job(work: Work, port: int) -> Job:
    """`vllm bench sweep serve` of the engine's own vLLM, one run for each server.

    `--serve-params` holds what differs between the servers, as its users write it. The command
    after a run is `true`: the default resets the caches of a server that is then killed.
    """
    first = work.arms[0]
    python, *_ = command = command_line(first.launch, port)
    shared = [word for word in command if word not in SWITCH.values()]
    servers = work.folder / "serve-params.json"
    servers.write_text(
        json.dumps(
            [{SWITCH["on"].removeprefix("--"): arm.prefix_caching == "on"} for arm in work.arms]
        ),
        encoding="utf-8",
    )
    cells = work.folder / "bench-params.json"
    cells.write_text(json.dumps([_cell(work, first, cell) for cell in first.cells]), "utf-8")
    variables = environment(first.launch, os.environ)
    vllm = (python, "-m", "vllm.entrypoints.cli.main", "bench")
    kept = work.folder / "results"
    return Job(
        tool=PEER,
        argv=(
            *(*vllm, "sweep", "serve", "--num-runs", "1"),
            *("--serve-cmd", shlex.join(shared)),
            *("--serve-params", str(servers)),
            *("--bench-cmd", shlex.join([*vllm, "serve", *_sending(first, port)])),
            *("--bench-params", str(cells)),
            *("--after-bench-cmd", "true"),
            *("--output-dir", str(kept), "--experiment-name", "peer"),
        ),
        environment=variables | {"PYTHONPATH": f"{variables['PYTHONPATH']}:{pandas()}"},
        kept=kept,
    )


def _sending(arm: ArmPlan, port: int) -> list[str]:
    """The options of `vllm bench serve` that all cells have in common."""
    return [
        *("--backend", "openai", "--base-url", f"http://127.0.0.1:{port}"),
        *("--endpoint", "/v1/completions", "--model", arm.declared.served_model_name),
        *("--dataset-name", "custom", "--disable-shuffle", "--max-concurrency", "1"),
        *("--skip-tokenizer-init", "--disable-tqdm", "--save-detailed"),
    ]


def _cell(work: Work, arm: ArmPlan, cell: CellPlan) -> dict[str, object]:
    """One cell as a benchmark: its prompts in a file, and what its requests have in common.

    `vllm bench serve` hands a list of token ids on as it is when it loads no tokenizer, and what
    `--extra-body` names takes the place of its own fields, in every request.
    """
    bodies = [json.loads(request_body(work.plan, arm, probe)) for probe in cell.probes]
    prompts = work.folder / f"{cell.place}.jsonl"
    prompts.write_text(
        "".join(json.dumps({"prompt": body.pop("prompt")}) + "\n" for body in bodies), "utf-8"
    )
    return {
        "_benchmark_name": cell.place,
        "dataset-path": str(prompts),
        "num-prompts": len(bodies),
        "extra-body": bodies[0],
    }


def pandas() -> Path:
    """A folder with what `PANDAS` names, made on first use; the prepared engine stays as it is."""
    folder = default_cache() / f"peer-{PANDAS[0].replace('==', '-')}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            made = Path(unfinished) / "made"
            subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
                 "--disable-pip-version-check", "--target", made, *PANDAS],
                check=True, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            made.rename(folder)
    return folder
