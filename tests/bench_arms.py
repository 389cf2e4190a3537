"""What the orchestrator costs: the three arms against the same work by a bare script.

`python -m tests.bench_arms [--profile NAME] [--quick] [--pairs N] [--json FILE]`

The bare script starts the same servers with the same command lines, or containers, waits for
/health, sends the same request bodies one after the other over one connection, and stops each
server with SIGTERM, waiting until it is gone. It keeps no bytes, reads no counters, and checks
nothing. Who goes first alternates from pair to pair: what else the machine does falls on both.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import httpx
import structlog

from orchestrator.adapters.container_creation import create
from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.process_server import (
    command_line,
    environment,
    free_port,
    running_process,
)
from orchestrator.cli.planning import resolve_plan
from orchestrator.model.container import ContainerPlan
from orchestrator.model.plan import ArmPlan, LaunchPlan, Plan
from orchestrator.requesting import request_body
from tests.benchmarking import Figures, arguments, benchmark
from tests.conftest import COMMAND, PROJECT, copied_project
from tests.test_process_server import eventually, launch

NOTHING = "import time; print('up', flush=True); time.sleep(600)"


def main() -> None:
    """What is cheap first; then the pairs."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # figures only
    parser = arguments(__doc__)
    parser.add_argument("--profile", default="vllm-cpu-tiny-hybrid")
    parser.add_argument("--quick", action="store_true", help="the experiment's quick selection")
    parser.add_argument("--pairs", type=int, default=3)
    asked = parser.parse_args()
    with benchmark(asked) as figures:
        figures.add("vllm-arms --help", "s", [timed(["--help"]) for _ in range(5)])
        noticed_ms = [1000 * exit_noticed() for _ in range(20)]
        figures.add("a server's exit is noticed after", "ms", noticed_ms)
        compare(figures, asked.profile, quick=asked.quick, pairs=asked.pairs)


def compare(figures: Figures, profile: str, *, quick: bool, pairs: int) -> None:
    """Ours and the bare script in turn."""
    selection = "quick" if quick else "plain"
    made = resolve_plan(PROJECT, "three-arm", profile, selection, [], lambda *_: None).plan
    command = ["run", "three-arm", "--profile", profile, *(["--quick"] if quick else [])]
    ours_s, bare_s = [], []
    for pair in range(pairs):
        if pair % 2:
            ours_s.append(timed(command))
            bare_s.append(bare(made))
        else:
            bare_s.append(bare(made))
            ours_s.append(timed(command))
    probes = sum(len(cell.probes) for arm in made.arms for cell in arm.cells)
    name = f"three arms of {profile}, {probes} probes"
    figures.add(f"{name}, ours", "s", ours_s)
    figures.add(f"{name}, bare script", "s", bare_s)
    ratios = [ours / alone for ours, alone in zip(ours_s, bare_s, strict=True)]
    figures.add(f"{name}, ours over bare, by pairs", "×", ratios)


JUDGED = (0, 1, 3)
"""Exit codes of a run that was measured to its end, whatever was found: what it costs is asked."""


def timed(flags: list[str]) -> float:
    """Wall time of a command of ours, in a copy of the project, its output thrown away."""
    with TemporaryDirectory(prefix="vllm-arms-bench-") as folder:
        copied = copied_project(Path(folder))
        project = ["--project", str(copied)] if flags[0] == "run" else []
        started = time.monotonic()
        done = subprocess.run(
            [*COMMAND, *flags, *project], capture_output=True, text=True, check=False, cwd=PROJECT
        )
        took_s = time.monotonic() - started
        if done.returncode not in JUDGED:
            raise RuntimeError(f"{done.args} failed: {done.stderr}")
        return took_s


def exit_noticed() -> float:
    """From SIGKILL of a server's first process to our knowing of it."""
    seen = threading.Event()
    with (
        TemporaryDirectory() as folder,
        running_process(
            launch(NOTHING), port=1, log_file=Path(folder) / "log", hurry=threading.Event()
        ) as server,
    ):
        server.on_exit(seen.set)
        if not eventually(lambda: b"up" in (Path(folder) / "log").read_bytes()):
            raise RuntimeError("the server did not start")
        victim = max(server.pids())
        started = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        if not seen.wait(10):
            raise RuntimeError("the server's exit was not noticed within 10 s")
        return time.monotonic() - started


def bare(made: Plan) -> float:
    """The same starts, requests and stops, and nothing else."""
    started = time.monotonic()
    for arm in made.arms:
        bare_arm(made, arm)
    return time.monotonic() - started


def bare_arm(made: Plan, arm: ArmPlan) -> None:
    """One start."""
    port = free_port()
    contained = arm.launch.container
    lifetime = (
        bare_process(arm.launch, port)
        if contained is None
        else bare_container(arm.launch, contained, port)
    )
    url = f"http://127.0.0.1:{port}"
    with lifetime, httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
        while not healthy(client):
            time.sleep(0.1)
        probes = [arm.ready_probe, *arm.warm_up, *(p for c in arm.cells for p in c.probes)]
        for probe in probes:
            body = request_body(made, arm, probe)
            client.post(
                probe.endpoint, content=body, headers={"Content-Type": "application/json"}
            ).raise_for_status()


@contextmanager
def bare_process(planned: LaunchPlan, port: int) -> Iterator[None]:
    """Popen, SIGTERM, and until its group is gone."""
    with subprocess.Popen(
        command_line(planned, port),
        env=environment(planned, os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait()
            while group_lives(process.pid):
                time.sleep(0.02)


@contextmanager
def bare_container(planned: LaunchPlan, contained: ContainerPlan, port: int) -> Iterator[None]:
    """The same container; no log, no inspection, no watching."""
    with docker_engine() as client:
        container = create(
            client,
            f"vllm-arms-bench-{uuid4().hex[:12]}",
            contained,
            command=command_line(planned, port),
            environment=planned.environment,
            labels={},
            port=port,
            published=port,
        )
        try:
            container.start()
            yield
            container.kill(signal="SIGTERM")
            container.wait()
        finally:
            container.remove(force=True)


def healthy(client: httpx.Client) -> bool:
    """Whether the server answers."""
    try:
        return client.get("/health").status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def group_lives(group: int) -> bool:
    """Whether a process of the server's group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
