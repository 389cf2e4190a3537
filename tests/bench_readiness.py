"""From a server that is able to answer to our first probe: `python -m tests.bench_readiness`.

A poller of its own asks for /health every 2 ms, and its first 200 is taken for "able to answer".
Between that and the first probe lie the rest of our poll interval, the checks that the server is
the declared one, and one real completion, which ends the wait; how long that completion took is
printed beside it. Needs a Docker Engine with the miniature's image, and the prepared vLLM.
"""

import tempfile
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import structlog

from orchestrator.adapters.arm_server import running_arm_server
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.running_server import RunningServer, Runtime
from orchestrator.cli.planning import resolve_plan
from orchestrator.cli.starting import runtime_of
from orchestrator.model.plan import ArmPlan, LaunchPlan, Plan
from orchestrator.requesting import request_body
from tests.benchmarking import Figures, arguments, benchmark
from tests.conftest import PROJECT

STARTS = {"miniature": 7, "docker-miniature": 7, "vllm-cpu-tiny-hybrid": 2}
"""Profile to number of starts; a real one takes 25 s."""

POLL_S = 0.002


class Poller(threading.Thread):
    """Notes when a port's /health first said 200."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.first_s: float | None = None
        self.stopped = threading.Event()

    def run(self) -> None:
        """Until it does, or is told to stop."""
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False) as http:
            while not self.stopped.wait(POLL_S):
                try:
                    status = http.get("/health", timeout=5).status_code
                except httpx.HTTPError:
                    continue
                if status == httpx.codes.OK:
                    self.first_s = time.monotonic()
                    return


def main() -> None:
    """Cheapest first."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # figures only
    parser = arguments(__doc__)
    parser.add_argument("--profile", choices=STARTS, help="default: all of them, in turn")
    asked = parser.parse_args()
    with benchmark(asked) as figures:
        for profile in STARTS if asked.profile is None else [asked.profile]:
            starts = STARTS[profile]
            plan = resolve_plan(PROJECT, "three-arm", profile, "quick", [], lambda *_: None).plan
            _measure(figures, profile, [_start(plan, plan.arms[0]) for _ in range(starts)])


def _measure(figures: Figures, profile: str, starts: list[tuple[float, float]]) -> None:
    figures.add(
        f"{profile}: able to answer → first probe", "ms", [1000 * waited for waited, _ in starts]
    )
    figures.add(
        f"{profile}: of which the completion that ends the wait",
        "ms",
        [1000 * answered for _, answered in starts],
    )


def _start(plan: Plan, arm: ArmPlan) -> tuple[float, float]:
    """Seconds from the poller's first 200 to ready, and of the completion in between."""
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore(Path(folder))
        answered_s: list[float] = []
        pollers: list[Poller] = []
        with runtime_of(arm, store) as runtime:
            try:
                with running_arm_server(
                    arm,
                    ready_body=request_body(plan, arm, arm.ready_probe),
                    log_file=store.arm_dir(arm.name) / "server.log",
                    memory_file=store.arm_dir(arm.name) / "memory.jsonl",
                    keep=lambda exchange: answered_s.append(exchange.times.latency_s),
                    keep_beats=lambda *_: None,
                    on_wait=lambda *_: None,
                    hurry=threading.Event(),
                    runtime=_polled(runtime, pollers),
                ):
                    ready_s = time.monotonic()
                    (poller,) = pollers
                    poller.join(5)
            finally:
                for poller in pollers:
                    poller.stopped.set()
        if poller.first_s is None:
            raise RuntimeError(f"{arm.name}: the poller was never answered")
        return ready_s - poller.first_s, answered_s[0]


def _polled(runtime: Runtime, pollers: list[Poller]) -> Runtime:
    """The runtime, with a poller that begins where the server's start does."""

    def started(
        launch: LaunchPlan, *, port: int, log_file: Path, hurry: threading.Event
    ) -> AbstractContextManager[RunningServer]:
        pollers.append(Poller(port))
        pollers[-1].start()
        return runtime(launch, port=port, log_file=log_file, hurry=hurry)

    return started


if __name__ == "__main__":
    main()
