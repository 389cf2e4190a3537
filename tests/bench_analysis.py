"""What judging costs as a run grows: time, memory peak, and the size of its reports.

`python -m tests.bench_analysis [--json FILE] [--largest ARMS]`

A real run of the miniature (one arm, 20 exchanges, one measured cell) is the material. Runs of 10,
100, 500 (10,000 exchanges) and 1,000 arms are made of it: each arm's files are links to the same
ones, so that reading, decoding, digesting, comparing and judging are done for every arm anew, while
the disk's cache is warm. Each size is judged in a process of its own, whose memory peak is its own.
"""

import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.reporting import page
from orchestrator.decoding import decode
from orchestrator.digest import numeric_key
from orchestrator.model.plan import Plan
from orchestrator.reporting.markdown import markdown
from orchestrator.runner import judge_run
from tests.benchmarking import Figures, arguments, benchmark, peak_mib
from tests.conftest import COMMAND, PROJECT, copied_project

ARM = "contaminated"
SIZES = (10, 100, 500, 1000)
ROUNDS = 5

Cost = list[tuple[str, str, float]]
"""Name, unit and value."""


def main() -> None:
    """Smallest first."""
    parser = arguments(__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="arms of the largest run")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="vllm-arms-bench-") as folder,
        benchmark(asked) as figures,
    ):
        material = real_run(Path(folder))
        decoding(figures, material)
        for arms in (size for size in SIZES if size <= asked.largest):
            grown = Path(folder) / f"of-{arms}"
            grow(material, arms, grown)
            for name, unit, value in in_a_process_of_its_own(grown):
                figures.add(f"{arms} arms, {20 * arms:,} exchanges: {name}", unit, [value])


def real_run(folder: Path) -> RunStore:
    """`three-arm --quick` of one arm, on the miniature."""
    project = copied_project(folder)
    subprocess.run(
        [*COMMAND, "run", "three-arm", "--quick", "--arm", ARM, "--profile", "miniature",
         "--project", str(project)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, cwd=PROJECT,
    )  # fmt: skip
    (run,) = (path for path in (project / "runs" / "three-arm").iterdir() if path.is_dir())
    return RunStore.open(run)


def decoding(figures: Figures, material: RunStore) -> None:
    """Answers a second, of processor time."""
    answers = [exchange.response for exchange, _ in material.exchanges(ARM)][1:] * 20
    decoded_per_s, digested_per_s = [], []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        observed = [decode(answer, top_logprobs=20) for answer in answers]
        decoded_s = time.process_time()
        for observation in observed:
            numeric_key(observation)
        digested_s = time.process_time()
        decoded_per_s.append(len(answers) / (decoded_s - began_s))
        digested_per_s.append(len(answers) / (digested_s - decoded_s))
    figures.add(f"decoded, of {len(answers[0]):,} bytes", "answers/s", decoded_per_s)
    figures.add("digested", "answers/s", digested_per_s)


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


def in_a_process_of_its_own(run: Path) -> Cost:
    """Judge and report it."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(judged, (run,))


def judged(run: Path) -> Cost:
    """Processor times, sizes, and this process's memory peak."""
    store = RunStore.open(run)
    plan = store.read("plan.json", Plan)
    began_s, wall_s = time.process_time(), time.monotonic()
    verdict = judge_run(plan, store)
    judged_s, wall_s = time.process_time(), time.monotonic() - wall_s
    peak = peak_mib()
    as_text = markdown(plan, verdict, command="bench")
    text_s = time.process_time()
    as_page = page(plan, verdict, store)
    page_s = time.process_time()
    return [
        ("judged, processor time", "s", judged_s - began_s),
        ("judged, wall time", "s", wall_s),
        ("memory peak of judging", "MiB", peak),
        ("report.md, processor time", "s", text_s - judged_s),
        ("report.md", "MB", len(as_text.encode()) / 1e6),
        ("report.html, processor time", "s", page_s - text_s),
        ("report.html", "MB", len(as_page.encode()) / 1e6),
        ("memory peak with report.html", "MiB", peak_mib()),
    ]


if __name__ == "__main__":
    main()
