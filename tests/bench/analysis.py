"""What judging costs as a run grows: time, memory peak, and the size of its reports.

A real run of the miniature (one arm, 20 exchanges, one measured cell) is the material. Runs of 10,
100 and 1,000 arms, which are 200, 2,000 and 20,000 exchanges, are made of it: each arm's files are
links to the same ones, so that reading, decoding, digesting, comparing and judging are done for
every arm anew, while the disk's cache is warm. Each size is judged in a process of its own, whose
memory peak is its own.
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
from tests.bench.figures import Figure, figure, peak_bytes
from tests.conftest import COMMAND, PROJECT, copied_project

ARM = "contaminated"
SIZES = (10, 100, 1000)
EXCHANGES_OF_ARM = 20
ROUNDS = 5


def measure() -> Iterator[Figure]:
    """Smallest first."""
    with tempfile.TemporaryDirectory(prefix="vllm-arms-bench-") as folder:
        material = real_run(Path(folder))
        yield from decoding(material)
        for arms in SIZES:
            grown = Path(folder) / f"of-{arms}"
            grow(material, arms, grown)
            yield from in_a_process_of_its_own(grown)


def real_run(folder: Path) -> RunStore:
    """`three-arm --quick` of one arm, on the miniature."""
    subprocess.run(
        [*COMMAND, "run", "three-arm", "--quick", "--arm", ARM, "--profile", "miniature",
         "--project", str(copied_project(folder))],
        stdout=subprocess.DEVNULL, check=False, cwd=PROJECT,
    )  # fmt: skip
    (run,) = (path for path in (folder / "runs" / "three-arm").iterdir() if path.is_dir())
    return RunStore.open(run)


def decoding(material: RunStore) -> Iterator[Figure]:
    """Answers a second, of processor time."""
    answers = [exchange.response for exchange, _ in material.exchanges(ARM)][1:] * 10
    decoded, digested = [], []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        observed = [decode(answer, top_logprobs=20) for answer in answers]
        decoded_s = time.process_time()
        for observation in observed:
            numeric_key(observation)
        decoded.append(len(answers) / (decoded_s - began_s))
        digested.append(len(answers) / (time.process_time() - decoded_s))
    size = f"an answer has {len(answers[0]):,} bytes"
    yield figure("decoding", decoded, "answers/s", size)
    yield figure("digests", digested, "answers/s", size)


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


def in_a_process_of_its_own(run: Path) -> list[Figure]:
    """Judge and report it."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(judged, (run,))


def judged(run: Path) -> list[Figure]:
    """Wall times, sizes, and this process's memory peak."""
    store = RunStore.open(run)
    plan = store.read("plan.json", Plan)
    began_s = time.monotonic()
    verdict = judge_run(plan, store)
    judged_s = time.monotonic()
    as_text = markdown(plan, verdict, command="bench")
    text_s = time.monotonic()
    peak_without_page = peak_bytes()
    as_page = page(plan, verdict, store)
    page_s = time.monotonic()
    of = f"{len(plan.arms):,} arms, {EXCHANGES_OF_ARM * len(plan.arms):,} exchanges"
    text_mb, page_mb = len(as_text.encode()) / 1e6, len(as_page.encode()) / 1e6
    return [
        figure(f"{of}: judging", [judged_s - began_s], "s"),
        figure(f"{of}: report.md", [text_s - judged_s], "s", f"{text_mb:.3f} MB"),
        figure(f"{of}: memory peak until then", [peak_without_page / 2**20], "MiB"),
        figure(f"{of}: report.html", [page_s - text_s], "s", f"{page_mb:.2f} MB"),
        figure(f"{of}: memory peak with the page", [peak_bytes() / 2**20], "MiB"),
    ]
