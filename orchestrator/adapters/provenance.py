"""Collects what an arm's server is made of, before it is started."""

import hashlib
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shutil import which

import docker
import structlog
from pydantic import ValidationError

from orchestrator.adapters.docker_engine import UNREACHABLE, docker_engine, image_facts
from orchestrator.adapters.engine_place import SshPlace, engine_place
from orchestrator.adapters.image_package import looked_into, output_of
from orchestrator.adapters.process_server import environment
from orchestrator.adapters.ssh_tunnel import told_there
from orchestrator.errors import HostError
from orchestrator.model.container import ContainerPlan
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.provenance import (
    ArmProvenance,
    EngineHost,
    GpuFacts,
    ImageFacts,
    Installation,
    ModelFacts,
)
from orchestrator.model.secrets import without_secrets
from orchestrator.planning.containers import snapshot_revision

log = structlog.get_logger()

_SCRIPT = Path(__file__).parent / "engine_side" / "describe_installation.py"

_LIMIT_S = 60.0
"""For an interpreter to read some files, and for nvidia-smi: both under 1 s when idle."""


def arm_provenance(
    launch: LaunchPlan, model_dir: Path | None, patched_files: Mapping[str, str]
) -> ArmProvenance:
    """Everything about an arm's server that can be known before it starts.

    What cannot be found out is `None`, and said in our log; it keeps no arm from being run.

    Args:
        launch: As it will be started.
        model_dir: On this machine; `None` where the server has no model of its own.
        patched_files: File to its SHA-256 after the patch.
    """
    image = engine_host = None
    if launch.container is None:
        installation = _installed(launch)
    else:
        with docker_engine() as client:
            image = _image(client, launch.container)
            engine_host = _engine_host(client)
            installation = _installed_in_image(client, launch, launch.container)
    return ArmProvenance(
        argv=launch.argv,
        environment=without_secrets(launch.environment),
        patched_files=dict(patched_files),
        image=image,
        engine_host=engine_host,
        installation=installation,
        model=None if model_dir is None else model_facts(model_dir),
        kernel=platform.release(),
        gpus=_gpus(None if launch.container is None else engine_place()),
    )


def model_facts(folder: Path) -> ModelFacts:
    """A model's folder by its list of files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in files}
    listed = "".join(f"{name} {size}\n" for name, size in sizes.items())
    return ModelFacts(
        folder=str(folder),
        revision=snapshot_revision(str(folder)),
        files=len(sizes),
        size_bytes=sum(sizes.values()),
        list_sha256=hashlib.sha256(listed.encode()).hexdigest(),
    )


def _installed(launch: LaunchPlan) -> Installation | None:
    try:
        done = subprocess.run(
            [launch.argv[0], "-B", str(_SCRIPT)],
            env=environment(launch, os.environ),
            capture_output=True,
            timeout=_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _say_unknown(error)
        return None
    return _described(done.stdout)


def _installed_in_image(
    client: docker.DockerClient, launch: LaunchPlan, container: ContainerPlan
) -> Installation | None:
    command = [container.python, "-B", "-c", _SCRIPT.read_text(encoding="utf-8")]
    try:
        with looked_into(
            client, container.image, command, launch.environment, container.mounts
        ) as look:
            return _described(output_of(look))
    except HostError as error:
        _say_unknown(error)
        return None


def _described(told: bytes) -> Installation | None:
    try:
        return Installation.from_json(told)
    except ValidationError as error:
        _say_unknown(error)
        return None


def _say_unknown(error: Exception) -> None:
    log.warning("provenance.installation_unknown", error=str(error)[:600])


def _image(client: docker.DockerClient, container: ContainerPlan) -> ImageFacts | None:
    try:
        return image_facts(client, container.image, declared=container.declared)
    except UNREACHABLE as error:
        log.warning("provenance.image_unknown", error=str(error))
        return None


def _engine_host(client: docker.DockerClient) -> EngineHost | None:
    try:
        told = client.info()
    except UNREACHABLE as error:
        log.warning("provenance.engine_unknown", error=str(error))
        return None
    return EngineHost(
        engine_version=str(told["ServerVersion"]),
        kernel=str(told["KernelVersion"]),
        operating_system=str(told["OperatingSystem"]),
        architecture=str(told["Architecture"]),
    )


def _gpus(place: SshPlace | None) -> tuple[GpuFacts, ...] | None:
    """Of the server's machine."""
    if place is not None:
        told = told_there(place, shlex.join(["nvidia-smi", *_GPU_QUERY]), limit_s=_LIMIT_S)
        return None if told is None else _named(told)
    program = which("nvidia-smi")
    if program is None:
        return None
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [program, *_GPU_QUERY],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
        return _named(done.stdout)
    return None


_GPU_QUERY = ("--query-gpu=name,driver_version", "--format=csv,noheader")


def _named(told: str) -> tuple[GpuFacts, ...]:
    lines = (line.rpartition(", ") for line in told.splitlines())
    return tuple(GpuFacts(name=name, driver=driver) for name, _, driver in lines)
