"""How fast a server's output goes to its file, whole, and what memory that takes of ours."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.process_server import running_process
from tests.bench.figures import Figure, figure
from tests.conftest import engine_image
from tests.container_servers import ContainerServers
from tests.test_process_server import launch

MIB = 256
FLOOD = f"""
import sys
block = (b"x" * 199 + bytes([10])) * 5243
for _ in range({MIB}): sys.stdout.buffer.write(block)
"""
FLOOD_BYTES = 200 * 5243 * MIB
LIMIT_S = 300


def measure() -> Iterator[Figure]:
    """A process of this machine, and a container."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _captured("a process", Path(folder) / "process.log", _process)
    with tempfile.TemporaryDirectory() as folder:
        yield from _captured("a container", Path(folder) / "server.log", _container)


def _process(log_file: Path) -> None:
    hurry = threading.Event()
    with running_process(launch(FLOOD), port=1, log_file=log_file, hurry=hurry) as server:
        server.wait_for_exit(LIMIT_S)


def _container(log_file: Path) -> None:
    image = engine_image()
    with docker_engine() as client:
        servers = ContainerServers(client, image, log_file.parent, "bench")
        with servers.start(servers.launch(FLOOD)) as server:
            server.wait_for_exit(LIMIT_S)


def _captured(what: str, log_file: Path, run: Callable[[Path], None]) -> Iterator[Figure]:
    ours = psutil.Process()
    before_bytes, began_s = ours.memory_info().rss, time.monotonic()
    run(log_file)
    took_s = time.monotonic() - began_s
    lost = FLOOD_BYTES - log_file.stat().st_size
    remark = f"{MIB} MiB, its start and end included; {lost:,} bytes lost"
    yield figure(f"output of {what}", [FLOOD_BYTES / 1e6 / took_s], "MB/s", remark)
    grown_mib = (ours.memory_info().rss - before_bytes) / 2**20
    yield figure(f"our memory afterwards, {what}", [grown_mib], "MiB more")
