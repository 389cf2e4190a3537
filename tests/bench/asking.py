"""What measuring a request costs: our client against a bare httpx loop, on one server, interleaved.

Each pair is the same request, byte for byte, sent by both in turn, and who goes first alternates:
what the machine does meanwhile falls on both. Three figures of ours stand against the bare loop's
time from its call to the answer's last byte: the latency that we record, the time until the answer
is on disk, and the time until the counters are there too, which is what a probe of a run takes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import httpx

from orchestrator.metrics import read_metrics
from orchestrator.model.plan import ProbePlan
from orchestrator.requesting import request_body
from orchestrator.statistics import median_interval
from orchestrator.streaming import decode_stream
from tests.bench.figures import Figure, figure
from tests.bench.serving import Served, resolved, serving

PAIRS = 120
COMPLETIONS = "/v1/completions"
HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Bench:
    """A ready server with both clients."""

    served: Served
    http: httpx.Client

    def body(self, probe: ProbePlan) -> bytes:
        """What both send."""
        return request_body(self.served.plan, self.served.arm, probe)


def measure() -> Iterator[Figure]:
    """Requests in one piece, then streamed ones."""
    with running_bench("vllm-cpu-tiny-hybrid") as bench:
        whole = bench.served.arm.cells[0].probes[0]
        yield from compare(
            "a request in one piece",
            lambda number: bare_whole(bench, whole),
            lambda number: ours(bench, whole, number),
        )
        streamed = bench.served.arm.cold[0].probes[0]
        yield from compare(
            "time to first token",
            lambda number: bare_first_token(bench, streamed),
            lambda number: our_first_token(bench, streamed, number),
        )


@contextmanager
def running_bench(profile: str) -> Iterator[Bench]:
    """One start, whose requests are served from its cache after the first: as short as can be."""
    plan, arm = resolved("boundary-price", profile, "sham-patch")
    with serving(plan, arm) as served:
        url = f"http://127.0.0.1:{served.facts.port}"
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as http:
            yield Bench(served, http)


def compare(
    what: str, bare: Callable[[int], float], measured: Callable[[int], dict[str, float]]
) -> Iterator[Figure]:
    """Both in turn, and the differences of the pairs, with the interval of their median."""
    bare(0), measured(0)
    pairs: list[tuple[float, dict[str, float]]] = []
    for number in range(1, PAIRS + 1):
        if number % 2:
            bare_s = bare(number)
            pairs.append((bare_s, measured(number)))
        else:
            ours_s = measured(number)
            pairs.append((bare(number), ours_s))
    yield figure(f"{what}, bare loop", [1000 * bare_s for bare_s, _ in pairs], "ms")
    for name in pairs[0][1]:
        added = [1000 * (ours_s[name] - bare_s) for bare_s, ours_s in pairs]
        ratio = median(ours_s[name] / bare_s for bare_s, ours_s in pairs)
        interval = median_interval(added)
        told = "" if interval is None else f"median {interval.low:+.2f} to {interval.high:+.2f}, "
        yield figure(f"{what}, {name}, added", added, "ms", f"{told}{ratio:.3f} ×")


def bare_whole(bench: Bench, probe: ProbePlan) -> float:
    """Nothing kept, nothing counted."""
    started = time.monotonic()
    bench.http.post(COMPLETIONS, content=bench.body(probe), headers=HEADERS).raise_for_status()
    return time.monotonic() - started


def ours(bench: Bench, probe: ProbePlan, number: int) -> dict[str, float]:
    """As the runner does it."""
    named = probe.model_copy(update={"id": f"{number:03d}-whole"})
    before = int(read_metrics(bench.served.server.counters(finished=None)).requests_finished or 0)
    started = time.monotonic()
    exchange = bench.served.server.ask(named, bench.body(probe))
    kept = time.monotonic()
    lines = bench.served.server.counters(finished=before + 1)
    bench.served.store.save_counters(bench.served.arm.name, named.id, lines)
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


def our_first_token(bench: Bench, probe: ProbePlan, number: int) -> dict[str, float]:
    """From what was recorded, decoded afterwards; and from the call on, as the bare loop's is."""
    named = probe.model_copy(update={"id": f"{number:03d}-streamed"})
    started = time.monotonic()
    exchange = bench.served.server.ask(named, bench.body(probe))
    recorded_s = decode_stream(exchange.response, exchange.times.arrivals).first_token_s
    return {
        "as we record it": recorded_s,
        "from our call on": exchange.times.started_s + recorded_s - started,
    }
