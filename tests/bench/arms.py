"""What the orchestrator costs: the three arms against the same work by a bare script.

The bare script starts the same servers with the same command lines, waits for /health, sends the
same request bodies one after the other over one connection, and stops each server with SIGTERM,
waiting until its process group is gone. It keeps no bytes, reads no counters, and checks nothing.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from orchestrator.adapters.process_server import (
    command_line,
    environment,
    free_port,
    running_process,
)
from orchestrator.cli.planning import resolve_plan
from orchestrator.model.plan import ArmPlan, Plan
from orchestrator.requesting import request_body
from tests.bench.figures import Figure, figure
from tests.conftest import PROJECT
from tests.test_process_server import launch

NOTHING = "import time; time.sleep(600)"
PAIRS = {"miniature": 3, "vllm-cpu-tiny-hybrid": 2}


def measure() -> Iterator[Figure]:
    """All figures, cheapest first."""
    yield figure("vllm-arms --help", [timed(["vllm-arms", "--help"]) for _ in range(5)], "s")
    noticed = [1000 * exit_noticed() for _ in range(20)]
    yield figure("a server's exit is noticed after", noticed, "ms")
    for profile, pairs in PAIRS.items():
        yield from three_arms(profile, pairs)


def three_arms(profile: str, pairs: int) -> Iterator[Figure]:
    """Both in turn, each pair in the other order."""
    made = resolve_plan(PROJECT, "three-arm", profile, "plain", [], _silent).plan
    command = ["vllm-arms", "run", "three-arm", "--profile", profile]
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


def timed(command: list[str]) -> float:
    """Wall time of a command of ours, its output thrown away."""
    program = Path(sys.executable).with_name(command[0])
    started = time.monotonic()
    subprocess.run([program, *command[1:]], stdout=subprocess.DEVNULL, check=False, cwd=PROJECT)
    return time.monotonic() - started


def exit_noticed() -> float:
    """From SIGKILL of a server's first process to our knowing of it."""
    seen = threading.Event()
    log_file = Path(f"/tmp/vllm-arms-bench-{os.getpid()}.log")  # noqa: S108 - removed below
    try:
        with running_process(
            launch(NOTHING), port=1, log_file=log_file, hurry=threading.Event()
        ) as server:
            server.on_exit(seen.set)
            time.sleep(0.3)
            victim = max(server.pids())
            started = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            seen.wait(10)
            return time.monotonic() - started
    finally:
        log_file.unlink(missing_ok=True)


def bare(made: Plan) -> float:
    """The same starts, requests and stops, and nothing else."""
    started = time.monotonic()
    for arm in made.arms:
        bare_arm(made, arm)
    return time.monotonic() - started


def bare_arm(made: Plan, arm: ArmPlan) -> None:
    """One start."""
    port = free_port()
    with subprocess.Popen(
        command_line(arm.launch, port),
        env=environment(arm.launch, os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            while not healthy(client):
                time.sleep(0.1)
            probes = [arm.ready_probe, *arm.warm_up, *(p for c in arm.cells for p in c.probes)]
            for probe in probes:
                body = request_body(made, arm, probe)
                client.post(
                    probe.endpoint, content=body, headers={"Content-Type": "application/json"}
                ).raise_for_status()
        process.terminate()
        process.wait()
        while group_lives(process.pid):
            time.sleep(0.02)


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
