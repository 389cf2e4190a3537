"""What making `report.html` of each recorded run costs, its evidence being read and judged."""

import time
from collections.abc import Iterator

from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.reporting import page
from orchestrator.model.plan import Plan
from orchestrator.runner import judge_run
from tests.bench.figures import Figure, figure
from tests.conftest import PROJECT


def measure() -> Iterator[Figure]:
    """Processor time of each page."""
    for run in sorted(path.parent for path in PROJECT.glob("docs/evidence/*/run.json")):
        store = RunStore.open(run)
        plan = store.read("plan.json", Plan)
        verdict = judge_run(plan, store)
        began_s = time.process_time()
        text = page(plan, verdict, store)
        took_s = time.process_time() - began_s
        charts, megabytes = text.count("<svg "), len(text.encode()) / 1e6
        yield figure(run.name, [took_s], "s", f"{charts} charts, {megabytes:.2f} MB")
