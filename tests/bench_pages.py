"""What making `report.html` costs: `python -m tests.bench_pages [--json FILE] [RUN …]`.

Without a run: every recorded one. Its evidence is read and judged first; that is not the page.
"""

import time
from pathlib import Path

from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.reporting import page
from orchestrator.model.plan import Plan
from orchestrator.runner import judge_run
from tests.benchmarking import arguments, benchmark
from tests.conftest import PROJECT


def main() -> None:
    """Processor time and size of each run's page."""
    parser = arguments(__doc__)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="default: all recorded")
    asked = parser.parse_args()
    recorded = sorted(path.parent for path in PROJECT.glob("docs/evidence/*/run.json"))
    with benchmark(asked) as figures:
        for run in asked.runs or recorded:
            store = RunStore.open(run)
            plan = store.read("plan.json", Plan)
            verdict = judge_run(plan, store)
            began_s = time.process_time()
            text = page(plan, verdict, store)
            took_s = time.process_time() - began_s
            name = run.resolve().name
            figures.add(f"{name}: processor time of its page", "s", [took_s])
            figures.add(f"{name}: its page", "MB", [len(text.encode()) / 1e6])


if __name__ == "__main__":
    main()
