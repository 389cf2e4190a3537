"""What the orchestrator costs: the three arms against the same work by a bare script.

The bare script starts the same servers with the same command lines, or in the same containers,
waits for /health, sends the same request bodies one after the other over one connection, and stops
each server with SIGTERM, waiting until it is gone. It keeps no bytes, reads no counters, and checks
nothing.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import httpx

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
from tests.bench.figures import Figure, figure
from tests.conftest import PROJECT, copied_project
from tests.test_process_server import eventually, launch

NOTHING = "import time; print('up', flush=True); time.sleep(600)"
PAIRS = {"miniature": 2, "docker-miniature": 2, "vllm-cpu-tiny-hybrid": 2}

JUDGED = (0, 1, 3)
"""Exit codes of a run that was measured to its end, whatever was found."""


def measure() -> Iterator[Figure]:
    """All figures, cheapest first."""
    yield figure("vllm-arms --help", [timed(["--help"]) for _ in range(5)], "s")
    noticed = [1000 * exit_noticed() for _ in range(20)]
    yield figure("a server's exit is noticed after", noticed, "ms")
    for profile, pairs in PAIRS.items():
        yield from three_arms(profile, pairs)


def three_arms(profile: str, pairs: int) -> Iterator[Figure]:
    """Both in turn, each pair in the other order."""
    made = resolve_plan(PROJECT, "three-arm", profile, "quick", [], _silent).plan
    command = ["run", "three-arm", "--quick", "--profile", profile]
    ours_s, bare_s = [], []
    for pair in range(pairs):
        if pair % 2:
            ours_s.append(timed(command))
            bare_s.append(bare(made))
        else:
            bare_s.append(bare(made))
            ours_s.append(timed(command))
    probes = sum(len(cell.probes) for arm in made.arms for cell in arm.cells)
    what = f"three arms on {profile}, {probes} probes"
    yield figure(f"{what}, ours", ours_s, "s")
    yield figure(f"{what}, bare script", bare_s, "s")
    ratios = [ours / bare for ours, bare in zip(ours_s, bare_s, strict=True)]
    yield figure(f"{what}, ours over bare", ratios, "×", "of each pair")


def _silent(line: str) -> None:
    """Preparing says nothing here."""


def timed(flags: list[str]) -> float:
    """Wall time of a command of ours, in a project of its own, its output thrown away."""
    program = Path(sys.executable).with_name("vllm-arms")
    with TemporaryDirectory(prefix="vllm-arms-bench-") as folder:
        project = ["--project", str(copied_project(Path(folder)))] if flags[0] == "run" else []
        started = time.monotonic()
        done = subprocess.run(
            [program, *flags, *project], capture_output=True, text=True, check=False, cwd=PROJECT
        )
        took_s = time.monotonic() - started
    if done.returncode not in JUDGED:
        raise AssertionError(f"{done.args}: exit code {done.returncode}: {done.stderr}")
    return took_s


def exit_noticed() -> float:
    """From SIGKILL of a server's first process to our knowing of it."""
    seen = threading.Event()
    with TemporaryDirectory() as folder:
        log_file = Path(folder) / "server.log"
        with running_process(
            launch(NOTHING), port=1, log_file=log_file, hurry=threading.Event()
        ) as server:
            server.on_exit(seen.set)
            assert eventually(lambda: b"up" in log_file.read_bytes())
            victim = max(server.pids())
            started = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            assert seen.wait(10), "the exit was not noticed within 10 s"
            return time.monotonic() - started


def bare(made: Plan) -> float:
    """The same starts, requests and stops, and nothing else."""
    started = time.monotonic()
    for arm in made.arms:
        bare_arm(made, arm)
    return time.monotonic() - started


def bare_arm(made: Plan, arm: ArmPlan) -> None:
    """One start."""
    port, contained = free_port(), arm.launch.container
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
    """The same container; no log, no inspection, nobody who watches it."""
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
