"""What measuring a request costs: our client against a bare httpx loop, on one server, interleaved.

`python -m tests.bench_requests [--profile NAME] [--json FILE]`; two minutes.

Each pair is the same request, byte for byte, sent by both in turn, and who goes first alternates:
what the machine does meanwhile falls on both. Three figures of ours stand against the bare loop's
time from its call to the answer's last byte: the latency that we record, the time until the answer
is on disk, and the time until the counters are there too, which is what a probe of a run takes.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import structlog

from orchestrator.adapters.arm_server import ArmServer, running_arm_server
from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.planning import resolve_plan
from orchestrator.metrics import read_metrics
from orchestrator.model.plan import ArmPlan, Plan, ProbePlan
from orchestrator.requesting import request_body
from orchestrator.streaming import decode_stream
from tests.benchmarking import Figures, arguments, benchmark
from tests.conftest import PROJECT

PAIRS = 220
COMPLETIONS = "/v1/completions"
HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Bench:
    """A ready server with both clients."""

    plan: Plan
    arm: ArmPlan
    server: ArmServer
    store: RunStore
    http: httpx.Client

    def body(self, probe: ProbePlan) -> bytes:
        """What both send."""
        return request_body(self.plan, self.arm, probe)


def main() -> None:
    """Requests in one piece, then streamed ones."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # figures only
    parser = arguments(__doc__)
    parser.add_argument("--profile", default="vllm-cpu-tiny-hybrid")
    asked = parser.parse_args()
    with benchmark(asked) as figures, running_bench(asked.profile) as bench:
        whole = bench.arm.cells[0].probes[0]
        compare(
            figures,
            "in one piece",
            lambda number: bare_whole(bench, whole),
            lambda number: ours(bench, whole, number),
        )
        streamed = bench.arm.cold[0].probes[0]
        compare(
            figures,
            "streamed",
            lambda number: bare_first_token(bench, streamed),
            lambda number: {
                "first token as we record it": our_first_token(bench, streamed, number)
            },
        )


@contextmanager
def running_bench(profile: str) -> Iterator[Bench]:
    """One start, whose requests are served from its cache after the first: as short as can be."""
    made = resolve_plan(PROJECT, "boundary-price", profile, "quick", ["sham-patch"], print).plan
    arm = made.arms[0]
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore(Path(folder))
        with running_arm_server(
            arm,
            ready_body=request_body(made, arm, arm.ready_probe),
            log_file=store.arm_dir(arm.name) / "server.log",
            memory_file=store.arm_dir(arm.name) / "memory.jsonl",
            keep=lambda exchange: store.keep(arm.name, exchange),
            keep_beats=lambda probe, beats: store.keep_beats(arm.name, probe, beats),
            on_wait=lambda waited_s, line: None,
            hurry=threading.Event(),
        ) as (server, facts):
            url = f"http://127.0.0.1:{facts.port}"
            with httpx.Client(base_url=url, timeout=120, trust_env=False) as http:
                yield Bench(made, arm, server, store, http)


def compare(
    figures: Figures,
    kind: str,
    bare: Callable[[int], float],
    measured: Callable[[int], dict[str, float]],
) -> None:
    """Both in turn, and the differences of the pairs."""
    bare(0), measured(0)
    pairs: list[tuple[float, dict[str, float]]] = []
    for number in range(1, PAIRS + 1):
        if number % 2:
            bare_s = bare(number)
            pairs.append((bare_s, measured(number)))
        else:
            ours_s = measured(number)
            pairs.append((bare(number), ours_s))
    figures.add(f"{kind}, bare loop", "ms", [1000 * bare_s for bare_s, _ in pairs])
    for name in pairs[0][1]:
        added = [1000 * (ours_s[name] - bare_s) for bare_s, ours_s in pairs]
        figures.add(f"{kind}, {name}, added", "ms", added)
        ratios = [ours_s[name] / bare_s for bare_s, ours_s in pairs]
        figures.add(f"{kind}, {name}, over bare", "×", ratios)


def bare_whole(bench: Bench, probe: ProbePlan) -> float:
    """Nothing kept, nothing counted."""
    started = time.monotonic()
    bench.http.post(COMPLETIONS, content=bench.body(probe), headers=HEADERS).raise_for_status()
    return time.monotonic() - started


def ours(bench: Bench, probe: ProbePlan, number: int) -> dict[str, float]:
    """As the runner does it."""
    named = probe.model_copy(update={"id": f"{number:03d}-whole"})
    before = int(read_metrics(bench.server.counters(finished=None)).requests_finished or 0)
    started = time.monotonic()
    exchange = bench.server.ask(named, bench.body(probe))
    kept = time.monotonic()
    lines = bench.server.counters(finished=before + 1)
    bench.store.save_counters(bench.arm.name, named.id, lines)
    counted = time.monotonic()
    return {
        "latency as we record it": exchange.times.latency_s,
        "until it is on disk": kept - started,
        "until the counters are read": counted - started,
    }


def bare_first_token(bench: Bench, probe: ProbePlan) -> float:
    """Until the first line of data."""
    started = time.monotonic()
    first_s = 0.0
    with bench.http.stream(
        "POST", COMPLETIONS, content=bench.body(probe), headers=HEADERS
    ) as response:
        for line in response.iter_lines():
            if line.startswith("data:") and not first_s:
                first_s = time.monotonic() - started
    return first_s


def our_first_token(bench: Bench, probe: ProbePlan, number: int) -> float:
    """From what was recorded, decoded afterwards."""
    named = probe.model_copy(update={"id": f"{number:03d}-streamed"})
    exchange = bench.server.ask(named, bench.body(probe))
    return decode_stream(exchange.response, exchange.times.arrivals).first_token_s


if __name__ == "__main__":
    main()
