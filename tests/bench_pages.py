"""What making `report.html` costs: `python -m tests.bench_pages [RUN …]`. It only prints.

Without a run: every recorded one. Its evidence is read and judged first; that is not the page.
"""

import sys
import time
from pathlib import Path

from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.reporting import page
from orchestrator.model.plan import Plan
from orchestrator.runner import judge_run
from tests.conftest import PROJECT


def main() -> None:
    """One line a run: processor time and wall time of its page, charts, size."""
    given = [Path(name) for name in sys.argv[1:]]
    for run in given or sorted(path.parent for path in PROJECT.glob("docs/evidence/*/run.json")):
        store = RunStore.open(run)
        plan = store.read("plan.json", Plan)
        verdict = judge_run(plan, store)
        wall_s, processor_s = time.perf_counter(), time.process_time()
        text = page(plan, verdict, store)
        wall_s, processor_s = time.perf_counter() - wall_s, time.process_time() - processor_s
        sys.stdout.write(
            f"{run.resolve().name:24} {processor_s:5.2f} s of processor, {wall_s:5.2f} s in all,"
            f" {text.count('<svg '):3} charts, {len(text.encode()) / 1e6:.2f} MB\n"
        )


if __name__ == "__main__":
    main()
