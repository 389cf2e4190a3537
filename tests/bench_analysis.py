"""What judging costs as a run grows: time, memory peak, and the size of its reports.

Prints figures, asserts none. `python -m tests.bench_analysis [--json FILE] [--largest ARMS]`.

A real run of the miniature (one arm, 20 exchanges, one measured cell) is the material. Runs of 10,
100 and 1,000 arms are made of it: each arm's files are links to the same ones, so that reading,
decoding, digesting, comparing and judging are done for every arm anew, while the disk's cache is
warm. Each size is judged in a process of its own, whose memory peak is its own.
"""

import argparse
import json
import multiprocessing
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.reporting import page
from orchestrator.decoding import decode
from orchestrator.digest import numeric_key
from orchestrator.model.plan import Plan
from orchestrator.reporting.markdown import markdown
from orchestrator.runner import judge_run
from tests.conftest import COMMAND, PROJECT

CONSOLE = Console(width=120)
ARM = "contaminated"
SIZES = (10, 100, 1000)
Figures = dict[str, Any]


def main() -> None:
    """Smallest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="arms of the largest run")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vllm-arms-bench-") as folder:
        material = real_run(Path(folder))
        found: Figures = {"machine": machine(), "decoding": decoding(material), "runs": []}
        told = found["decoding"]
        CONSOLE.print(
            f"decode: {told['decoded_per_s']:,.0f} answers/s of {told['answer_bytes']:,} bytes; "
            f"digest: {told['digested_per_s']:,.0f} answers/s"
        )
        for arms in (size for size in SIZES if size <= asked.largest):
            grown = Path(folder) / f"of-{arms}"
            grow(material, arms, grown)
            figures = in_a_process_of_its_own(grown)
            found["runs"].append(figures)
            CONSOLE.print(
                f"{arms:5} arms, {figures['exchanges']:6,} exchanges: judged in "
                f"{figures['judge_s']:.1f} s, memory peak {figures['peak_mib']:,.0f} MiB; "
                f"report.md {figures['markdown_s']:.2f} s, {figures['markdown_bytes']:,} bytes; "
                f"report.html {figures['html_s']:.1f} s, {figures['html_bytes']:,} bytes"
            )
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def machine() -> Figures:
    """What the figures belong to."""
    return {
        "processors": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_before": os.getloadavg()[0],
    }


def real_run(folder: Path) -> RunStore:
    """`three-arm --quick` of one arm, on the miniature."""
    for name in ("arms", "launch_profiles"):
        shutil.copytree(PROJECT / name, folder / name)
    subprocess.run(
        [*COMMAND, "run", "three-arm", "--quick", "--arm", ARM, "--profile", "miniature",
         "--project", str(folder)],
        stdout=subprocess.DEVNULL, check=False, cwd=PROJECT,
    )  # fmt: skip
    (run,) = (path for path in (folder / "runs" / "three-arm").iterdir() if path.is_dir())
    return RunStore.open(run)


def decoding(material: RunStore) -> Figures:
    """Answers a second, of processor time."""
    answers = [exchange.response for exchange, _ in material.exchanges(ARM)][1:] * 20
    began_s = time.process_time()
    observed = [decode(answer, top_logprobs=20) for answer in answers]
    decoded_s = time.process_time()
    for observation in observed:
        numeric_key(observation)
    digested_s = time.process_time()
    return {
        "answer_bytes": len(answers[0]),
        "decoded_per_s": len(answers) / (decoded_s - began_s),
        "digested_per_s": len(answers) / (digested_s - decoded_s),
    }


def grow(material: RunStore, arms: int, target: Path) -> None:
    """A run of as many arms, each linked to the one that there is."""
    plan = material.read("plan.json", Plan)
    values = plan.model_dump()
    (only,) = values["arms"]
    values["arms"] = tuple({**only, "name": name} for name in _names(arms))
    values["control"] = None
    store = RunStore(target)
    store.write_text("plan.json", Plan.model_validate(values).model_dump_json())
    os.link(material.root / "run.json", target / "run.json")
    source = material.root / "arms" / ARM
    for name in _names(arms):
        shutil.copytree(source, target / "arms" / name, copy_function=os.link)


def _names(arms: int) -> Iterator[str]:
    return (f"arm-{number:04d}" for number in range(1, arms + 1))


def in_a_process_of_its_own(run: Path) -> Figures:
    """Judge and report it."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(judged, (run,))


def judged(run: Path) -> Figures:
    """Wall times, sizes, and this process's memory peak."""
    store = RunStore.open(run)
    plan = store.read("plan.json", Plan)
    began_s = time.monotonic()
    verdict = judge_run(plan, store)
    judged_s = time.monotonic()
    as_text = markdown(plan, verdict, command="bench")
    text_s = time.monotonic()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    as_page = page(plan, verdict, store)
    page_s = time.monotonic()
    return {
        "arms": len(plan.arms),
        "exchanges": 20 * len(plan.arms),
        "judge_s": judged_s - began_s,
        "peak_mib": peak_mib,
        "markdown_s": text_s - judged_s,
        "markdown_bytes": len(as_text.encode()),
        "html_s": page_s - text_s,
        "html_bytes": len(as_page.encode()),
        "peak_with_html_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    sys.exit(main())
