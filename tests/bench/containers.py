"""What a container's lifetime costs: ours against the bare SDK with the same image.

It needs a Docker Engine and the image that ENGINE_IMAGE names. The server is trivial and answers
after about 0.1 s.

The bare script creates, starts, asks until it is answered, kills and removes. It keeps no log and
no inspection, drops no capability, watches for no exit, and leaves the container behind when it is
interrupted.
"""

import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import httpx

from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.http_probe import ServerClient
from orchestrator.adapters.log_tail import LogTail
from orchestrator.adapters.process_server import free_port
from orchestrator.adapters.readiness import Waiting, wait_until_healthy
from orchestrator.model.profile import ReadyLimits
from tests.bench.figures import Figure, figure
from tests.conftest import engine_image
from tests.container_servers import ANSWERING, ContainerServers

ROUNDS = 15
LIMITS = ReadyLimits(total_timeout_s=20.0, no_progress_timeout_s=20.0, poll_interval_s=0.01)


def measure() -> Iterator[Figure]:
    """Both in turn, so that what else the machine does falls on both."""
    image = engine_image()
    ours_s, bare_s = [], []
    with docker_engine() as client:
        for _ in range(ROUNDS):
            bare_s.append(bare(client, image))
            ours_s.append(ours(client, image))
    what = "a container from create to first answer to removal"
    yield figure(f"{what}, ours", ours_s, "s")
    yield figure(f"{what}, bare SDK", bare_s, "s")
    ratios = [ours / bare for ours, bare in zip(ours_s, bare_s, strict=True)]
    yield figure(f"{what}, ours over bare", ratios, "×", "of each pair")


def ours(client: docker.DockerClient, image: str) -> float:
    """As an arm's server is started, waited for, and stopped."""
    with tempfile.TemporaryDirectory() as folder:
        servers = ContainerServers(client, image, Path(folder), "bench")
        port = free_port()
        started_s = time.monotonic()
        with servers.start(servers.launch(ANSWERING), port=port, hurry=threading.Event()) as server:
            http, tail = ServerClient(port, timeout_s=5.0), LogTail(servers.log_file)
            wait_until_healthy(
                Waiting(process=server, client=http, tail=tail, port=port, limits=LIMITS),
                lambda *_: None,
            )
            http.close()
            tail.close()
        return time.monotonic() - started_s


def bare(client: docker.DockerClient, image: str) -> float:
    """The least that does the same."""
    port = free_port()
    started_s = time.monotonic()
    container = client.containers.create(
        image,
        entrypoint=["python3", "-c", textwrap.dedent(ANSWERING), str(port)],
        ports={f"{port}/tcp": ("127.0.0.1", port)},
        init=True,
    )
    container.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
        while not answers(http):
            time.sleep(0.01)
    container.kill(signal="SIGTERM")
    container.wait()
    container.remove()
    return time.monotonic() - started_s


def answers(http: httpx.Client) -> bool:
    """Whether the server is there."""
    try:
        return http.get("/health").status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
