"""A launch plan as the engine's own words, and the engine's refusals as ours."""

import io
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import docker
from docker.errors import APIError, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import DeviceRequest, LogConfig, Ulimit
from docker.types import Mount as EngineMount

from orchestrator.adapters.docker_engine import UNREACHABLE, said
from orchestrator.errors import ArmError, HostError, ServerNotReadyError
from orchestrator.model.container import ContainerPlan, Mount, PutFile, Resources

_LOG = LogConfig(
    type=LogConfig.types.JSON,
    # Against whatever the engine has for a default: no rotation, and no message dropped.
    config={"max-size": "1000g", "mode": "blocking"},
)
"""Of the engine's own copy, which is what is left of a server whose orchestrator was killed."""

ALWAYS: Mapping[str, Any] = {
    "init": True,  # forwards SIGTERM, reaps orphans, and with it everything in the container ends
    "auto_remove": False,  # would take the log along
    "restart_policy": {"Name": "no"},  # another start would be another arm
    "privileged": False,
    "cap_drop": ["ALL"],
    "healthcheck": {"test": ["NONE"]},  # the image's would put requests between ours
    "log_config": _LOG,
}
"""Of every container of ours."""


class Creation:
    """A container that is being created, by a thread of its own and under a name of its own.

    A signal interrupts whoever waits for it, and not the call; and an engine that went away in the
    middle may have created it all the same. So `undo` always knows what there is to remove.
    """

    def __init__(self, client: docker.DockerClient, create: Callable[[str], Container]) -> None:
        self._client = client
        self._name = f"vllm-arms-{uuid4().hex[:12]}"
        self._calls = ThreadPoolExecutor(1, thread_name_prefix="create")
        self._created = self._calls.submit(create, self._name)

    def container(self) -> Container:
        """Wait for it; raises what the creation raised."""
        return self._created.result()

    def undo(self) -> None:
        """Remove the container with its anonymous volumes, whatever its state; if there is one.

        Raises:
            docker.errors.DockerException: The engine does not answer.
        """
        self._calls.shutdown(wait=True)
        with suppress(NotFound):
            self._client.api.remove_container(self._name, v=True, force=True)


def create(
    client: docker.DockerClient,
    name: str,
    plan: ContainerPlan,
    *,
    command: Iterable[str],
    environment: Mapping[str, str],
    labels: Mapping[str, str],
    port: int,
    published: int,
) -> Container:
    """Create a server's container, with our files in it; it is not started.

    Args:
        client: The engine.
        name: Of the container.
        plan: What it is made of.
        command: In place of the image's own.
        environment: Over what the image sets.
        labels: By which it is known to be ours.
        port: Where the server listens inside.
        published: The same on 127.0.0.1 of the engine's machine; 0: the engine chooses.

    Raises:
        HostError: The engine refuses. If it only does not take the files, the container is there.
    """
    try:
        container = client.containers.create(
            plan.image,
            name=name,
            entrypoint=list(command),  # in place of the image's own, whose CMD then does not count
            environment=dict(environment),
            labels=dict(labels),
            ports={f"{port}/tcp": ("127.0.0.1", published)},
            mounts=bind_mounts(plan.mounts),
            **ALWAYS,
            **_granted(plan.resources),
        )
    except ImageNotFound as error:
        raise HostError(f"the engine has no image {plan.image} any more") from error
    except UNREACHABLE as error:
        raise HostError(f"the engine does not create the container: {said(error)}") from error
    put_files(container, plan.files)
    return container


def bind_mounts(mounts: Iterable[Mount], *, read_only: bool = False) -> list[EngineMount]:
    """In the engine's words; a source that is missing is then an error, and no new folder."""
    return [
        EngineMount(m.target, m.source, type="bind", read_only=read_only or m.read_only)
        for m in mounts
    ]


def put_files(container: Container, files: Iterable[PutFile]) -> None:
    """Copy files of this machine into a container.

    Raises:
        HostError: A file cannot be read, or the engine does not take it.
    """
    buffer = io.BytesIO()
    try:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for file in files:
                content = Path(file.source).read_bytes()
                entry = tarfile.TarInfo(file.target.lstrip("/"))
                entry.size, entry.mode = len(content), 0o644
                entry.mtime = time.time()  # another one than the byte code of the image names
                archive.addfile(entry, io.BytesIO(content))
            if archive.getmembers():
                archive.close()
                container.put_archive("/", buffer.getvalue())
    except (OSError, APIError) as error:
        raise HostError(f"files cannot be put into the container: {said(error)}") from error


def start(container: Container, port: int) -> None:
    """Start a created container.

    Raises:
        HostError: The machine cannot give what the profile asks for.
        ServerNotReadyError: The port is taken.
    """
    try:
        container.start()
    except UNREACHABLE as error:
        raise _refusal(said(error), port) from error


def _granted(resources: Resources) -> dict[str, Any]:
    """Resources in docker-py's names."""
    gpus = resources.gpus
    granted: dict[str, Any] = {
        "cap_add": list(resources.capabilities),
        "ipc_mode": resources.ipc,
        "ulimits": [
            Ulimit(name=name, soft=limit.soft, hard=limit.hard)
            for name, limit in resources.ulimits.items()
        ],
        "security_opt": [] if resources.new_privileges else ["no-new-privileges"],
    }
    if resources.ipc == "private":  # the machine's own /dev/shm has the size that it has
        granted["shm_size"] = resources.shared_memory_bytes
    if resources.memory_bytes is not None:
        granted["mem_limit"] = granted["memswap_limit"] = resources.memory_bytes
    if gpus is not None:
        granted["device_requests"] = [
            DeviceRequest(
                count=-1 if gpus.count == "all" else gpus.count or 0,
                device_ids=list(gpus.device_ids),
                capabilities=[["gpu"]],
            )
        ]
    return granted


def _refusal(told: str, port: int) -> HostError | ArmError:
    if "could not select device driver" in told:
        return HostError(
            "the profile asks for GPUs, and this engine cannot give any to a container: the"
            " NVIDIA Container Toolkit is not installed, or Docker was not restarted since"
            f" (nvidia-ctk runtime configure --runtime=docker). The engine says: {told}"
        )
    if "address already in use" in told or "port is already allocated" in told:
        return ServerNotReadyError(f"port {port} on 127.0.0.1 was taken in the meantime: {told}")
    return HostError(f"the engine does not start the container: {told}")
