"""How fast a server's log is captured, and at what memory: `python -m tests.bench_capture`.

A server that writes lines as fast as it can, to the end of a given number of bytes. A process
writes its log itself, so that figure is the machine's; a container's comes over the engine's
connection. Where no Docker Engine answers, it says so and fails after the first figures.
"""

import tempfile
import threading
import time
from pathlib import Path

import docker
import structlog

from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.process_server import running_process
from tests.benchmarking import CONSOLE, Figures, arguments, benchmark, peak_mib
from tests.conftest import engine_image
from tests.container_servers import ContainerServers
from tests.test_process_server import launch

SIZES_MB = (1, 10, 100)
ROUNDS = 3

WRITING = """
    import sys
    line = b"INFO 12-01 12:00:00 [loggers.py:273] Engine 000: Running: 1 reqs, Waiting: 0\\n"
    block = line * (1_000_000 // len(line))
    for _ in range({megabytes}):
        sys.stdout.buffer.write(block)
"""


def main() -> None:
    """Each size on each runtime."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # figures only
    asked = arguments(__doc__).parse_args()
    with benchmark(asked) as figures:
        for megabytes in SIZES_MB:
            rates = [_of_a_process(megabytes) for _ in range(ROUNDS)]
            _tell(figures, "process", megabytes, rates)
        with docker_engine() as client:
            for megabytes in SIZES_MB:
                rates = [_of_a_container(client, megabytes) for _ in range(ROUNDS)]
                _tell(figures, "container", megabytes, rates)
    CONSOLE.print("  the peak holds the SDKs; what grows with the log is the difference of sizes")


def _tell(figures: Figures, runtime: str, megabytes: int, rates: list[float]) -> None:
    figures.add(f"captured of a {runtime}, {megabytes} MB", "MB/s", rates)
    figures.add(f"memory peak after it, {runtime}, {megabytes} MB", "MiB", [peak_mib()])


def _of_a_process(megabytes: int) -> float:
    """Megabytes a second, from the start to the last byte on disk."""
    with tempfile.TemporaryDirectory() as folder:
        log_file = Path(folder) / "server.log"
        began_s = time.monotonic()
        planned = launch(WRITING.format(megabytes=megabytes))
        with running_process(planned, port=1, log_file=log_file, hurry=threading.Event()) as server:
            server.wait_for_exit(120)
        return log_file.stat().st_size / 1e6 / (time.monotonic() - began_s)


def _of_a_container(client: docker.DockerClient, megabytes: int) -> float:
    """Likewise; to the end of the container's removal."""
    with tempfile.TemporaryDirectory() as folder:
        servers = ContainerServers(client, engine_image(), Path(folder), "bench")
        began_s = time.monotonic()
        with servers.start(servers.launch(WRITING.format(megabytes=megabytes))) as server:
            server.wait_for_exit(120)
        return servers.log_file.stat().st_size / 1e6 / (time.monotonic() - began_s)


if __name__ == "__main__":
    main()
