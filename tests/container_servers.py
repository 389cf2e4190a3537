"""Servers in containers that are a few lines of Python, for tests of their lifetime."""

import textwrap
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import docker

from orchestrator.adapters.docker_server import running_container
from orchestrator.adapters.engine_place import SshPlace
from orchestrator.adapters.ownership import this_process
from orchestrator.adapters.process_server import free_port
from orchestrator.adapters.server_container import ServerContainer
from orchestrator.model.container import ContainerPlan, Resources
from orchestrator.model.labels import OWNER, ContainerLabels
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.profile import ReadyLimits, StopLimits

ANSWERING = """
    import http.server, sys
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b"here")
    server = http.server.HTTPServer(("0.0.0.0", int(sys.argv[1])), Handler)
    print("up", flush=True)
    server.serve_forever()
"""
"""A server that answers; it leaves SIGTERM to Python, which ends at once."""


class ContainerServers:
    """Starts such servers, and remembers what was kept of them."""

    def __init__(
        self,
        client: docker.DockerClient,
        image: str,
        folder: Path,
        run: str,
        *,
        place: SshPlace | None = None,
    ) -> None:
        self.place = place
        self.client = client
        self.image = image
        self.log_file = folder / "server.log"
        self.inspections: list[str] = []
        self.keep = self.inspections.append
        self.run = run

    @property
    def log(self) -> str:
        """What the server wrote so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def left(self) -> list[str]:
        """Names of containers of this test that are still there."""
        labelled = self.client.containers.list(
            all=True, ignore_removed=True, filters={"label": OWNER}
        )
        return [str(c.name) for c in labelled if c.labels.get("vllm-arms.run") == self.run]

    def launch(self, code: str, *, grace_s: float = 5.0, **resources: Any) -> LaunchPlan:  # noqa: ANN401 - any field
        """The plan of a few lines of Python; their first argument is the port."""
        granted = {"shared_memory_bytes": 2**26} | resources
        return LaunchPlan(
            argv=("python3", "-c", textwrap.dedent(code), "{port}"),
            environment={"PYTHONUNBUFFERED": "1"},
            inherit=(),
            ready=ReadyLimits(total_timeout_s=20.0, no_progress_timeout_s=20.0),
            stop=StopLimits(grace_s=grace_s),
            request_timeout_s=5.0,
            container=ContainerPlan(
                image=self.image,
                declared=self.image,
                platform="linux/amd64",
                resources=Resources.model_validate(granted),
                mounts=(),
            ),
        )

    def start(
        self, launch: LaunchPlan, *, port: int | None = None, hurry: threading.Event | None = None
    ) -> AbstractContextManager[ServerContainer]:
        """Start the server of a plan."""
        return running_container(
            launch,
            port=port or free_port(),
            log_file=self.log_file,
            hurry=hurry or threading.Event(),
            client=self.client,
            labels=ContainerLabels(role="server", owner=this_process(), run=self.run, arm="test"),
            keep_inspection=self.keep,
            place=self.place,
        )


def times_of(log_file: Path) -> Iterator[tuple[str, str, int]]:
    """The lines of the file beside a log: time, stream, bytes."""
    for line in log_file.with_name(f"{log_file.name}.times").read_text().splitlines():
        at, stream, size = line.split()
        yield at, stream, int(size)
